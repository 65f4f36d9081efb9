"""A walk through the tiles of one head: what is known after each, and all that is kept of it."""

import numpy as np
import traitlets

from mha import reference
from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting, stored
from mha.widgets.svg import FAINT, canvas, label, number, shorten, tag

LEFT, TOP, SIZE = 66, 62, 332
TABLE, LINE = TOP + SIZE + 36, 20
WIDTH, HEIGHT = 430, TABLE + 6 * LINE
SIDES = [1, 2, 3, 4]
COLUMNS = {"top": 118, "factor": 172, "total": 226, "mixed": 322, "output": 418}  # right edges


class Flash(Widget):
    """Attention of one head in tiles of `side` × `side`, after `step` tiles.

    `q` and `k` are (tokens, d), `v` is (tokens, 2): two columns of values are mixed. Book: {eq}`online-softmax`.
    """

    _esm = module_source("flash")
    tokens = data(traitlets.List(traitlets.Unicode()))
    q = data(traitlets.List())
    k = data(traitlets.List())
    v = data(traitlets.List())
    step = setting(traitlets.Int())
    side = setting(traitlets.Int())
    causal = setting(traitlets.Bool())

    def __init__(self, tokens, q, k, v, *, step=1, side=3, causal=False, name="", caption=None):
        tokens = checked_tokens(tokens, 2)
        q = stored(q, "q", (len(tokens), "d"))
        super().__init__(
            tokens=tokens,
            q=q,
            k=stored(k, "k", (len(tokens), len(q[0]))),
            v=stored(v, "v", (len(tokens), 2)),
            side=side,
            causal=causal,
            step=step,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"step": (1, len(self.tokens) ** 2), "side": (SIDES[0], SIDES[-1])}

    @traitlets.validate("step", "side")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def tiles(self):
        """Return the first query and the first key of each tile that holds a visible pair, in their order."""
        starts = range(0, len(self.tokens), self.side)
        return [(i, j) for i in starts for j in starts if not self.causal or j < i + self.side]

    def compute(self):
        """Return where the walk is, what is kept for the queries there, and all weights as far as they are known."""
        n, side, tiles = len(self.tokens), self.side, self.tiles()
        q, k, v = (np.array(x) for x in (self.q, self.k, self.v))
        scores = q @ k.T / np.sqrt(q.shape[1])
        see = np.tri(n, dtype=bool) if self.causal else np.ones((n, n), bool)
        step = min(self.step, len(tiles))
        weights, met = np.zeros((n, n)), np.zeros((n, n), bool)
        before = state = reference.start((0,), 2)
        for i, j in tiles[:step]:
            rows, keys = slice(i, min(i + side, n)), slice(j, min(j + side, n))
            before = reference.start((rows.stop - i,), 2) if j == 0 else state
            state = reference.online_softmax(before, scores[rows, keys], v[keys], see=see[rows, keys])
            met[rows, keys] = see[rows, keys]
            known = np.exp(scores[rows] - state.top[:, None]) / state.total[:, None]
            weights[rows] = np.where(met[rows], known, 0.0)
        i, j = tiles[step - 1]
        return {
            "step": step,
            "count": len(tiles),
            "skipped": len(range(0, n, side)) ** 2 - len(tiles),
            "query": i,
            "key": j,
            "ready": step == len(tiles) or tiles[step][0] != i,
            "met": met,
            "weights": weights,
            "top": state.top,
            "factor": np.exp(before.top - state.top),
            "total": state.total,
            "mixed": state.mixed,
            "output": state.mixed / state.total[:, None],
        }

    def sentence(self):
        found, last = self.compute(), len(self.tokens) - 1
        i, j = found["query"], found["key"]
        return say(
            "widgets.flash.sentence",
            step=found["step"],
            count=found["count"],
            first_query=i,
            last_query=min(i + self.side - 1, last),
            first_key=j,
            last_key=min(j + self.side - 1, last),
            i=i,
            query=self.tokens[i],
            **{name: short(found[name][0]) for name in ("top", "factor", "total")},
            state=self.words["told_ready" if found["ready"] else "told_going"],
        )

    def alt(self):
        found = self.compute()
        settings = say(
            "widgets.flash.settings",
            tokens=len(self.tokens),
            side=self.side,
            mask=self.words["causal" if self.causal else "no_mask"],
            skipped=found["skipped"],
            all=found["count"] + found["skipped"],
        )
        return f"{settings} {self.sentence()}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.map(found) + self.kept(found))

    def map(self, found):
        """Draw the weights known so far, and the frame of the tile that is being taken in."""
        n, cell, end = len(self.tokens), SIZE / len(self.tokens), {"text-anchor": "end"}
        parts = [
            label(LEFT - 8, TOP - 24, f"{self.words['key']} →", {**end, "class": "muted"}),
            label(LEFT - 8, TOP - 8, f"{self.words['query']} ↓", {**end, "class": "muted"}),
        ]
        for i, token in enumerate(self.tokens):
            middle = (i + 0.5) * cell
            bold = {"font-weight": "700"} if 0 <= i - found["query"] < self.side else {}
            turned = {"transform": f"rotate(-45 {LEFT + middle:.1f} {TOP - 8})"}
            parts.append(label(LEFT + middle, TOP - 8, shorten(token), turned))
            parts.append(label(LEFT - 8, TOP + middle + 4, shorten(token), {**end, **bold}))
        for i, j in np.ndindex(n, n):
            x, y = LEFT + j * cell, TOP + i * cell
            if self.causal and j > i:
                parts.append(tag("circle", {"cx": x + cell / 2, "cy": y + cell / 2, "r": 1.2, "fill-opacity": 0.5}))
            else:
                shade = FAINT + (1 - FAINT) * found["weights"][i, j] if found["met"][i, j] else 0.0
                box = {"x": x + 0.5, "y": y + 0.5, "width": cell - 1, "height": cell - 1}
                parts.append(tag("rect", {**box, "class": "w", "fill-opacity": shade}))
        grid = "".join(
            f"M{number(LEFT + at * cell)} {TOP}v{SIZE}M{LEFT} {number(TOP + at * cell)}h{SIZE}"
            for at in (*range(0, n, self.side), n)
        )
        parts.append(tag("path", {"d": grid, "stroke": "currentColor", "stroke-opacity": 0.25}))
        frame = {"fill": "none", "stroke": "currentColor", "stroke-width": 2.5, "rx": 2}
        parts.append(tag("rect", {**self.box(found["query"], found["key"]), **frame}))
        for step, (i, j) in enumerate(self.tiles(), start=1):
            chosen = {"data-set": "step", "data-value": str(step)}
            parts.append(tag("rect", {**self.box(i, j), "fill-opacity": 0, "class": "pick", **chosen}))
        return "".join(parts)

    def box(self, i, j):
        """Return where the tile lies whose first query is i and first key j."""
        n, cell = len(self.tokens), SIZE / len(self.tokens)
        width, height = ((min(first + self.side, n) - first) * cell for first in (j, i))
        return {"x": LEFT + j * cell, "y": TOP + i * cell, "width": width, "height": height}

    def kept(self, found):
        """Write what is kept for each query of the tile."""
        end = {"text-anchor": "end"}
        parts = [label(LEFT - 8, TABLE, self.words["row_column"], {**end, "class": "muted"})]
        parts += [
            label(right, TABLE, self.words[f"{name}_column"], {**end, "class": "muted"})
            for name, right in COLUMNS.items()
        ]
        for line in range(len(found["top"])):
            y = TABLE + (line + 1) * LINE
            parts.append(label(LEFT - 8, y, shorten(self.tokens[found["query"] + line]), {**end, "font-weight": "700"}))
            for name, right in COLUMNS.items():
                values = np.atleast_1d(found[name][line])
                bold = {"font-weight": "700"} if name == "output" and found["ready"] else {}
                parts.append(label(right, y, "  ".join(map(short, values)), {**end, **bold}))
        state = self.words["ready" if found["ready"] else "going"]
        parts.append(label(COLUMNS["output"], TABLE + 5 * LINE, state, {**end, "class": "muted"}))
        return "".join(parts)


def short(x):
    """Write a number with two decimals."""
    text = f"{x:.2f}".replace("-", "−")
    return "0.00" if text == "−0.00" else text
