"""One token on its way through the blocks of real models: what each layer adds, and where the sum points."""

import math

import numpy as np
import traitlets

from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting
from mha.widgets.svg import canvas, label, number, tag

WIDTH, HEIGHT = 430, 508
EDGE, BREADTH = 12, 406
PANEL, GAP, BASE, RISE = 195, 16, 150, 96
CHART = {"left": 46, "right": 418, "top": 318, "bottom": 440}
SIZES = ("norm", "added_norm", "added_cosine", "start_cosine")
ORDERS = ("post", "pre")
KINDS = ("attention", "feed_forward")
RED, BLUE = "#c8553d", "#2f8097"


def six_digits(x):
    """Return nested lists of numbers with six significant digits."""
    return [[float(f"{value:.6g}") for value in row] for row in np.asarray(x, dtype=float)]


def amount(x):
    """Write a length with three digits or more."""
    return f"{x:.{2 if x < 10 else 1 if x < 100 else 0}f}"


class Block(Widget):
    """The lengths and angles of a stream, block by block; `models` maps a name to (order, tokens, sizes).

    `order` is "post" or "pre", `sizes` a `StreamSizes` of (layers, tokens), two layers a block.
    Book: {eq}`encoder-block`.
    """

    _esm = module_source("block")
    models = data(traitlets.List(traitlets.Dict()))
    model = setting(traitlets.Int())
    block = setting(traitlets.Int())
    token = setting(traitlets.Int())

    def __init__(self, models, *, model=0, block=0, token=0, name="", caption=None):
        stored = [checked(key, *parts) for key, parts in models.items()]
        if not stored:
            raise ValueError("models is empty: expected at least one model")
        super().__init__(models=stored, model=model, block=block, token=token, name=name, caption=caption)

    def limits(self):
        blocks = max(len(model["added_norm"]) // 2 for model in self.models)
        tokens = max(len(model["tokens"]) for model in self.models)
        return {"model": (0, len(self.models) - 1), "block": (0, blocks - 1), "token": (0, tokens - 1)}

    @traitlets.validate("model", "block", "token")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return, for attention and the feed-forward layer of the block: lengths, and angles in degrees."""
        model = self.models[self.model]
        block = min(self.block, len(model["added_norm"]) // 2 - 1)
        token = min(self.token, len(model["tokens"]) - 1)
        norm, added, cosine, start = (np.array(model[key])[:, token] for key in SIZES)
        own = slice(2 * block, 2 * block + 2)
        before, found, cosine = norm[own], added[own], np.clip(cosine[own], -1, 1)
        along, across = before + found * cosine, found * np.sqrt(1 - cosine**2)
        return {
            "block": block,
            "token": token,
            "before": before,
            "added": found,
            "angle": np.degrees(np.arccos(cosine)),
            "along": along,
            "across": across,
            "sum": np.hypot(along, across),
            "turn": np.degrees(np.arctan2(across, along)),
            "after": norm[own.start + 1 : own.stop + 1],
            "start": float(start[own.stop]),
            "norms": norm,
            "additions": added,
        }

    def sentence(self):
        found, model = self.compute(), self.models[self.model]
        parts = [
            say(
                "widgets.block.step",
                kind=self.words[f"told_{kind}"],
                added=amount(found["added"][k]),
                before=amount(found["before"][k]),
                turn=math.floor(found["turn"][k] + 0.5),
            )
            for k, kind in enumerate(KINDS)
        ]
        place = {"token": model["tokens"][found["token"]], "block": found["block"], "model": model["name"]}
        end = say("widgets.block.end", after=amount(found["after"][1]), cosine=f"{found['start']:.2f}")
        return " ".join([say("widgets.block.place", **place), *parts, self.words[f"told_{model['order']}"], end])

    def alt(self):
        return f"{self.words['settings']} {self.sentence()}"

    def picture(self):
        found = self.compute()
        panels = "".join(self.panel(found, k) for k in range(2))
        return canvas(WIDTH, HEIGHT, self.head(found) + panels + self.chart(found))

    def head(self, found):
        model = self.models[self.model]
        title = say("widgets.block.title", block=found["block"], last=len(model["added_norm"]) // 2 - 1)
        end = {"text-anchor": "end", "class": "muted"}
        return label(EDGE, 16, title, {"font-weight": "700"}) + label(
            EDGE + BREADTH, 16, self.words[model["order"]], end
        )

    def panel(self, found, k):
        """Draw the stream as an arrow to the right, what a layer adds at its true angle, and the sum."""
        x, order, words = EDGE + k * (PANEL + GAP), self.models[self.model]["order"], self.words
        before, added, along, across = (float(found[key][k]) for key in ("before", "added", "along", "across"))
        wide = max(before, along) - min(along, 0)
        scale = min((PANEL - 12) / wide, RISE / max(across, 1e-9 * wide))
        origin = x + 6 - min(along, 0) * scale
        tip, end = origin + before * scale, (origin + along * scale, BASE - across * scale)
        rows = (
            (words["stream"], amount(before), ""),
            (
                words["adds"],
                say("widgets.block.share", added=amount(added), share=math.floor(100 * added / before + 0.5)),
                RED,
            ),
            (words["angle"], say("widgets.block.degrees", angle=math.floor(found["angle"][k] + 0.5)), ""),
            (words["sum"], amount(found["sum"][k]), BLUE),
            (words[f"after_{order}"], amount(found["after"][k]), ""),
        )
        parts = [
            label(x, 40, words[KINDS[k]], {"font-weight": "700"}),
            arrow(origin, BASE, tip, BASE, "currentColor"),
            arrow(tip, BASE, *end, RED),
            arrow(origin, BASE, *end, BLUE),
        ]
        for line, (name, value, ink) in enumerate(rows):
            y = BASE + 28 + 19 * line
            look = {"text-anchor": "end"} | ({"fill": ink} if ink else {})
            parts += [label(x, y, name, {"class": "muted"}), label(x + PANEL, y, value, look)]
        return "".join(parts)

    def chart(self, found):
        """Draw the length of the stream and of what is added to it over all blocks, on a logarithmic scale."""
        norms, additions = found["norms"], found["additions"]
        left, right, top, bottom = CHART.values()
        low = math.floor(math.log10(min(norms.min(), additions.min())))
        high = math.ceil(math.log10(max(norms.max(), additions.max())))
        step = (right - left) / len(additions)

        def y(length):
            return bottom - (bottom - top) * (math.log10(length) - low) / (high - low)

        chosen = left + step * 2 * found["block"]
        box = {"y": top, "height": bottom - top, "width": 2 * step, "stroke": "none"}
        parts = [
            label(EDGE, top - 18, self.words["chart"], {"class": "muted"}),
            tag("rect", {"x": chosen, **box, "fill": "currentColor", "fill-opacity": 0.12}),
        ]
        for power in range(low, high + 1):
            line = {"d": f"M{left} {number(y(10.0**power))}H{right}", "stroke": "currentColor", "stroke-opacity": 0.25}
            words = number(10.0**power) if power < 4 else f"10{superscript(power)}"
            parts += [tag("path", line), label(left - 6, y(10.0**power) + 4, words, {"text-anchor": "end"})]
        path = "L".join(f"{number(left + n * step)} {number(y(value))}" for n, value in enumerate(norms))
        parts.append(tag("path", {"d": f"M{path}", "fill": "none", "stroke": BLUE, "stroke-width": 2}))
        for n, value in enumerate(additions):
            place = {"cx": left + (n + 0.5) * step, "cy": y(value), "r": 2.6}
            look = {"fill": RED} if n % 2 == 0 else {"fill": "none", "stroke": RED, "stroke-width": 1.2}
            parts.append(tag("circle", {**place, **look}))
        blocks = len(additions) // 2
        every = 1 if blocks <= 12 else 5
        for n in range(blocks):
            if n % every == 0:
                parts.append(label(left + (2 * n + 1) * step, bottom + 18, str(n), {"text-anchor": "middle"}))
            hit = {"x": left + 2 * n * step, **box, "fill": "transparent", "class": "pick"}
            parts.append(tag("rect", {**hit, "data-set": "block", "data-value": str(n)}))
        parts.append(label(right, bottom + 36, self.words["blocks_axis"], {"text-anchor": "end", "class": "muted"}))
        return "".join(parts) + self.legend()

    def legend(self):
        y = CHART["bottom"] + 56
        return (
            tag("path", {"d": f"M{EDGE} {y - 4}h18", "stroke": BLUE, "stroke-width": 2})
            + label(EDGE + 24, y, self.words["legend_stream"])
            + tag("circle", {"cx": EDGE + 132, "cy": y - 4, "r": 2.6, "fill": RED})
            + label(EDGE + 140, y, self.words["legend_attention"])
            + tag("circle", {"cx": EDGE + 262, "cy": y - 4, "r": 2.6, "fill": "none", "stroke": RED})
            + label(EDGE + 270, y, self.words["legend_feed_forward"])
        )


def checked(name, order, tokens, sizes):
    """Return a model as the page stores it, after checking that its four arrays fit together."""
    if order not in ORDERS:
        raise ValueError(f"order of {name} is {order!r}: expected 'post' or 'pre'")
    tokens = checked_tokens(tokens, 1)
    layers = len(sizes.added_norm)
    if layers == 0 or layers % 2:
        raise ValueError(f"{name} has {layers} layers: expected two for each block")
    for key, value in sizes._asdict().items():
        expected = (layers + (key in ("norm", "start_cosine")), len(tokens))
        if np.shape(value) != expected:
            raise ValueError(f"{key} of {name} has shape {np.shape(value)}, expected {expected}")
    lengths = np.concatenate([sizes.norm, sizes.added_norm])
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError(f"{name} holds a vector of length 0 or infinity, which has no direction")
    return {"name": name, "order": order, "tokens": tokens} | {key: six_digits(getattr(sizes, key)) for key in SIZES}


def arrow(x1, y1, x2, y2, ink):
    """Draw an arrow; a short one has a short head."""
    length = math.hypot(x2 - x1, y2 - y1)
    head = min(8.0, length)
    along_x, along_y = ((x2 - x1) / length, (y2 - y1) / length) if length > 0 else (1.0, 0.0)
    neck_x, neck_y = x2 - head * along_x, y2 - head * along_y
    side_x, side_y = -along_y * head / 2.5, along_x * head / 2.5
    tips = ((x2, y2), (neck_x + side_x, neck_y + side_y), (neck_x - side_x, neck_y - side_y))
    corners = "L".join(f"{number(x)} {number(y)}" for x, y in tips)
    shaft = f"M{number(x1)} {number(y1)}L{number(neck_x)} {number(neck_y)}"
    line = {"d": shaft, "stroke": ink, "stroke-width": 2.5, "fill": "none"}
    return tag("path", line) + tag("path", {"d": f"M{corners}z", "fill": ink})


def superscript(power):
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(power))
