"""Scaled dot-product attention on a short row of tokens."""

import math

import numpy as np
import traitlets

from mha import masks, reference
from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting, stored
from mha.widgets.svg import FAINT, canvas, label, shorten, tag

LEFT, TOP, SIZE = 66, 62, 332
BASE, TALL = TOP + SIZE + 104, 78
WIDTH, HEIGHT = 430, BASE + 28


class DotProduct(Widget):
    """The attention of one head, with the reader's hand on d_k, scale, temperature, mask and query.

    `q` and `k` are (tokens, d_k). Book: {eq}`scaled-dot-product`.
    """

    _esm = module_source("dot_product")
    tokens = data(traitlets.List(traitlets.Unicode()))
    q = data(traitlets.List())
    k = data(traitlets.List())
    d_k = setting(traitlets.Int())
    scale = setting(traitlets.Bool())
    temperature = setting(traitlets.Float())
    mask = setting(traitlets.Enum(["none", "causal", "window"]))
    radius = setting(traitlets.Int())
    query = setting(traitlets.Int())

    def __init__(
        self,
        tokens,
        q,
        k,
        *,
        d_k=None,
        scale=True,
        temperature=1.0,
        mask="none",
        radius=None,
        query=0,
        name="",
        caption=None,
    ):
        tokens = checked_tokens(tokens, 1)
        q = stored(q, "q", (len(tokens), "d_k"))
        super().__init__(
            tokens=tokens,
            q=q,
            k=stored(k, "k", (len(tokens), len(q[0]))),
            d_k=len(q[0]) if d_k is None else d_k,
            scale=scale,
            temperature=temperature,
            mask=mask,
            radius=min(2, len(tokens) - 1) if radius is None else radius,
            query=query,
            name=name,
            caption=caption,
        )

    def limits(self):
        last = len(self.tokens) - 1
        return {"d_k": (1, len(self.q[0])), "temperature": (0.1, 4), "radius": (0, last), "query": (0, last)}

    @traitlets.validate("d_k", "temperature", "radius", "query")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the scores, which of them are visible, the weights, and three numbers about them."""
        count = len(self.tokens)
        q, k = (np.array(x)[None, :, : self.d_k] for x in (self.q, self.k))
        scale = (1 / math.sqrt(self.d_k) if self.scale else 1.0) / self.temperature
        rule = {"none": None, "causal": masks.causal, "window": masks.window(self.radius, self.radius)}[self.mask]
        visible = np.ones((count, count), bool) if rule is None else rule.dense(count, count)
        scores = scale * (q @ k.swapaxes(-1, -2))[0]
        weights = reference.attention_weights(q, k, mask=rule, scale=scale)[0]
        row = weights[self.query][visible[self.query]]
        return {
            "scores": scores,
            "visible": visible,
            "weights": weights,
            "entropy": 0.0 - float(np.sum(row * np.log(np.maximum(row, np.finfo(float).tiny)))),
            "limit": math.log(len(row)),
            "variance": float(scores[visible].var()),
        }

    def sentence(self):
        found = self.compute()
        row = found["weights"][self.query]
        best = int(row.argmax())
        return say(
            "widgets.dot_product.sentence",
            i=self.query,
            j=best,
            query=self.tokens[self.query],
            key=self.tokens[best],
            share=math.floor(100 * row[best] + 0.5),
            entropy=f"{found['entropy']:.2f}",
            limit=f"{found['limit']:.2f}",
            variance=f"{found['variance']:.2f}",
        )

    def alt(self):
        words, radius = self.words, {"radius": self.radius} if self.mask == "window" else {}
        settings = say(
            "widgets.dot_product.settings",
            count=len(self.tokens),
            width=self.d_k,
            scale=words["scaled" if self.scale else "unscaled"],
            temperature=f"{self.temperature:.1f}",
            mask=say(f"widgets.dot_product.setting_{self.mask}", **radius),
        )
        return f"{settings} {self.sentence()}"

    def picture(self):
        found, count, cell = self.compute(), len(self.tokens), SIZE / len(self.tokens)
        end = {"text-anchor": "end"}
        parts = [
            label(LEFT - 8, TOP - 24, f"{self.words['key']} →", {**end, "class": "muted"}),
            label(LEFT - 8, TOP - 8, f"{self.words['query']} ↓", {**end, "class": "muted"}),
            label(LEFT - 8, BASE - 48, self.words["weight"], {**end, "class": "muted"}),
            label(LEFT - 8, BASE - 33, self.words["percent"], {**end, "class": "muted"}),
            label(LEFT - 8, BASE + 16, self.words["score"], {**end, "class": "muted"}),
        ]
        for i, token in enumerate(self.tokens):
            middle = (i + 0.5) * cell
            bold = {"font-weight": "700"} if i == self.query else {}
            turned = {"transform": f"rotate(-45 {LEFT + middle:.1f} {TOP - 8})"}
            parts.append(label(LEFT + middle, TOP - 8, shorten(token), turned))
            parts.append(
                label(LEFT - 8, TOP + middle + 4, shorten(token), {**end, **bold, "class": "pick", **self.chooses(i)})
            )
        for i, j in np.ndindex(count, count):
            x, y = LEFT + j * cell, TOP + i * cell
            if found["visible"][i, j]:
                box = {"x": x + 0.5, "y": y + 0.5, "width": cell - 1, "height": cell - 1}
                parts.append(
                    tag("rect", {**box, "class": "w", "fill-opacity": FAINT + (1 - FAINT) * found["weights"][i, j]})
                )
            else:
                parts.append(tag("circle", {"cx": x + cell / 2, "cy": y + cell / 2, "r": 1.2, "fill-opacity": 0.5}))
        outline = {"width": SIZE, "fill": "none", "stroke": "currentColor"}
        parts.append(tag("rect", {"x": LEFT, "y": TOP, "height": SIZE, **outline, "stroke-opacity": 0.3}))
        chosen = {"y": TOP + self.query * cell, "height": cell, "stroke-width": 2, "rx": 2}
        parts.append(tag("rect", {"x": LEFT, **outline, **chosen}))
        for i in range(count):
            box = {"x": LEFT, "y": TOP + i * cell, "width": SIZE, "height": cell}
            parts.append(tag("rect", {**box, "fill-opacity": 0, "class": "pick", **self.chooses(i)}))
        middle = {"text-anchor": "middle", "font-size": min(12, 0.4 * cell)}
        for j in range(count):
            x, weight = LEFT + (j + 0.5) * cell, found["weights"][self.query, j]
            tall, hidden = TALL * weight, not found["visible"][self.query, j]
            share = "–" if hidden else str(math.floor(100 * weight + 0.5))
            score = "–" if hidden else f"{found['scores'][self.query, j]:.1f}".replace("-", "−")
            bar = {"x": x - cell / 2 + 3, "y": BASE - tall, "width": cell - 6, "height": tall, "class": "w"}
            parts += [tag("rect", bar), label(x, BASE - tall - 4, share, middle), label(x, BASE + 16, score, middle)]
        for y, faint in ((BASE - TALL, 0.15), (BASE, 0.5)):
            parts.append(tag("path", {"d": f"M{LEFT} {y}h{SIZE}", "stroke": "currentColor", "stroke-opacity": faint}))
        return canvas(WIDTH, HEIGHT, "".join(parts))

    @staticmethod
    def chooses(i):
        return {"data-set": "query", "data-value": str(i)}
