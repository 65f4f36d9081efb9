"""Which source token each step of a decoder looks at, for several models that write the same."""

import numpy as np
import traitlets

from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting, stored
from mha.widgets.svg import FAINT, canvas, label, shorten, tag

WIDTH, LEFT, SIZE = 430, 74, 342
TOP, TALL = 44, 60
SAME = 1e-9  # weights closer than this share the first place, so that Python and JavaScript agree on it


class Alignments(Widget):
    """Maps of decoder steps down and source tokens across, one a model, and the row of the chosen step as bars.

    `weights` is (models, steps, source tokens), and `names` are those of the models. Book: {eq}`alignment-weights`.
    """

    _esm = module_source("alignments")
    source = data(traitlets.List(traitlets.Unicode()))
    written = data(traitlets.List(traitlets.Unicode()))
    names = data(traitlets.List(traitlets.Unicode()))
    weights = data(traitlets.List())
    model = setting(traitlets.Int())
    step = setting(traitlets.Int())

    def __init__(self, source, written, weights, names, *, model=0, step=0, name="", caption=None):
        source, written, names = (checked_tokens(x, 1) for x in (source, written, names))
        weights = stored(weights, "weights", (len(names), len(written), len(source)))
        if np.min(weights) < 0 or np.sum(weights, -1).max() > 1 + len(source) * 5e-4:
            raise ValueError("weights holds a negative number, or a row that sums to more than 1: expected shares")
        given = {"source": source, "written": written, "names": names, "weights": weights}
        super().__init__(**given, model=model, step=step, name=name, caption=caption)

    def limits(self):
        return {"model": (0, len(self.names) - 1), "step": (0, len(self.written) - 1)}

    @traitlets.validate("model", "step")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the map of the chosen model, the best place of each of its steps, and the mean of their weights."""
        weights = np.array(self.weights[self.model])
        top = weights.max(-1, keepdims=True)
        best = (weights >= top - SAME).argmax(-1)
        return {"weights": weights, "best": best.tolist(), "mean": float(top.mean())}

    def sentence(self):
        found, i = self.compute(), self.step
        j = found["best"][i]
        return say(
            "widgets.alignments.sentence",
            model=self.names[self.model],
            i=i,
            written=self.written[i],
            j=j,
            source=self.source[j],
            share=percent(found["weights"][i, j]),
            mean=percent(found["mean"]),
        )

    def alt(self):
        sizes = {"steps": len(self.written), "places": len(self.source)}
        return say("widgets.alignments.alt", sentence=self.sentence(), **sizes)

    def picture(self):
        found, end = self.compute(), {"text-anchor": "end"}
        wide, high = SIZE / len(self.source), SIZE / len(self.written)
        size = min(12, 0.85 * min(wide, high))
        parts = [
            label(LEFT, 16, self.names[self.model], {"font-weight": "700"}),
            label(LEFT - 8, TOP - 10, f"{self.words['written']} ↓", {**end, "class": "muted"}),
        ]
        for i, row in enumerate(found["weights"]):
            for j, share in enumerate(row):
                box = {"x": LEFT + j * wide + 0.5, "y": TOP + i * high + 0.5, "width": wide - 1, "height": high - 1}
                parts.append(tag("rect", {**box, "class": "w", "fill-opacity": FAINT + (1 - FAINT) * share}))
            strong = {"font-size": size, "font-weight": "700" if i == self.step else "400"}
            parts.append(label(LEFT - 8, TOP + (i + 0.5) * high + 0.35 * size, shorten(self.written[i]), end | strong))
        row = {"x": LEFT - 1, "y": TOP + self.step * high - 1, "width": SIZE + 2, "height": high + 2, "rx": 2}
        parts.append(tag("rect", {**row, "fill": "none", "stroke": "currentColor", "stroke-width": 2}))
        for i in range(len(self.written)):
            box = {"x": 0, "y": TOP + i * high, "width": LEFT + SIZE, "height": high, "fill-opacity": 0}
            parts.append(tag("rect", {**box, "class": "pick", "data-set": "step", "data-value": str(i)}))
        return canvas(WIDTH, TOP + SIZE + TALL + 62, "".join(parts) + self.bars(found, wide, size))

    def bars(self, found, wide, size):
        """Draw the weights of the chosen step, under the columns that they belong to."""
        base, end = TOP + SIZE + 22 + TALL, {"text-anchor": "end"}
        parts = [
            label(LEFT - 8, base - TALL + 12, self.words["weight"], {**end, "class": "muted"}),
            label(LEFT - 8, base + 16, f"{self.words['source']} →", {**end, "class": "muted"}),
        ]
        best = found["best"][self.step]
        for j, share in enumerate(found["weights"][self.step]):
            x, tall, strong = LEFT + (j + 0.5) * wide, TALL * share, {"font-weight": "700" if j == best else "400"}
            middle = {"text-anchor": "middle", **strong}
            box = {"x": x - 0.4 * wide, "y": base - tall, "width": 0.8 * wide, "height": tall, "class": "w"}
            parts += [
                tag("rect", box),
                label(x, base - tall - 4, str(percent(share)), {**middle, "font-size": min(10, 0.58 * wide)}),
                label(x, base + 15, shorten(self.source[j]), {**middle, "font-size": size}),
            ]
        parts.append(tag("path", {"d": f"M{LEFT} {base}h{SIZE}", "stroke": "currentColor", "stroke-opacity": 0.5}))
        return "".join(parts)


def percent(share):
    """Round half up, as JavaScript does."""
    return int(np.floor(100 * share + 0.5))
