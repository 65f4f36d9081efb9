"""Soft lookup in a table whose keys lie on a circle, such as the hours of a day."""

import math

import numpy as np
import traitlets

from mha import reference
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, number, tag

WIDTH, HEIGHT = 430, 408
CENTRE_X, CENTRE_Y, RADIUS = 215, 122, 82
LEFT, RIGHT, TOP, BASE = 46, 414, 262, 372
EDGE, POINTS = 8, 96
LEAST, MOST = 0.02, 4


class Lookup(Widget):
    """A table asked between its entries, with the reader's hand on the query and the temperature.

    `places` are the keys, on a circle of length `period`; `values` are what they hold. Book: {eq}`soft-lookup`.
    """

    _esm = module_source("lookup")
    places = data(traitlets.List(traitlets.Float()))
    values = data(traitlets.List(traitlets.Float()))
    period = data(traitlets.Float())
    query = setting(traitlets.Float())
    temperature = setting(traitlets.Float())

    def __init__(self, places, values, *, period, query=0.0, temperature=0.1, name="", caption=None):
        places = stored(places, "places", ("entries",))
        values = stored(values, "values", (len(places),))
        if not places or not 0 <= min(places) <= max(places) < period:
            raise ValueError(f"places is {places}, expected at least one number from 0 to below the period, {period:g}")
        settings = {"query": float(query), "temperature": float(temperature)}
        super().__init__(places=places, values=values, period=float(period), name=name, caption=caption, **settings)

    def limits(self):
        return {"query": (0, self.period), "temperature": (LEAST, MOST)}

    @traitlets.validate("query", "temperature")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the weights and the answer at the query, and the answers all around the circle."""
        keys, values = self.on_circle(self.places), np.array(self.values)[:, None]
        asked = self.on_circle([self.query, *(self.period * n / POINTS for n in range(POINTS + 1))])
        answers = reference.soft_lookup(asked, keys, values, temperature=self.temperature)[:, 0]
        scale = 1 / self.temperature
        weights = reference.attention_weights(asked[None, :1], keys[None], scale=scale)[0, 0]
        return {"weights": weights, "answer": float(answers[0]), "curve": answers[1:]}

    def on_circle(self, places):
        """Return the vectors of length 1 that point to these places."""
        angles = 2 * math.pi * np.array(places) / self.period
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1)

    def sentence(self):
        found = self.compute()
        best = int(np.argmax(found["weights"]))
        return say(
            "widgets.lookup.sentence",
            query=number(self.query),
            temperature=f"{self.temperature:.2f}",
            answer=f"{found['answer']:.1f}",
            place=number(self.places[best]),
            share=math.floor(100 * found["weights"][best] + 0.5),
        )

    def alt(self):
        settings = say(
            "widgets.lookup.settings",
            count=len(self.places),
            low=f"{min(self.values):.1f}",
            high=f"{max(self.values):.1f}",
        )
        return f"{settings} {self.sentence()}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.circle(found) + self.chart(found))

    def circle(self, found):
        """Draw the keys on the circle, each as large as its weight, and the query as a hand."""
        middle, ring = {"text-anchor": "middle"}, {"fill": "none", "stroke": "currentColor", "stroke-opacity": 0.3}
        parts = [tag("circle", {"cx": CENTRE_X, "cy": CENTRE_Y, "r": RADIUS, **ring})]
        for place, (x, y), weight in zip(self.places, self.on_circle(self.places), found["weights"], strict=True):
            at = {"cx": CENTRE_X + RADIUS * x, "cy": CENTRE_Y - RADIUS * y}
            chooses = {"class": "w pick", "data-set": "query", "data-value": number(place)}
            parts.append(tag("circle", {**at, "r": 4 + 18 * math.sqrt(weight), "fill-opacity": 0.75, **chooses}))
            out = {"x": CENTRE_X + (RADIUS + 32) * x, "y": CENTRE_Y - (RADIUS + 30) * y + 4}
            parts.append(label(out["x"], out["y"], number(place), middle))
        x, y = self.on_circle([self.query])[0]
        hand = f"M{CENTRE_X} {CENTRE_Y}L{number(CENTRE_X + RADIUS * x)} {number(CENTRE_Y - RADIUS * y)}"
        parts.append(tag("path", {"d": hand, "stroke": "#c8553d", "stroke-width": 3, "stroke-linecap": "round"}))
        parts.append(label(EDGE, 16, self.words["picture"], {"class": "muted"}))
        return "".join(parts)

    def chart(self, found):
        """Draw the answer to every query, the entries of the table, and the query that is asked."""
        low, high = min(self.values), max(self.values)
        end, middle, rise = {"text-anchor": "end"}, {"text-anchor": "middle"}, high - low or 1.0

        def x(place):
            return LEFT + (RIGHT - LEFT) * place / self.period

        def y(value):
            return BASE - (BASE - TOP) * (value - low) / rise

        path = "L".join(f"{number(x(self.period * n / POINTS))} {number(y(v))}" for n, v in enumerate(found["curve"]))
        line = {"fill": "none", "stroke": "#2f8097", "stroke-width": 2}
        asked = f"M{number(x(self.query))} {BASE}V{number(y(found['answer']))}H{LEFT}"
        axis = {"d": f"M{LEFT} {BASE}H{RIGHT}", "stroke": "currentColor", "stroke-opacity": 0.3}
        parts = [
            tag("path", axis),
            tag("path", {"d": f"M{path}", **line}),
            tag("path", {"d": asked, "fill": "none", "stroke": "#c8553d", "stroke-dasharray": "4 3"}),
            label(LEFT - 8, BASE + 4, f"{low:.1f}", end),
            label(LEFT - 8, TOP + 4, f"{high:.1f}", end),
            label(RIGHT, BASE + 34, self.words["query_axis"], {**end, "class": "muted"}),
            label(EDGE, TOP - 16, self.words["answer_axis"], {"class": "muted"}),
        ]
        for place, value in zip(self.places, self.values, strict=True):
            parts.append(tag("circle", {"cx": x(place), "cy": y(value), "r": 3.5}))
            parts.append(label(x(place), BASE + 18, number(place), middle))
        parts.append(tag("circle", {"cx": x(self.query), "cy": y(found["answer"]), "r": 5, "fill": "#c8553d"}))
        return "".join(parts)
