"""What several methods say of the words of a sentence, for a real model and for one whose weights are shuffled."""

import numpy as np
import traitlets

from mha.data import result
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, number, tag

WIDTH, ROW, TOP = 430, 26, 52
LEFT, PANEL, GAP = 84, 160, 18
METHODS = (
    "last_layer", "mean_map", "value_norms", "rollout", "flow", "gradient_weights", "gradient_input",
    "integrated_gradients", "leave_one_out",
)  # fmt: skip
MODELS = "trained", "shuffled"
RED = "#c8553d"


class Explanations(Widget):
    """Token scores of SmolLM2 on sentences whose verb is to agree, by nine methods, beside the shuffled control.

    Scores are drawn as shares of the largest one in size. The numbers are those of `benchmarks/interpretability.py`.
    """

    _esm = module_source("explanations")
    sentences = data(traitlets.List(traitlets.Unicode()))
    tokens = data(traitlets.List(traitlets.List(traitlets.Unicode())))
    scores = data(traitlets.List())  # (methods, models, sentences, tokens), each row divided by its largest size
    sentence_number = setting(traitlets.Int())
    method = setting(traitlets.Unicode())

    def __init__(self, *, sentence_number=0, method="mean_map", name="", caption=None):
        found = result("interpretability")["tokens"]
        scores = np.array([[found["shown"][model][method] for model in MODELS] for method in METHODS])
        scores = np.round(scores / abs(scores).max(-1, keepdims=True), 2)  # as they are shown
        super().__init__(
            sentences=found["sentences"],
            tokens=found["tokens"],
            scores=stored(scores, "scores", (len(METHODS), len(MODELS), len(found["sentences"]), "tokens")),
            sentence_number=sentence_number,
            method=method,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"sentence_number": (0, len(self.sentences) - 1)}

    @traitlets.validate("sentence_number")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("method")
    def _known(self, proposal):
        if proposal.value not in METHODS:
            raise ValueError(f"method is {proposal.value!r}, expected one of {', '.join(METHODS)}")
        return proposal.value

    def compute(self):
        """Return the scores of both models, and which word but the start has the largest in size."""
        shares = [self.scores[METHODS.index(self.method)][model][self.sentence_number] for model in range(len(MODELS))]
        first = [1 + int(np.argmax(np.abs(row[1:]))) for row in shares]
        return {"trained": shares[0], "shuffled": shares[1], "first": first}

    def sentence(self):
        trained, shuffled = (self.tokens[self.sentence_number][place] for place in self.compute()["first"])
        return say(
            "widgets.explanations.sentence",
            text=self.sentences[self.sentence_number],
            method=self.words[self.method],
            trained=trained,
            shuffled=shuffled,
        )

    def alt(self):
        found = self.compute()
        told = [
            say(
                "widgets.explanations.told",
                model=self.words[model],
                scores=", ".join(
                    f"{token} {share:.2f}"
                    for token, share in zip(self.tokens[self.sentence_number], found[model], strict=True)
                ),
            )
            for model in MODELS
        ]
        return f"{self.sentence()} {' '.join(told)}"

    def picture(self):
        found, tokens = self.compute(), self.tokens[self.sentence_number]
        parts = [label(LEFT - 8, TOP + ROW * n + 15, token, {"text-anchor": "end"}) for n, token in enumerate(tokens)]
        for side, model in enumerate(MODELS):
            x = LEFT + side * (PANEL + GAP)
            parts.append(label(x + PANEL / 2, 20, self.words[model], {"text-anchor": "middle", "font-weight": "700"}))
            parts.append(_bars(x, found[model], found["first"][side]))
        return canvas(WIDTH, TOP + ROW * len(tokens), "".join(parts))


def _bars(x, shares, first):
    """Draw signed bars from the middle of a panel, or from its left edge if none is negative."""
    signed = min(shares) < 0
    zero, full = (x + PANEL / 2, PANEL / 2 - 34) if signed else (x, PANEL - 34)
    bottom = TOP + ROW * len(shares)
    line = {"d": f"M{number(zero)} {TOP - 4}V{bottom - 4}", "stroke": "currentColor", "stroke-opacity": 0.4}
    parts = [tag("path", line)]
    for n, share in enumerate(shares):
        y, width = TOP + ROW * n, abs(share) * full
        box = {"x": zero - width if share < 0 else zero, "y": y + 3, "width": width, "height": ROW - 12}
        paint = {"fill": RED} if share < 0 else {"class": "w"}
        end = {"text-anchor": "end"} if share < 0 else {}
        bold = {"font-weight": "700"} if n == first else {"class": "muted"}
        place = zero - width - 5 if share < 0 else zero + width + 5
        parts += [tag("rect", {**box, **paint}), label(place, y + 14, f"{share:.2f}", {**end, **bold})]
    return "".join(parts)
