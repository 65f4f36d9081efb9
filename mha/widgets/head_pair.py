"""Two heads of a decoder on one sentence, side by side, and how far apart they look beside what chance would give."""

import numpy as np
import traitlets

from mha.analysis.similarity import js_distance, pattern_distances, shuffled_keys
from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting
from mha.widgets.head_maps import SAME, checked_maps, packed, unpacked, weight
from mha.widgets.svg import FAINT, canvas, label, shorten, tag

WIDTH, LEFT, GAP, SIZE, TOP = 480, 70, 12, 192, 30
LINE = TOP + SIZE + 74
HEIGHT = LINE + 40
SPAN = WIDTH - LEFT - 14


class HeadPair(Widget):
    """The maps of two heads, (layer, head) each, and their distance; `start` counts the first token as well.

    `patterns` is (layers, heads, tokens, tokens), causal, and kept in 8 bits. What shuffled keys give is drawn once.
    """

    _esm = module_source("head_pair")
    tokens = data(traitlets.List(traitlets.Unicode()))
    maps = data(traitlets.Unicode())
    num_layers = data(traitlets.Int())
    num_heads = data(traitlets.Int())
    chance = data(traitlets.List(traitlets.Float()))
    layer_a = setting(traitlets.Int())
    head_a = setting(traitlets.Int())
    layer_b = setting(traitlets.Int())
    head_b = setting(traitlets.Int())
    start = setting(traitlets.Bool())

    def __init__(self, tokens, patterns, *, a=(0, 0), b=(0, 0), start=False, name="", caption=None):
        tokens = checked_tokens(tokens, 4)
        maps = checked_maps(patterns, len(tokens))
        layers, heads = maps.shape[:2]
        text = packed(maps)
        kept = unpacked(text, layers, heads, len(tokens)).reshape(-1, *maps.shape[2:])
        super().__init__(
            tokens=tokens,
            maps=text,
            num_layers=layers,
            num_heads=heads,
            chance=[_by_chance(counted(kept, with_start)) for with_start in (False, True)],
            layer_a=a[0],
            head_a=a[1],
            layer_b=b[0],
            head_b=b[1],
            start=start,
            name=name,
            caption=caption,
        )

    def limits(self):
        ends = {"layer": (0, self.num_layers - 1), "head": (0, self.num_heads - 1)}
        return {f"{key}_{side}": end for key, end in ends.items() for side in "ab"}

    @traitlets.validate("layer_a", "head_a", "layer_b", "head_b")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the distance of the two heads, that of A and the head most like it, and A's median distance."""
        kept = unpacked(self.maps, self.num_layers, self.num_heads, len(self.tokens)).reshape(
            -1, len(self.tokens), len(self.tokens)
        )
        maps = counted(kept, self.start)
        first, second = (self.place(side) for side in "ab")
        to_all = js_distance(maps, maps[first], visible=causal(maps))
        others = np.delete(np.arange(len(maps)), first)
        nearest = int(others[np.argmax(to_all[others] <= to_all[others].min() + SAME)])
        return {
            "weights_a": kept[first],
            "weights_b": kept[second],
            "distance": float(to_all[second]),
            "nearest": list(divmod(nearest, self.num_heads)),
            "nearest_distance": float(to_all[nearest]),
            "median": float(np.median(to_all[others])),
            "shuffled": self.chance[int(self.start)],
        }

    def place(self, side):
        return getattr(self, f"layer_{side}") * self.num_heads + getattr(self, f"head_{side}")

    def sentence(self):
        found = self.compute()
        numbers = {key: f"{found[key]:.2f}" for key in ("distance", "nearest_distance", "median", "shuffled")}
        layer, head = found["nearest"]
        counted = self.words["with_start" if self.start else "without_start"]
        sides = {name: getattr(self, name) for name in ("layer_a", "head_a", "layer_b", "head_b")}
        return say("widgets.head_pair.sentence", **sides, **numbers, layer=layer, head=head, counted=counted)

    def alt(self):
        heads = self.num_layers * self.num_heads
        return f"{say('widgets.head_pair.overview', count=heads, n=len(self.tokens))} {self.sentence()}"

    def picture(self):
        found = self.compute()
        second = LEFT + SIZE + GAP
        maps = self.map(found["weights_a"], "a", LEFT) + self.map(found["weights_b"], "b", second)
        return canvas(WIDTH, HEIGHT, maps + self.scale(found))

    def map(self, weights, side, left):
        """Draw one map under its name; the labels of the tokens stand left of the first."""
        n, cell = len(self.tokens), SIZE / len(self.tokens)
        size, gap = min(11, 0.95 * cell), min(1, 0.1 * cell)
        about = {"side": side.upper(), "layer": getattr(self, f"layer_{side}"), "head": getattr(self, f"head_{side}")}
        parts = [label(left, TOP - 12, say("widgets.head_pair.title", **about), {"font-weight": "700"})]
        for i in range(n):
            for j in range(i + 1):
                box = {"x": left + j * cell, "y": TOP + i * cell, "width": cell - gap, "height": cell - gap}
                faint = 1.0 if self.start or (i > 0 and j > 0) else 0.35
                shade = faint * (FAINT + (1 - FAINT) * weights[i, j])
                parts.append(tag("rect", {**box, "class": "w", "fill-opacity": shade}))
            if side == "a":
                place = {"text-anchor": "end", "font-size": size}
                parts.append(label(LEFT - 6, TOP + (i + 0.5) * cell + 0.35 * size, shorten(self.tokens[i]), place))
        return "".join(parts)

    def scale(self, found):
        """Draw distances from 0 to 1 on a line: of the pair, of the nearest to A, A's median, and by chance."""
        parts = [tag("path", {"d": f"M{LEFT} {LINE}h{SPAN}", "stroke": "currentColor", "stroke-opacity": 0.5})]
        parts.append(label(LEFT - 6, LINE + 4, self.words["axis"], {"text-anchor": "end", "class": "muted"}))
        for value in (0, 1):
            middle = {"text-anchor": "middle", "class": "muted"}
            parts.append(label(LEFT + value * SPAN, LINE + 18, str(value), middle))
        marks = (("nearest_distance", "nearest", 12), ("median", "median", 26), ("shuffled", "shuffled", 40))
        for key, words, up in marks:
            x = LEFT + found[key] * SPAN
            stem = {"d": f"M{x:.2f} {LINE}v{-up + 3}", "stroke": "currentColor", "stroke-opacity": 0.5}
            side = {"text-anchor": "end" if found[key] > 0.5 else "start", "font-size": 11}
            parts += [
                tag("path", stem),
                label(x + (-3 if found[key] > 0.5 else 3), LINE - up + 8, self.words[words], side),
            ]
        x = LEFT + found["distance"] * SPAN
        parts.append(tag("circle", {"cx": x, "cy": LINE, "r": 6, "class": "w"}))
        words = f"{self.words['pair']} {found['distance']:.2f}"
        parts.append(label(x, LINE + 32, words, {"text-anchor": "middle", **weight(True)}))
        return "".join(parts)


def counted(maps, start):
    """Return the maps with the first token, or without it."""
    return maps if start else maps[:, 1:, 1:]


def causal(maps):
    return np.tri(maps.shape[-1], dtype=bool)


def _by_chance(maps):
    """Return the median distance of a head to heads with shuffled keys."""
    visible = causal(maps)
    mixed = shuffled_keys(maps, np.random.default_rng(0), visible=visible)
    some = slice(None, None, max(1, len(maps) // 30))
    return round(float(np.median(pattern_distances(maps[some], mixed[some], visible=visible))), 3)
