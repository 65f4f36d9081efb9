"""A mask cut into tiles: which a kernel computes without looking, which it looks into, and which it skips."""

import math

import numpy as np
import traitlets

from mha import masks
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting
from mha.widgets.svg import FAINT, canvas, label, tag

SIDES = [1, 2, 4, 8]
LEFT, TOP, SIZE = 66, 34, 336
WIDTH, HEIGHT = LEFT + SIZE + 28, TOP + SIZE + 14
FULL, PARTIAL, SKIPPED = 2, 1, 0


class Tiles(Widget):
    """A window, some global tokens and perhaps causality over `n` positions, in tiles of `rows` × `columns`.

    The pairs are those of `(masks.window(reach, reach) | masks.global_tokens(…)) & masks.causal`.
    """

    _esm = module_source("tiles")
    n = data(traitlets.Int())
    reach = setting(traitlets.Int())
    seen_by_all = setting(traitlets.Int())
    causal = setting(traitlets.Bool())
    rows = setting(traitlets.Int())
    columns = setting(traitlets.Int())

    def __init__(self, n=24, *, reach=3, seen_by_all=1, causal=False, rows=4, columns=4, name="", caption=None):
        if n not in (8, 16, 24, 32):
            raise ValueError(f"n is {n}, expected 8, 16, 24 or 32: every side of a tile divides it")
        settings = {"reach": reach, "seen_by_all": seen_by_all, "causal": causal, "rows": rows, "columns": columns}
        super().__init__(n=n, **settings, name=name, caption=caption)

    def limits(self):
        return {"reach": (0, self.n - 1), "seen_by_all": (0, 4)}

    @traitlets.validate("reach", "seen_by_all")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("rows", "columns")
    def _divides(self, proposal):
        if proposal.value not in SIDES:
            raise traitlets.TraitError(f"{proposal.trait.name} is {proposal.value}, expected one of {SIDES}")
        return proposal.value

    def mask(self):
        mask = masks.window(self.reach, self.reach) | masks.global_tokens([*range(self.seen_by_all)])
        return mask & masks.causal if self.causal else mask

    def compute(self):
        """Return which pairs are visible, the kind of each tile, and how many pairs a kernel computes."""
        mask = self.mask()
        tiles = mask.tiles(self.n, self.n, size=(self.rows, self.columns), refine=True)
        kinds = tiles.visible[0, 0].astype(int) + tiles.full[0, 0]
        see = mask.dense(self.n, self.n)
        full, partial, skipped = (int((kinds == kind).sum()) for kind in (FULL, PARTIAL, SKIPPED))
        return {
            "see": see,
            "kinds": kinds,
            "full": full,
            "partial": partial,
            "skipped": skipped,
            "visible": int(see.sum()),
            "computed": (full + partial) * self.rows * self.columns,
        }

    def sentence(self):
        found = self.compute()
        counts = {name: found[name] for name in ("full", "partial", "skipped", "visible", "computed")}
        shares = {name: math.floor(100 * found[name] / self.n**2 + 0.5) for name in ("visible", "computed")}
        shares = {f"{name}_share": share for name, share in shares.items()}
        return say("widgets.tiles.sentence", rows=self.rows, columns=self.columns, **counts, **shares)

    def alt(self):
        mask = self.words["told_causal" if self.causal else "told_both"]
        told = say("widgets.tiles.settings", n=self.n, reach=self.reach, seen_by_all=self.seen_by_all, mask=mask)
        return f"{told} {self.sentence()}"

    def picture(self):
        found, cell, end = self.compute(), SIZE / self.n, {"text-anchor": "end", "class": "muted"}
        parts = [
            label(LEFT - 8, TOP - 8, f"{self.words['key']} →", end),
            label(LEFT - 8, TOP + 12, f"{self.words['query']} ↓", end),
        ]
        for i, j in np.ndindex(self.n, self.n):
            box = {"x": LEFT + j * cell + 0.5, "y": TOP + i * cell + 0.5, "width": cell - 1, "height": cell - 1}
            parts.append(tag("rect", {**box, "class": "w", "fill-opacity": 0.8 if found["see"][i, j] else FAINT}))
        for (i, j), kind in np.ndenumerate(found["kinds"]):
            if kind != SKIPPED:
                parts.append(tag("rect", self.frame(i, j, kind)))
        return canvas(WIDTH, HEIGHT, "".join(parts))

    def frame(self, i, j, kind):
        """Return the frame of a tile, inside its edge: a full one is solid, a partial one dashed."""
        height, width = (side * SIZE / self.n for side in (self.rows, self.columns))
        box = {"x": LEFT + j * width + 2, "y": TOP + i * height + 2, "width": width - 4, "height": height - 4}
        look = {"fill": "none", "stroke": "currentColor", "stroke-width": 2 if kind == FULL else 1.2}
        return {**box, **look, "stroke-dasharray": "none" if kind == FULL else "3 2"}
