"""A composer of masks: up to three terms with & and |, what they cost, and why a pair is seen or hidden."""

import math

import numpy as np
import traitlets

from mha import cost, masks
from mha.text import say, template
from mha.widgets.base import Widget, data, module_source, setting
from mha.widgets.svg import FAINT, canvas, label, tag

LEFT, TOP, SIZE = 66, 34, 336
WIDTH, HEIGHT = LEFT + SIZE + 28, TOP + SIZE + 14
SIDE, BLOCK, D_HEAD = 4, 4, 64
LARGEST = 8
OPERATORS = ["none", "&", "|", "& ~", "| ~"]
KINDS = {
    "causal": lambda size, n: masks.causal,
    "log_strided": lambda size, n: masks.log_strided,
    "window": lambda size, n: masks.window(size, size),
    "strided": lambda size, n: masks.strided(size),
    "dilated": lambda size, n: masks.dilated(2, 2, size),
    "fixed": lambda size, n: masks.fixed(size, 1),
    "global_tokens": lambda size, n: masks.global_tokens([*range(size)]),
    "random_blocks": lambda size, n: masks.random_blocks(0, n, block=BLOCK, number=min(size, n // BLOCK)),
    "prefix": lambda size, n: masks.prefix(size),
}
JOIN = {
    "&": lambda one, two: one & two,
    "|": lambda one, two: one | two,
    "& ~": lambda one, two: one & ~two,
    "| ~": lambda one, two: one | ~two,
}


class Masks(Widget):
    """Masks of `mha.masks` put together from left to right over `n` positions, with one pair explained.

    `terms` are up to three pairs (kind, size). FLOPs are those of scores and mixture, in one head of width 64.
    """

    _esm = module_source("masks")
    n = data(traitlets.Int())
    drawn = data(traitlets.List())
    said = data(traitlets.Dict())
    kind_1 = setting(traitlets.Unicode())
    size_1 = setting(traitlets.Int())
    operator_2 = setting(traitlets.Unicode())
    kind_2 = setting(traitlets.Unicode())
    size_2 = setting(traitlets.Int())
    operator_3 = setting(traitlets.Unicode())
    kind_3 = setting(traitlets.Unicode())
    size_3 = setting(traitlets.Int())
    query = setting(traitlets.Int())
    key = setting(traitlets.Int())

    def __init__(
        self,
        terms=(("window", 3), ("global_tokens", 1), ("random_blocks", 1)),
        operators=("|", "|"),
        *,
        n=24,
        query=17,
        key=9,
        name="",
        caption=None,
    ):
        if n not in (8, 16, 24, 32):
            raise ValueError(f"n is {n}, expected 8, 16, 24 or 32: blocks and tiles of {SIDE} divide it")
        if not 1 <= len(terms) <= 3 or len(operators) != len(terms) - 1:
            raise ValueError(
                f"terms has {len(terms)} entries and operators {len(operators)}: expected one to three, "
                "and an operator between two"
            )
        terms = [*terms, *[("causal", 1)] * (3 - len(terms))]
        operators = [*operators, *["none"] * (2 - len(operators))]
        settings = {
            f"{name}_{place}": value
            for place, term in enumerate(terms, 1)
            for name, value in zip(("kind", "size"), term, strict=True)
        }
        settings |= {"operator_2": operators[0], "operator_3": operators[1], "query": query, "key": key}
        super().__init__(n=n, drawn=_order(n), said=template("masks.explain"), **settings, name=name, caption=caption)

    def limits(self):
        ends = {"query": (0, self.n - 1), "key": (0, self.n - 1)}
        return ends | {f"size_{place}": (1, LARGEST) for place in (1, 2, 3)}

    @traitlets.validate("size_1", "size_2", "size_3", "query", "key")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("kind_1", "kind_2", "kind_3", "operator_2", "operator_3")
    def _known(self, proposal):
        options = [*KINDS] if proposal.trait.name.startswith("kind") else OPERATORS
        if proposal.value not in options:
            raise traitlets.TraitError(f"{proposal.trait.name} is {proposal.value}, expected one of {options}")
        return proposal.value

    def mask(self):
        """Return the mask that the settings say."""
        one, two, three = (
            KINDS[getattr(self, f"kind_{place}")](getattr(self, f"size_{place}"), self.n) for place in (1, 2, 3)
        )
        mask = one if self.operator_2 == "none" else JOIN[self.operator_2](one, two)
        return mask if self.operator_3 == "none" else JOIN[self.operator_3](mask, three)

    def compute(self):
        """Return which pairs are visible, how many, the kind of each tile, the FLOPs, and what decides one pair."""
        mask, across = self.mask(), self.n // SIDE
        see = mask.dense(self.n, self.n)
        tiles = see.reshape(across, SIDE, across, SIDE)
        kinds = tiles.any((1, 3)).astype(int) + tiles.all((1, 3))
        pairs, computed = int(see.sum()), int((kinds > 0).sum()) * SIDE**2
        return {
            "mask": repr(mask),
            "see": see,
            "kinds": kinds,
            "pairs": pairs,
            "computed": computed,
            "flops": cost.core_flops(pairs, 1, D_HEAD),
            "computed_flops": cost.core_flops(computed, 1, D_HEAD),
            "empty": int((~see.any(1)).sum()),
            "explained": mask.explain(self.query, self.key),
        }

    def sentence(self):
        found, all_pairs = self.compute(), self.n**2
        counts = {name: grouped(found[name]) for name in ("pairs", "computed", "flops", "computed_flops")}
        shares = {f"{name}_share": math.floor(100 * found[name] / all_pairs + 0.5) for name in ("pairs", "computed")}
        text = say("widgets.masks.sentence", explained=found["explained"], all=all_pairs, **counts, **shares)
        return text + (say("widgets.masks.empty", empty=found["empty"]) if found["empty"] else "")

    def alt(self):
        return f"{say('widgets.masks.settings', n=self.n, mask=repr(self.mask()))} {self.sentence()}"

    def picture(self):
        found, cell, end = self.compute(), SIZE / self.n, {"text-anchor": "end", "class": "muted"}
        parts = [
            label(LEFT - 8, TOP - 8, f"{self.words['key']} →", end),
            label(LEFT - 8, TOP + 12, f"{self.words['query']} ↓", end),
            label(LEFT, TOP - 8, found["mask"], {"font-size": 11 if len(found["mask"]) < 58 else 8}),
        ]
        for i, j in np.ndindex(self.n, self.n):
            box = {"x": LEFT + j * cell + 0.5, "y": TOP + i * cell + 0.5, "width": cell - 1, "height": cell - 1}
            place = {"class": "w pick", "data-query": str(i), "data-key": str(j)}
            parts.append(tag("rect", {**box, **place, "fill-opacity": 0.8 if found["see"][i, j] else FAINT}))
        for (i, j), kind in np.ndenumerate(found["kinds"]):
            if kind:
                parts.append(tag("rect", self.frame(i, j, kind)))
        chosen = {
            "x": LEFT + self.key * cell - 1,
            "y": TOP + self.query * cell - 1,
            "width": cell + 2,
            "height": cell + 2,
        }
        ring = {"fill": "none", "stroke": "#c8553d", "stroke-width": 2.5, "pointer-events": "none"}
        parts.append(tag("rect", {**chosen, **ring}))
        outline = {"x": LEFT - 3, "y": TOP - 3, "width": SIZE + 6, "height": SIZE + 6, "fill": "none"}
        parts.append(tag("rect", {**outline, "stroke": "currentColor", "stroke-opacity": 0, "class": "all"}))
        return canvas(WIDTH, HEIGHT, "".join(parts))

    def frame(self, i, j, kind):
        """Return the frame of a visible tile, inside its edge: a full one is solid, a partial one dashed."""
        side = SIDE * SIZE / self.n
        box = {"x": LEFT + j * side + 2, "y": TOP + i * side + 2, "width": side - 4, "height": side - 4}
        look = {"fill": "none", "stroke": "currentColor", "stroke-width": 1.4 if kind == 2 else 0.8}
        return {**box, **look, "stroke-dasharray": "none" if kind == 2 else "3 2", "pointer-events": "none"}


def grouped(count):
    """Write a count with thin spaces between its thousands."""
    return f"{count:,}".replace(",", "\u202f")


def _order(n):
    """Return for each block of queries the blocks of keys in the order in which `random_blocks` draws them."""
    blocks = n // BLOCK
    drawn = [masks.random_blocks(0, n, block=BLOCK, number=k).drawn.reshape(blocks, blocks) for k in range(blocks + 1)]
    return [[int(np.argmax(drawn[k + 1][row] & ~drawn[k][row])) for k in range(blocks)] for row in range(blocks)]
