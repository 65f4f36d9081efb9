"""Every head of a decoder on one sentence: an overview to choose from, and the map of the chosen head."""

import base64

import numpy as np
import traitlets

from mha.analysis import patterns
from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting
from mha.widgets.svg import FAINT, canvas, label, shorten, tag

WIDTH, LEFT, SIZE = 430, 74, 342
GRID, GRID_SIZE = 44, 126
TOP = GRID + GRID_SIZE + 46
TALL = 60
BASE = TOP + SIZE + 20 + TALL
HEIGHT = BASE + 58
MEASURES = ["previous", "sink", "entropy"]
LEVELS = 255
SAME = 1e-9  # values closer than this share a rank, so that Python and JavaScript agree on it


def packed(maps):
    """Return causal maps (layers, heads, n, n) as text: one byte a visible pair, row after row.

    A byte holds the square root of a weight, so that small weights keep two digits as well.
    """
    rows, columns = np.tril_indices(maps.shape[-1])
    return base64.b64encode(np.rint(LEVELS * np.sqrt(maps[..., rows, columns])).astype(np.uint8).tobytes()).decode()


def unpacked(text, layers, heads, n):
    """Return the maps (layers, heads, n, n) that `packed` has put into a text; each row adds up to 1."""
    rows, columns = np.tril_indices(n)
    levels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(layers, heads, -1)
    maps = np.zeros((layers, heads, n, n))
    maps[..., rows, columns] = (levels / LEVELS) ** 2
    return maps / maps.sum(-1, keepdims=True)


def checked_maps(x, n):
    """Return the patterns as float64, or raise unless they are causal maps of `n` tokens."""
    maps = np.asarray(x, np.float64)
    if maps.ndim != 4 or maps.shape[2:] != (n, n) or 0 in maps.shape:
        raise ValueError(f"patterns has shape {maps.shape}, expected (layers, heads, {n}, {n}): one map a head")
    if not (maps >= 0).all() or np.triu(maps, 1).any():
        raise ValueError("patterns holds negative, NaN or future weights, expected causal maps of weights from 0 to 1")
    off = np.abs(maps.sum(-1) - 1).max()
    if off > 0.01:
        raise ValueError(f"patterns has a row whose sum is off by {off:.3g}, expected rows that add up to 1")
    return maps


class HeadMaps(Widget):
    """All heads of a decoder on one sentence, shaded by what they do, and the map of the one that is chosen.

    `patterns` is (layers, heads, tokens, tokens), causal. They are kept in 8 bits: a share is right to half a percent.
    """

    _esm = module_source("head_maps")
    tokens = data(traitlets.List(traitlets.Unicode()))
    maps = data(traitlets.Unicode())
    num_layers = data(traitlets.Int())
    num_heads = data(traitlets.Int())
    measure = setting(traitlets.Enum(MEASURES))
    layer = setting(traitlets.Int())
    head = setting(traitlets.Int())
    query = setting(traitlets.Int())

    def __init__(self, tokens, patterns, *, layer=0, head=0, query=None, measure="previous", name="", caption=None):
        tokens = checked_tokens(tokens, 2)
        maps = checked_maps(patterns, len(tokens))
        super().__init__(
            tokens=tokens,
            maps=packed(maps),
            num_layers=maps.shape[0],
            num_heads=maps.shape[1],
            measure=measure,
            layer=layer,
            head=head,
            query=len(tokens) - 1 if query is None else query,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {
            "layer": (0, self.num_layers - 1),
            "head": (0, self.num_heads - 1),
            "query": (0, len(self.tokens) - 1),
        }

    @traitlets.validate("layer", "head", "query")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return three measures of every head, how the chosen head ranks in the shown one, and its weights."""
        n = len(self.tokens)
        maps = unpacked(self.maps, self.num_layers, self.num_heads, n)
        measures = {
            "previous": patterns.previous_token_score(maps),
            "sink": patterns.sink_score(maps),
            "entropy": patterns.entropy(maps),
        }
        shown = measures[self.measure]
        top = int(np.argmax(shown >= shown.max() - SAME))
        weights = maps[self.layer, self.head]
        return {
            **measures,
            "limit": float(np.log(np.arange(1, n + 1)).mean()),
            "rank": 1 + int(np.sum(shown > shown[self.layer, self.head] + SAME)),
            "top": [top // self.num_heads, top % self.num_heads],
            "weights": weights,
            "best": int(np.argmax(weights[self.query] >= weights[self.query].max() - SAME)),
        }

    def sentence(self):
        found, i = self.compute(), self.query
        j = found["best"]
        return say(
            "widgets.head_maps.sentence",
            layer=self.layer,
            head=self.head,
            rank=found["rank"],
            count=self.num_layers * self.num_heads,
            measure=self.words[f"name_{self.measure}"],
            limit=f"{found['limit']:.2f}",
            i=i,
            j=j,
            query=self.tokens[i],
            key=self.tokens[j],
            share=percent(found["weights"][i, j]),
            **{key: f"{found[key][self.layer, self.head]:.2f}" for key in MEASURES},
        )

    def alt(self):
        found = self.compute()
        layer, head = found["top"]
        overview = say(
            "widgets.head_maps.overview",
            count=self.num_layers * self.num_heads,
            layers=self.num_layers,
            heads=self.num_heads,
            n=len(self.tokens),
            measure=self.words[f"name_{self.measure}"],
            layer=layer,
            head=head,
            value=f"{found[self.measure][layer, head]:.2f}",
        )
        return f"{overview} {self.sentence()}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.grid(found) + self.chosen_map(found) + self.chosen_row(found))

    def grid(self, found):
        """Draw one cell a head, layers across and heads down, as strong as the chosen measure."""
        wide, high = SIZE / self.num_layers, GRID_SIZE / self.num_heads
        small, end = {"font-size": 10}, {"text-anchor": "end"}
        limit = found["limit"] if self.measure == "entropy" else 1
        highest = f"{limit:.2f}" if self.measure == "entropy" else "1"
        scale = LEFT + SIZE - 8 * len(highest) - 43
        words = say("widgets.head_maps.all_heads", count=self.num_layers * self.num_heads)
        parts = [
            label(LEFT, 14, words, {"font-weight": "700"}),
            label(LEFT, 32, self.words[f"shade_{self.measure}"], {"class": "muted"}),
            label(scale - 5, 32, "0", {**end, "class": "muted"}),
            label(LEFT + SIZE, 32, highest, {**end, "class": "muted"}),
        ]
        for step in range(5):
            box = {"x": scale + 8 * step, "y": 23, "width": 8, "height": 9, "class": "w"}
            parts.append(tag("rect", {**box, "fill-opacity": FAINT + (1 - FAINT) * step / 4}))
        for layer, head in np.ndindex(self.num_layers, self.num_heads):
            box = {"x": LEFT + layer * wide + 0.5, "y": GRID + head * high + 0.5, "width": wide - 1, "height": high - 1}
            faint = {"fill-opacity": FAINT + (1 - FAINT) * found[self.measure][layer, head] / limit}
            choose = {"data-layer": str(layer), "data-head": str(head)}
            parts.append(tag("rect", {**box, "class": "w pick", **faint, **choose}))
        for layer, words in enumerate(ticks(self.num_layers, self.layer, wide, 14)):
            middle = {"text-anchor": "middle", **small, **weight(layer == self.layer)}
            parts.append(label(LEFT + (layer + 0.5) * wide, GRID + GRID_SIZE + 13, words, middle))
        for head, words in enumerate(ticks(self.num_heads, self.head, high, 11)):
            beside = {**end, **small, **weight(head == self.head)}
            parts.append(label(LEFT - 8, GRID + (head + 0.5) * high + 3.5, words, beside))
        frame = {"x": LEFT - 2, "y": GRID - 2, "width": SIZE + 4, "height": GRID_SIZE + 4, "rx": 3, "class": "all"}
        ring = {
            "x": LEFT + self.layer * wide - 1,
            "y": GRID + self.head * high - 1,
            "width": wide + 2,
            "height": high + 2,
        }
        line = {"fill": "none", "stroke": "currentColor"}
        parts += [
            label(LEFT - 8, GRID - 12, f"{self.words['head_axis']} ↓", {**end, "class": "muted"}),
            label(LEFT - 8, GRID + GRID_SIZE + 13, f"{self.words['layer_axis']} →", {**end, "class": "muted"}),
            tag("rect", {**frame, **line, "stroke-opacity": 0.3}),
            tag("rect", {**ring, **line, "stroke-width": 2, "rx": 2}),
        ]
        return "".join(parts)

    def chosen_map(self, found):
        """Draw the map of the chosen head; the room above the diagonal names the head."""
        n, cell, end = len(self.tokens), SIZE / len(self.tokens), {"text-anchor": "end"}
        size, gap = min(12, 0.85 * cell), min(1, 0.1 * cell)
        parts = []
        for i in range(n):
            for j in range(i + 1):
                box = {"x": LEFT + j * cell + gap / 2, "y": TOP + i * cell + gap / 2, "width": cell - gap}
                faint = {"fill-opacity": FAINT + (1 - FAINT) * found["weights"][i, j]}
                parts.append(tag("rect", {**box, "height": cell - gap, "class": "w", **faint}))
        for i, token in enumerate(self.tokens):
            chosen = {"font-size": size, **weight(i == self.query)}
            parts.append(label(LEFT - 8, TOP + (i + 0.5) * cell + 0.35 * size, shorten(token), {**end, **chosen}))
        row = {"x": LEFT - 1, "y": TOP + self.query * cell - 1, "width": (self.query + 1) * cell + 2}
        line = {"fill": "none", "stroke": "currentColor", "stroke-width": 2, "rx": 2}
        parts.append(tag("rect", {**row, "height": cell + 2, **line}))
        for i in range(n):
            box = {"x": 0, "y": TOP + i * cell, "width": LEFT + SIZE, "height": cell, "fill-opacity": 0}
            parts.append(tag("rect", {**box, "class": "pick", "data-set": "query", "data-value": str(i)}))
        about = {"layer": self.layer, "head": self.head}
        parts += [
            label(LEFT - 8, TOP - 10, f"{self.words['query']} ↓", {**end, "class": "muted"}),
            label(LEFT + SIZE, TOP + 8, say("widgets.head_maps.chosen", **about), {**end, "font-weight": "700"}),
        ]
        for line, key in enumerate(MEASURES):
            value = f"{found[key][self.layer, self.head]:.2f}"
            strong = weight(key == self.measure)
            parts.append(label(LEFT + SIZE - 34, TOP + 26 + 16 * line, self.words[f"name_{key}"], {**end, **strong}))
            parts.append(label(LEFT + SIZE, TOP + 26 + 16 * line, value, {**end, **strong}))
        return "".join(parts)

    def chosen_row(self, found):
        """Draw the weights of the chosen query as bars with their shares, under the columns they belong to."""
        row, cell, end = found["weights"][self.query], SIZE / len(self.tokens), {"text-anchor": "end"}
        size = min(10, 0.58 * cell)
        parts = [
            label(LEFT - 8, BASE - TALL + 12, self.words["weight"], {**end, "class": "muted"}),
            label(LEFT - 8, BASE - TALL + 27, self.words["percent"], {**end, "class": "muted"}),
            label(LEFT - 8, BASE + 16, f"{self.words['key']} →", {**end, "class": "muted"}),
        ]
        for j, token in enumerate(self.tokens):
            seen, x, tall = j <= self.query, LEFT + (j + 0.5) * cell, TALL * row[j]
            share = str(percent(row[j])) if seen else ""
            strong = weight(j == found["best"])
            bar = {"x": x - 0.4 * cell, "y": BASE - tall, "width": 0.8 * cell, "height": tall, "class": "w"}
            turned = {**end, "transform": f"rotate(-45 {x + 4:.1f} {BASE + 12})"}
            ink = {"font-size": min(12, 0.85 * cell), "fill-opacity": 1 if seen else 0.4, **strong}
            parts += [
                tag("rect", bar),
                label(x, BASE - tall - 4, share, {"text-anchor": "middle", "font-size": size, **strong}),
                label(x + 4, BASE + 12, shorten(token), {**turned, **ink}),
            ]
        parts.append(tag("path", {"d": f"M{LEFT} {BASE}h{SIZE}", "stroke": "currentColor", "stroke-opacity": 0.5}))
        return "".join(parts)


def percent(share):
    """Round half up, as JavaScript does."""
    return int(np.floor(100 * share + 0.5))


def weight(chosen):
    return {"font-weight": "700" if chosen else "400"}


def ticks(count, chosen, pitch, room):
    """Return the words of an axis: each number, or where one needs more room each fifth, and always the chosen one."""
    every = 1 if pitch >= room else 5
    shown = [i == chosen or (i % every == 0 and abs(i - chosen) * pitch >= room) for i in range(count)]
    return [str(i) if shown[i] else "" for i in range(count)]
