"""What a real decoder would say next, under a temperature and under the cuts of top-k, top-p and min-p."""

import numpy as np
import traitlets

from mha.data import capture
from mha.reference.sampling import next_token_probabilities
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, tag

WIDTH, ROW, TOP = 430, 23, 46
LEFT, RIGHT, SHOWN = 108, 368, 12
LIMITS = {"temperature": (0, 2), "top_p": (0.05, 1), "min_p": (0, 0.5)}
PALE = {"fill": "#c8553d", "fill-opacity": 0.4}


def percent(share):
    """Write a share in percent with one decimal; what is not zero is not written as 0."""
    return "<0.1" if 0 < share < 0.0005 else f"{100 * share:.1f}"


class Sampling(Widget):
    """The next token of SmolLM2 after some beginnings, with the reader's hand on how it is drawn.

    The most probable tokens are themselves; each of the others has the mean probability of its group, tokens of
    neighbouring ranks. `top_k` 0, `top_p` 1 and `min_p` 0 cut nothing. Numbers are those of `mha.reference.sampling`.
    """

    _esm = module_source("sampling")
    prompts = data(traitlets.List(traitlets.Unicode()))
    candidates = data(traitlets.List(traitlets.List(traitlets.Unicode())))
    logits = data(traitlets.List(traitlets.List(traitlets.Float())))  # of the tokens, and then of one token a group
    counts = data(traitlets.List(traitlets.Int()))  # how many tokens each logit stands for
    prompt = setting(traitlets.Int())
    temperature = setting(traitlets.Float())
    top_k = setting(traitlets.Int())
    top_p = setting(traitlets.Float())
    min_p = setting(traitlets.Float())

    def __init__(self, *, prompt=0, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, name="", caption=None):
        found = capture("smollm2_next_token")
        logits = np.concatenate([found["logits"], found["group_logits"]], -1)
        prompts, named = list(found.about["prompts"]), found["logits"].shape[-1]
        super().__init__(
            prompts=prompts,
            candidates=np.reshape(found.tokens, (len(prompts), named)).tolist(),
            logits=stored(logits, "logits", (len(prompts), "tokens")),
            counts=[1] * named + found["group_counts"].tolist(),
            prompt=prompt,
            temperature=float(temperature),
            top_k=top_k,
            top_p=float(top_p),
            min_p=float(min_p),
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"prompt": (0, len(self.prompts) - 1), "top_k": (0, len(self.candidates[0]))} | LIMITS

    @traitlets.validate("prompt", "temperature", "top_k", "top_p", "min_p")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the probabilities of the shown tokens and of all others together, before and after the cuts.

        Beside them how many tokens are left, and the entropy of what is left, in nats.
        """
        logits = np.repeat(self.logits[self.prompt], self.counts)
        before = next_token_probabilities(logits, temperature=self.temperature)
        cuts = {"top_k": self.top_k or None, "top_p": self.top_p, "min_p": self.min_p}
        after = next_token_probabilities(logits, temperature=self.temperature, **cuts)
        left = after[after > 0]
        entropy = float(-(left * np.log(left)).sum()) + 0.0  # + 0.0: never −0
        return {"before": _shown(before), "after": _shown(after), "left": len(left), "entropy": entropy}

    def sentence(self):
        found = self.compute()
        return say(
            "widgets.sampling.sentence",
            prompt=self.prompts[self.prompt],
            temperature=f"{self.temperature:.1f}",
            left=found["left"],
            all=sum(self.counts),
            token=self.candidates[self.prompt][0],
            share=percent(found["after"][0]),
            entropy=f"{found['entropy']:.2f}",
        )

    def alt(self):
        return f"{say('widgets.sampling.settings')} {self.sentence()}"

    def picture(self):
        found = self.compute()
        names = [*self.candidates[self.prompt][:SHOWN], self.words["others"]]
        rows = zip(names, found["before"], found["after"], strict=True)
        key = [
            tag("rect", {"x": LEFT, "y": 12, "width": 14, "height": 11, "class": "w"}),
            label(LEFT + 20, 22, self.words["after"]),
            tag("rect", {"x": LEFT + 130, "y": 12, "width": 14, "height": 11, **PALE}),
            label(LEFT + 150, 22, self.words["before"]),
        ]
        return canvas(WIDTH, TOP + ROW * len(names), "".join([*key, *(_row(n, *row) for n, row in enumerate(rows))]))


def _shown(probabilities):
    return np.append(probabilities[:SHOWN], probabilities[SHOWN:].sum())


def _row(n, name, before, after):
    """Draw one token: how probable it is after the cuts, on the paler bar of how probable it was before."""
    y, full = TOP + ROW * n, RIGHT - LEFT
    there = {} if after > 0 else {"fill-opacity": 0.45}
    return "".join(
        [
            label(LEFT - 8, y + 13, name, {"text-anchor": "end", **there}),
            tag("rect", {"x": LEFT, "y": y + 1, "width": full * before, "height": 17, **PALE}),
            tag("rect", {"x": LEFT, "y": y + 4, "width": full * after, "height": 11, "class": "w"}),
            label(WIDTH - 8, y + 13, f"{percent(after)} %", {"text-anchor": "end", **there}),
        ]
    )
