"""The phases of sinusoids and of rotary positions: a clock for each pair, and what two positions have in common."""

import math

import numpy as np
import traitlets

from mha import reference
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, number, tag

WIDTH, HEIGHT = 430, 452
EDGE, BREADTH, TOP, TALL = 15, 400, 32, 200
LEFT, RIGHT, HIGH, LOW = 46, 414, 278, 412
COLUMNS = {8: 4, 16: 4, 32: 6, 64: 8}  # clocks in a row, by width
BASES = [100, 1000, 10_000, 100_000, 500_000]
SCHEMES = ["sinusoid", "rotary_same", "rotary_other"]
FARTHEST, LAST = 64, 1000
QUERY, KEY = "#2f8097", "#c8553d"


def grouped(x):
    """Write a count with its thousands apart."""
    return f"{x:,.0f}".replace(",", "\u202f")


class Phases(Widget):
    """Two positions under sinusoids or rotary positions: the hands of every pair, and the cosine of the two vectors.

    `q` and `k` are what rotary positions turn, one head wide, in layout "half"; a narrower `width` takes their first
    pairs. Book: {eq}`sinusoid-product`.
    """

    _esm = module_source("phases")
    q = data(traitlets.List(traitlets.Float()))
    k = data(traitlets.List(traitlets.Float()))
    width_options = data(traitlets.List(traitlets.Int()))
    base_options = data(traitlets.List(traitlets.Int()))
    scheme = setting(traitlets.Unicode())
    width = setting(traitlets.Int())
    base = setting(traitlets.Int())
    position = setting(traitlets.Int())
    distance = setting(traitlets.Int())

    def __init__(
        self,
        q,
        k,
        *,
        scheme="sinusoid",
        width=None,
        base=10_000,
        position=20,
        distance=7,
        name="",
        caption=None,
    ):
        q = stored(q, "q", ("width",))
        k = stored(k, "k", (len(q),))
        if len(q) not in COLUMNS:
            raise ValueError(f"q has width {len(q)}, expected one of {', '.join(map(str, COLUMNS))}")
        super().__init__(
            q=q,
            k=k,
            width_options=[option for option in COLUMNS if option <= len(q)],
            base_options=BASES,
            scheme=scheme,
            width=len(q) if width is None else width,
            base=base,
            position=position,
            distance=distance,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"position": (0, LAST), "distance": (-FARTHEST, FARTHEST)}

    @traitlets.validate("position", "distance")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("scheme", "width", "base")
    def _among_options(self, proposal):
        key, value = proposal.trait.name, proposal.value
        options = {"scheme": SCHEMES, "width": self.width_options, "base": self.base_options}[key]
        if value not in options:
            raise ValueError(f"{key} is {value!r}, expected one of {options}")
        return value

    def compute(self):
        """Return the hands of both positions, the cosine of the two vectors at every distance, and the wavelengths."""
        distances = np.arange(-FARTHEST, FARTHEST + 1)
        query, keys = self.vectors(np.array([self.position]), self.position + distances)
        sizes = np.linalg.norm(query) * np.linalg.norm(keys, axis=-1)
        cosines = keys @ query[0] / np.where(sizes == 0, 1.0, sizes)
        here = self.distance + FARTHEST
        return {
            "query": self.hands(query[0]),
            "key": self.hands(keys[here]),
            "cosines": cosines,
            "cosine": float(cosines[here]),
            "shortest": 2 * math.pi,
            "longest": 2 * math.pi * self.base ** ((self.width - 2) / self.width),
        }

    def vectors(self, q_positions, k_positions):
        """Return the vectors of queries and of keys at these positions, (n, width), pairs in layout "half"."""
        if self.scheme == "sinusoid":
            at = q_positions, k_positions
            return [reference.sinusoidal(x, self.width, base=self.base, layout="half") for x in at]
        contents = self.q, self.q if self.scheme == "rotary_same" else self.k
        q, k = (np.array(x).reshape(2, -1)[:, : self.width // 2].reshape(1, 1, -1) for x in contents)
        turned = ((q, q_positions), (k, k_positions))
        return [reference.rotate(x.repeat(len(at), axis=-2), at, base=self.base)[0] for x, at in turned]

    def hands(self, vector):
        """Return where the hand of each pair points, to the right and up."""
        first, second = vector.reshape(2, -1)
        right, up = (first, second) if self.scheme == "sinusoid" else (second, first)
        return np.stack([right, up], axis=-1)

    def sentence(self):
        found = self.compute()
        return say(
            "widgets.phases.sentence",
            shortest=f"{found['shortest']:.1f}",
            longest=grouped(found["longest"]),
            distance=number(self.distance),
            cosine=f"{found['cosine']:.2f}",
        )

    def alt(self):
        settings = say(
            "widgets.phases.settings",
            scheme=self.words[self.scheme],
            pairs=self.width // 2,
            width=self.width,
            base=grouped(self.base),
            first=self.position,
            second=number(self.position + self.distance),
        )
        return f"{settings} {self.sentence()}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.clocks(found) + self.chart(found))

    def clocks(self, found):
        """Draw a clock for each pair, with the hands of both positions."""
        columns, pairs = COLUMNS[self.width], self.width // 2
        rows = math.ceil(pairs / columns)
        step = min(BREADTH / columns, TALL / rows)
        longest = max(np.linalg.norm(found[name], axis=-1).max() for name in ("query", "key")) or 1.0
        parts = [
            label(EDGE, 16, say("widgets.phases.at", position=self.position), {"fill": QUERY, "font-weight": "700"}),
            label(
                EDGE + BREADTH,
                16,
                say("widgets.phases.at", position=number(self.position + self.distance)),
                {"fill": KEY, "font-weight": "700", "text-anchor": "end"},
            ),
        ]
        for c in range(pairs):
            x = EDGE + (BREADTH - columns * step) / 2 + (c % columns + 0.5) * step
            y = TOP + (TALL - rows * step) / 2 + (c // columns + 0.5) * step
            ring = {"fill": "none", "stroke": "currentColor", "stroke-opacity": 0.25}
            parts.append(tag("circle", {"cx": x, "cy": y, "r": 0.44 * step, **ring}))
            for name, colour, thick in (("key", KEY, 2), ("query", QUERY, 2.5)):
                right, up = 0.42 * step * found[name][c] / longest
                hand = f"M{number(x)} {number(y)}L{number(x + right)} {number(y - up)}"
                parts.append(
                    tag("path", {"d": hand, "stroke": colour, "stroke-width": thick, "stroke-linecap": "round"})
                )
        return "".join(parts)

    def chart(self, found):
        """Draw the cosine at every distance, and the distance that is chosen."""
        end, middle = {"text-anchor": "end"}, {"text-anchor": "middle"}

        def x(distance):
            return LEFT + (RIGHT - LEFT) * (distance + FARTHEST) / (2 * FARTHEST)

        def y(cosine):
            return LOW - (LOW - HIGH) * (cosine + 1) / 2

        cosines = found["cosines"]
        path = "L".join(f"{number(x(n - FARTHEST))} {number(y(cosine))}" for n, cosine in enumerate(cosines))
        chosen = f"M{number(x(self.distance))} {number(y(0))}V{number(y(found['cosine']))}"
        parts = [
            label(EDGE, HIGH - 20, self.words["cosine_axis"], {"class": "muted"}),
            label(RIGHT, LOW + 34, self.words["distance_axis"], {**end, "class": "muted"}),
            tag("path", {"d": f"M{LEFT} {number(y(0))}H{RIGHT}", "stroke": "currentColor", "stroke-opacity": 0.3}),
            tag("path", {"d": f"M{path}", "fill": "none", "stroke": QUERY, "stroke-width": 1.6}),
            tag("path", {"d": chosen, "fill": "none", "stroke": KEY, "stroke-dasharray": "4 3"}),
            tag("circle", {"cx": x(self.distance), "cy": y(found["cosine"]), "r": 5, "fill": KEY}),
        ]
        for cosine in (-1, 0, 1):
            parts.append(label(LEFT - 8, y(cosine) + 4, number(cosine), end))
        for distance in (-FARTHEST, 0, FARTHEST):
            parts.append(label(x(distance), LOW + 18, number(distance), middle))
        return "".join(parts)
