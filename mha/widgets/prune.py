"""Heads of a real decoder switched off, any of eight, and what it then says next."""

import numpy as np
import traitlets

from mha.data import capture
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, tag

WIDTH, ROW, TOP = 430, 23, 88
LEFT, RIGHT = 108, 368
CHIP, CHIP_TOP = 51, 26
PALE = {"fill": "#c8553d", "fill-opacity": 0.4}


def percent(share):
    """Write a share in percent with one decimal; what is not zero is not written as 0."""
    return "<0.1" if share < 0.0005 else f"{100 * share:.1f}"


class Prune(Widget):
    """The next token of SmolLM2 without any of the eight heads that matter most for it.

    The model ran on every subset; `silenced` is the number of a subset: bit k says that head k of the prompt is off.
    Probabilities are those of the capture `smollm2_pruned`, to three decimals.
    """

    _esm = module_source("prune")
    prompts = data(traitlets.List(traitlets.Unicode()))
    heads = data(traitlets.List(traitlets.List(traitlets.Unicode())))  # "layer.head"
    candidates = data(traitlets.List(traitlets.List(traitlets.Unicode())))
    probabilities = data(traitlets.List(traitlets.List(traitlets.List(traitlets.Float()))))
    prompt = setting(traitlets.Int())
    silenced = setting(traitlets.Int())

    def __init__(self, *, prompt=0, silenced=0, name="", caption=None):
        found = capture("smollm2_pruned")
        prompts = list(found.about["prompts"])
        super().__init__(
            prompts=prompts,
            heads=[[f"{layer}.{head}" for layer, head in row] for row in found["heads"].tolist()],
            candidates=np.reshape(found.tokens, (len(prompts), -1)).tolist(),
            probabilities=stored(found["probabilities"], "probabilities", (len(prompts), "subsets", "words")),
            prompt=prompt,
            silenced=silenced,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"prompt": (0, len(self.prompts) - 1), "silenced": (0, 2 ** len(self.heads[0]) - 1)}

    @traitlets.validate("prompt", "silenced")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the probabilities of the named tokens and of all others together, of the whole model and without."""
        before, after = (_with_others(self.probabilities[self.prompt][subset]) for subset in (0, self.silenced))
        gone = [head for k, head in enumerate(self.heads[self.prompt]) if self.silenced >> k & 1]
        return {"before": before, "after": after, "gone": gone}

    def sentence(self):
        found = self.compute()
        named, best = self.candidates[self.prompt], int(np.argmax(found["after"][:-1]))
        return say(
            "widgets.prune.sentence",
            prompt=self.prompts[self.prompt].strip(),
            heads=", ".join(found["gone"]) or self.words["none"],
            token=named[0],
            after=percent(found["after"][0]),
            before=percent(found["before"][0]),
            best=named[best],
            share=percent(found["after"][best]),
        )

    def alt(self):
        return f"{say('widgets.prune.settings')} {self.sentence()}"

    def picture(self):
        found = self.compute()
        names = [*self.candidates[self.prompt], self.words["others"]]
        key = [
            label(8, 16, self.words["heads"]),
            *(self._chip(k, head) for k, head in enumerate(self.heads[self.prompt])),
            tag("rect", {"x": LEFT, "y": 66, "width": 14, "height": 11, "class": "w"}),
            label(LEFT + 20, 76, self.words["after"]),
            tag("rect", {"x": LEFT + 130, "y": 66, "width": 14, "height": 11, **PALE}),
            label(LEFT + 150, 76, self.words["before"]),
        ]
        rows = zip(names, found["before"], found["after"], strict=True)
        return canvas(WIDTH, TOP + ROW * len(names), "".join([*key, *(_row(n, *row) for n, row in enumerate(rows))]))

    def _chip(self, k, head):
        """Draw one head: filled while it works, an outline and a stroke through it while it is off."""
        x, off = 8 + CHIP * k + CHIP / 2, self.silenced >> k & 1
        turn = {"data-set": "silenced", "data-value": str(self.silenced ^ 1 << k), "cursor": "pointer"}
        ground = {"fill-opacity": 0} if off else {"fill-opacity": 0.25}
        box = {"x": 8 + CHIP * k + 2, "y": CHIP_TOP, "width": CHIP - 4, "height": 26, "rx": 5}
        parts = [
            tag("rect", {**box, "class": "w", "stroke": "currentColor", "stroke-opacity": 0.5, **ground, **turn}),
            label(x, CHIP_TOP + 17, head, {"text-anchor": "middle", "pointer-events": "none"}),
        ]
        line = {"x1": x - 18, "y1": CHIP_TOP + 13, "x2": x + 18, "y2": CHIP_TOP + 13, "stroke": "currentColor"}
        return "".join([*parts, tag("line", {**line, "stroke-width": 1.5})] if off else parts)


def _with_others(named):
    return [*named, max(0.0, 1 - sum(named))]


def _row(n, name, before, after):
    """Draw one token: how probable it is without the heads, on the paler bar of the whole model."""
    y, full = TOP + ROW * n, RIGHT - LEFT
    return "".join(
        [
            label(LEFT - 8, y + 13, name, {"text-anchor": "end"}),
            tag("rect", {"x": LEFT, "y": y + 1, "width": full * before, "height": 17, **PALE}),
            tag("rect", {"x": LEFT, "y": y + 4, "width": full * after, "height": 11, "class": "w"}),
            label(WIDTH - 8, y + 13, f"{percent(after)} %", {"text-anchor": "end"}),
        ]
    )
