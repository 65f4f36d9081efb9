"""Heads × sequence length × model width, on the queries and keys of a real layer."""

import math

import numpy as np
import traitlets

from mha import reference
from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting, stored
from mha.widgets.svg import FAINT, canvas, label, number, shorten, tag

WIDTH, HEIGHT = 430, 652
EDGE, BREADTH = 23, 384
STRIP, MAP, SIZE, LEFT = 22, 78, 216, 96
SMALL = MAP + SIZE + 78
COUNTS = SMALL + 158
LEVELS = 50
COUNTED_WIDTHS = [384, 768, 1536, 12288]
COUNTED_LENGTHS = [0, 512, 2048, 8192, 131072]


def colour(head, heads):
    """Return the hue of a head: heads are spread over the colour circle."""
    return f"hsl({number(200 + 360 * head / heads)} 45% 45%)"


def amount(x, words):
    """Write a count: exactly below ten million, with three digits and a unit above."""
    if x < 1e7:
        return f"{x:,}".replace(",", "\u202f")
    for unit, size in (("million", 1e6), ("billion", 1e9), ("trillion", 1e12)):
        if x < 1000 * size or unit == "trillion":
            small = x / size
            return f"{small:.{2 if small < 10 else 1 if small < 100 else 0}f}\u202f{words[unit]}"
    raise AssertionError("unreachable")


class Heads(Widget):
    """One layer's queries and keys, cut into any number of heads, with what the cut costs.

    `q` and `k` are (heads, tokens, d_head), split as the model was trained. Book: {eq}`multi-head`.
    """

    _esm = module_source("heads")
    tokens = data(traitlets.List(traitlets.Unicode()))
    q = data(traitlets.List())
    k = data(traitlets.List())
    trained_heads = data(traitlets.Int())
    head_options = data(traitlets.List(traitlets.Int()))
    width_options = data(traitlets.List(traitlets.Int()))
    length_options = data(traitlets.List(traitlets.Int()))
    num_heads = setting(traitlets.Int())
    length = setting(traitlets.Int())
    head = setting(traitlets.Int())
    counted_width = setting(traitlets.Int())
    counted_length = setting(traitlets.Int())

    def __init__(
        self,
        tokens,
        q,
        k,
        *,
        num_heads=None,
        length=None,
        head=0,
        counted_width=None,
        counted_length=0,
        name="",
        caption=None,
    ):
        tokens = checked_tokens(tokens, 2)
        shape = np.shape(q)
        q = np.array(stored(q, "q", ("heads", len(tokens), "d_head")))
        k = np.array(stored(k, "k", shape))
        trained, _, d_head = shape
        options = [heads for heads in range(1, 25) if trained * d_head % heads == 0]
        wider = [width for width in COUNTED_WIDTHS if width > trained * d_head and all(width % h == 0 for h in options)]
        super().__init__(
            tokens=tokens,
            q=reference.join_heads(q[None])[0].tolist(),
            k=reference.join_heads(k[None])[0].tolist(),
            trained_heads=trained,
            head_options=options,
            width_options=[trained * d_head, *wider],
            length_options=COUNTED_LENGTHS,
            num_heads=trained if num_heads is None else num_heads,
            length=len(tokens) if length is None else length,
            head=head,
            counted_width=trained * d_head if counted_width is None else counted_width,
            counted_length=counted_length,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"length": (2, len(self.tokens)), "head": (0, max(self.head_options) - 1)}

    @traitlets.validate("length", "head")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("num_heads", "counted_width", "counted_length")
    def _among_options(self, proposal):
        key, value = proposal.trait.name, proposal.value
        options = {
            "num_heads": self.head_options,
            "counted_width": self.width_options,
            "counted_length": self.length_options,
        }[key]
        if value not in options:
            raise ValueError(f"{key} is {value}, expected one of {options}")
        return value

    def compute(self):
        """Return the weights of every head, what the shown head reads and does, and the counts."""
        q, k = (reference.split_heads(np.array(x)[None, : self.length], self.num_heads) for x in (self.q, self.k))
        weights = reference.attention_weights(q, k)[0]
        head, d_head = min(self.head, self.num_heads - 1), q.shape[-1]
        shown = weights[head]
        best = np.unravel_index(shown.argmax(), shown.shape)
        entropy = -np.sum(shown * np.log(np.maximum(shown, np.finfo(float).tiny)), axis=-1).mean()
        n, d = self.counted_length or self.length, self.counted_width
        return {
            "weights": weights,
            "head": head,
            "d_head": d_head,
            "first": head * d_head,
            "last": (head + 1) * d_head - 1,
            "best": [int(best[0]), int(best[1])],
            "entropy": float(entropy),
            "limit": math.log(self.length),
            "n": n,
            "parameters": 4 * d**2,
            "projection": 8 * n * d**2,
            "mixing": 4 * n**2 * d,
            "memory": self.num_heads * n**2,
        }

    def sentence(self):
        found = self.compute()
        i, j = found["best"]
        return say(
            "widgets.heads.sentence",
            head=found["head"],
            heads=self.num_heads,
            first=found["first"],
            last=found["last"],
            share=math.floor(100 * found["weights"][found["head"], i, j] + 0.5),
            i=i,
            j=j,
            query=self.tokens[i],
            key=self.tokens[j],
            entropy=f"{found['entropy']:.2f}",
            limit=f"{found['limit']:.2f}",
            origin=self.origin(),
        )

    def origin(self):
        """Say whether the model was trained with this split."""
        if self.num_heads == self.trained_heads:
            return say("widgets.heads.trained")
        return say("widgets.heads.what_if", trained=self.trained_heads)

    def alt(self):
        found = self.compute()
        settings = say(
            "widgets.heads.settings",
            length=self.length,
            width=amount(self.counted_width, self.words),
            counted_length=amount(found["n"], self.words),
            **{key: amount(found[key], self.words) for key in ("parameters", "projection", "mixing", "memory")},
        )
        return f"{self.sentence()} {settings}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.cut(found) + self.shown(found) + self.every(found) + self.cost(found))

    def cut(self, found):
        """Draw the columns of q and k as one bar, cut into heads, and where the shown slice goes."""
        heads, step = self.num_heads, BREADTH / self.num_heads
        words = say("widgets.heads.columns", width=len(self.q[0]), heads=heads)
        parts = [label(EDGE, STRIP - 8, words, {"class": "muted"})]
        for head in range(heads):
            chosen = head == found["head"]
            box = {
                "x": EDGE + head * step + 0.5,
                "y": STRIP,
                "width": step - 1,
                "height": 24,
                "fill": colour(head, heads),
            }
            faint = {"fill-opacity": 1 if chosen else 0.3}
            parts.append(tag("rect", {**box, **faint, "class": "pick", **self.chooses(head)}))
            ink = {"fill": "#fff", "font-weight": "700"} if chosen else {}
            middle = {"text-anchor": "middle", "font-size": 11 if heads < 24 else 9, "pointer-events": "none"}
            parts.append(label(EDGE + (head + 0.5) * step, STRIP + 16, str(head), {**middle, **ink}))
        left, right = EDGE + found["head"] * step, EDGE + (found["head"] + 1) * step
        funnel = f"M{number(left)} {STRIP + 25}H{number(right)}L{LEFT + SIZE} {MAP - 4}H{LEFT}z"
        parts.append(tag("path", {"d": funnel, "fill": colour(found["head"], heads), "fill-opacity": 0.16}))
        return "".join(parts)

    def shown(self, found):
        """Draw the weights of the shown head, large, with the tokens."""
        head, cell, end = found["head"], SIZE / self.length, {"text-anchor": "end"}
        side, words = LEFT + SIZE + 14, self.words
        parts = [
            tag("rect", {"x": LEFT, "y": MAP - 4, "width": SIZE, "height": 4, "fill": colour(head, self.num_heads)})
        ]
        for i, j in np.ndindex(self.length, self.length):
            box = {"x": LEFT + j * cell + 0.5, "y": MAP + i * cell + 0.5, "width": cell - 1, "height": cell - 1}
            parts.append(
                tag("rect", {**box, "class": "w", "fill-opacity": FAINT + (1 - FAINT) * found["weights"][head, i, j]})
            )
        for i, token in enumerate(self.tokens[: self.length]):
            middle = (i + 0.5) * cell
            turned = {**end, "transform": f"rotate(-45 {LEFT + middle + 4:.1f} {MAP + SIZE + 12})"}
            parts.append(label(LEFT - 8, MAP + middle + 4, shorten(token), end))
            parts.append(label(LEFT + middle + 4, MAP + SIZE + 12, shorten(token), turned))
        span = {"first": found["first"], "last": found["last"]}
        parts += [
            label(LEFT - 8, MAP - 8, f"{words['query']} ↓", {**end, "class": "muted"}),
            label(side, MAP + SIZE + 14, f"{words['key']} →", {"class": "muted"}),
            label(side, MAP + 12, say("widgets.heads.head", head=head), {"font-weight": "700"}),
            label(side, MAP + 32, words["slice"], {"class": "muted"}),
            label(side, MAP + 48, say("widgets.heads.slice_value", **span)),
            label(side, MAP + 70, say("widgets.heads.divisor", width=found["d_head"])),
        ]
        return "".join(parts)

    def every(self, found):
        """Draw the weights of all heads, small."""
        heads = self.num_heads
        rows = 1 if heads <= 6 else 2 if heads <= 16 else 3
        columns = math.ceil(heads / rows)
        step = BREADTH / max(columns, 6)
        size = min(step - 7, 146 / rows - 12)
        words = say("widgets.heads.all_heads", heads=heads) if heads > 1 else self.words["one_head"]
        parts = [label(EDGE, SMALL - 14, words, {"class": "muted"})]
        for head in range(heads):
            x, y = EDGE + head % columns * step + 3, SMALL + head // columns * (size + 12)
            square = {"x": x, "y": y, "width": size, "height": size}
            parts.append(tag("rect", {**square, "y": y - 4, "height": 3, "fill": colour(head, heads)}))
            parts.append(tag("rect", {**square, "class": "w", "fill-opacity": FAINT}))
            parts.append(small_map(found["weights"][head], x, y, size))
            frame = {"fill-opacity": 0, "stroke": "currentColor", "stroke-opacity": 1 if head == found["head"] else 0}
            parts.append(tag("rect", {**square, **frame, "stroke-width": 1.5, "class": "pick", **self.chooses(head)}))
        return "".join(parts)

    def cost(self, found):
        """Write the four counts and draw how the multiplications divide."""
        words, end = self.words, {"text-anchor": "end"}
        about = {
            "width": amount(self.counted_width, self.words),
            "length": amount(found["n"], self.words),
            "heads": self.num_heads,
        }
        parts = [label(EDGE, COUNTS, say("widgets.heads.counts", **about), {"class": "muted"})]
        for line, key in enumerate(("parameters", "projection", "mixing", "memory")):
            y = COUNTS + 20 + 17 * line
            parts.append(label(EDGE, y, words[key]))
            parts.append(label(EDGE + 190, y, words[f"{key}_formula"], {"class": "muted"}))
            parts.append(label(EDGE + BREADTH, y, amount(found[key], words), end))
        share = found["mixing"] / (found["mixing"] + found["projection"])
        bar = {"y": COUNTS + 82, "height": 8, "class": "w"}
        edge = EDGE + BREADTH * (1 - share)
        parts += [
            tag("rect", {"x": EDGE, "width": edge - EDGE, **bar, "fill-opacity": 0.35}),
            tag("rect", {"x": edge, "width": BREADTH * share, **bar}),
            label(EDGE, COUNTS + 105, say("widgets.heads.projection_share", share=f"{100 * (1 - share):.1f}")),
            label(EDGE + BREADTH, COUNTS + 105, say("widgets.heads.mixing_share", share=f"{100 * share:.1f}"), end),
        ]
        return "".join(parts)

    @staticmethod
    def chooses(head):
        return {"data-set": "head", "data-value": str(head)}


def small_map(weights, x, y, size):
    """Draw a map with one path for each of fifty levels, which is small where most weights are near 0."""
    levels = np.floor(LEVELS * weights + 0.5).astype(int)
    parts = []
    for level in range(1, LEVELS + 1):
        squares = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(levels == level))
        if squares:
            parts.append(tag("path", {"d": squares, "class": "w", "fill-opacity": level / LEVELS}))
    place = f"translate({number(x)} {number(y)}) scale({number(size / len(weights))})"
    return tag("g", {"transform": place}, "".join(parts))
