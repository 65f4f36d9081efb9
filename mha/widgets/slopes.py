"""What a slope of ALiBi does to the weights of one query, and how much content it takes to be seen from afar."""

import math

import numpy as np
import traitlets

from mha import reference
from mha.text import say
from mha.widgets.base import Widget, module_source, setting
from mha.widgets.svg import canvas, label, number, tag

PLACES = 64  # keys of the query: itself and what is before it
WIDTH, HEIGHT = 430, 262
CHART = {"left": 23, "right": 407, "top": 44, "bottom": 210}


class Slopes(Widget):
    """A query and the keys up to 63 places back, contents equal but for one key, in a head of ALiBi.

    That key, `back` places back, has a content worth `content`: so much is its score above the others before the
    distance takes its part.   Book: {eq}`alibi`.
    """

    _esm = module_source("slopes")
    num_heads = setting(traitlets.Int())
    head = setting(traitlets.Int())
    back = setting(traitlets.Int())
    content = setting(traitlets.Int())

    def __init__(self, *, num_heads=8, head=2, back=24, content=4, name="", caption=None):
        super().__init__(num_heads=num_heads, head=head, back=back, content=content, name=name, caption=caption)

    def limits(self):
        return {"num_heads": (1, 16), "head": (0, 15), "back": (0, PLACES - 1), "content": (0, 20)}

    @traitlets.validate("num_heads", "head", "back", "content")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the slopes, the weights by distance, what the distance costs the key and what would give it half."""
        slopes = reference.alibi_slopes(self.num_heads)
        head = min(self.head, self.num_heads - 1)
        scores = reference.alibi_bias(slopes[head : head + 1], np.array([0]), -np.arange(PLACES))[0, 0]
        lost = -scores[self.back]
        others = np.exp(np.delete(scores, self.back)).sum()
        scores[self.back] += self.content
        return {
            "slopes": slopes,
            "head": head,
            "weights": reference.softmax(scores),
            "lost": float(lost),
            "half": float(lost + math.log(others)),
        }

    def sentence(self):
        found = self.compute()
        return say(
            "widgets.slopes.sentence",
            **self.which(found),
            back=self.back,
            lost=number(math.floor(100 * found["lost"] + 0.5) / 100),
            content=self.content,
            share=percent(found["weights"][self.back]),
            half=f"{found['half']:.1f}",
        )

    def which(self, found):
        """Name the head and its slope."""
        part = number(1 / found["slopes"][found["head"]])
        return {"head": found["head"], "heads": self.num_heads, "part": part}

    def alt(self):
        return say("widgets.slopes.alt", places=PLACES, sentence=self.sentence())

    def picture(self):
        """Draw a bar for the weight of each key, the query's own at the right end."""
        found, words = self.compute(), self.words
        top = found["weights"].max()
        step = (CHART["right"] - CHART["left"]) / PLACES
        about = say("widgets.slopes.top", **self.which(found), share=percent(top))
        parts = [label(CHART["left"], 18, about, {"class": "muted"})]
        for back, weight in enumerate(found["weights"]):
            left = CHART["right"] - (back + 1) * step
            tall = (CHART["bottom"] - CHART["top"]) * weight / top
            shade = 1 if back == self.back else 0.4
            bar = {"x": left + 0.5, "y": CHART["bottom"] - tall, "width": step - 1, "height": tall}
            parts.append(tag("rect", {**bar, "class": "w", "fill-opacity": shade}))
            column = {"x": left, "y": CHART["top"], "width": step, "height": CHART["bottom"] - CHART["top"] + 24}
            chosen = {"fill-opacity": 0, "class": "pick", "data-set": "back", "data-value": str(back)}
            parts.append(tag("rect", {**column, **chosen}))
        line = {"d": f"M{CHART['left']} {CHART['bottom'] + 1}H{CHART['right']}", "stroke": "currentColor"}
        parts.append(tag("path", {**line, "stroke-opacity": 0.4}))
        for back in (0, 16, 32, 48, 63):
            middle = {"text-anchor": "middle"}
            parts.append(label(CHART["right"] - (back + 0.5) * step, CHART["bottom"] + 18, f"{back}", middle))
        middle = {"text-anchor": "middle", "class": "muted"}
        parts.append(label((CHART["left"] + CHART["right"]) / 2, CHART["bottom"] + 40, words["axis"], middle))
        return canvas(WIDTH, HEIGHT, "".join(parts))


def percent(share):
    """Write a share in percent, with one decimal below 10."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
