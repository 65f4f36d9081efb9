"""Weights of a softmax, estimated by random features: how far off, by number of features, norm and kind of draw."""

import numpy as np
import traitlets

from mha import reference
from mha.random_matrices import gaussian, orthogonal_gaussian
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting, stored
from mha.widgets.svg import FAINT, canvas, label, number, tag

COUNTS = [8, 16, 32, 64, 128, 256]
WIDTH, HEIGHT, MARGIN = 430, 432, 34
MAP, MAP_TOP, GAP = 168, 30, 26
CHART = {"left": 58, "right": 412, "top": 236, "bottom": 388}
LOWEST, HIGHEST = 0.01, 2.0  # errors that the chart shows
KINDS = "independent", "orthogonal"


class Features(Widget):
    """Queries and keys (n, d), each brought to length `norm_tenths` / 10, and positive features of them.

    All 256 directions are drawn once of each kind; with m features they make 256 / m draws.   Book: {eq}`favor`.
    """

    _esm = module_source("features")
    q = data(traitlets.List())
    k = data(traitlets.List())
    independent = data(traitlets.List())
    blocks = data(traitlets.List())
    features = setting(traitlets.Int())
    norm_tenths = setting(traitlets.Int())
    orthogonal = setting(traitlets.Bool())

    def __init__(self, q, k, *, features=32, norm_tenths=10, orthogonal=False, seed=0, name="", caption=None):
        n, d = np.shape(q)
        rows = {"q": stored(q, "q", (n, "d")), "k": stored(k, "k", (n, d))}
        for key, x in rows.items():
            if not np.linalg.norm(x, axis=-1).all():
                raise ValueError(f"{key} has a row of zeros: expected rows that can be brought to a length")
        if d not in (4, 8, 16):
            raise ValueError(f"q has width {d}, expected 4, 8 or 16: a multiple of it is a number of features")
        drawn = {"independent": gaussian(seed, COUNTS[-1], d), "blocks": orthogonal_gaussian(seed, COUNTS[-1], d)}
        drawn = {key: stored(x, key, (COUNTS[-1], d)) for key, x in drawn.items()}
        settings = {"features": features, "norm_tenths": norm_tenths, "orthogonal": orthogonal}
        super().__init__(**rows, **drawn, **settings, name=name, caption=caption)

    def limits(self):
        return {"norm_tenths": (2, 30)}

    @traitlets.validate("norm_tenths")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("features")
    def _listed(self, proposal):
        if proposal.value not in COUNTS:
            raise traitlets.TraitError(f"features is {proposal.value}, expected one of {COUNTS}")
        return proposal.value

    def rows(self):
        """Return queries and keys at their length."""
        q, k = (np.array(x) for x in (self.q, self.k))
        return [self.norm_tenths / 10 * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k)]

    def directions(self, kind):
        return np.array(self.blocks if kind == "orthogonal" else self.independent)

    def compute(self):
        """Return exact weights, those of the first draw, and the error of each kind for each number of features."""
        q, k = self.rows()
        exact = reference.softmax(q @ k.T)
        errors = {kind: [self.error(exact, q, k, kind, count) for count in COUNTS] for kind in KINDS}
        kind = KINDS[self.orthogonal]
        return {
            "exact": exact,
            "estimated": estimate(q, k, self.directions(kind)[: self.features]),
            **errors,
            "error": errors[kind][COUNTS.index(self.features)],
            "other": errors[KINDS[not self.orthogonal]][COUNTS.index(self.features)],
        }

    def error(self, exact, q, k, kind, count):
        """Return the root mean square over all draws of so many features, relative to the exact weights."""
        draws = self.directions(kind).reshape(-1, count, q.shape[-1])
        off = [((estimate(q, k, rows) - exact) ** 2).sum() for rows in draws]
        return float(np.sqrt(np.mean(off) / (exact**2).sum()))

    def sentence(self):
        found, kind = self.compute(), KINDS[self.orthogonal]
        return say(
            "widgets.features.sentence",
            features=self.features,
            norm=number(self.norm_tenths / 10),
            kind=self.words[kind],
            other_kind=self.words[KINDS[not self.orthogonal]],
            error=percent(found["error"]),
            other=percent(found["other"]),
            draws=COUNTS[-1] // self.features,
        )

    def alt(self):
        told = say("widgets.features.settings", n=len(self.q), d=len(self.q[0]), directions=COUNTS[-1])
        return f"{told} {self.sentence()}"

    def picture(self):
        found = self.compute()
        maps = [self.map(found[name], name, at) for at, name in enumerate(("exact", "estimated"))]
        return canvas(WIDTH, HEIGHT, "".join(maps) + self.chart(found))

    def map(self, weights, name, at):
        """Draw weights as a square of cells, the first square left."""
        left, cell = MARGIN + at * (MAP + GAP), MAP / len(weights)
        parts = [label(left, MAP_TOP - 10, self.words[name], {"class": "muted"})]
        for i, j in np.ndindex(*weights.shape):
            box = {"x": left + j * cell + 0.5, "y": MAP_TOP + i * cell + 0.5, "width": cell - 1, "height": cell - 1}
            shade = FAINT + (1 - FAINT) * weights[i, j]
            parts.append(tag("rect", {**box, "class": "w", "fill-opacity": shade}))
        return "".join(parts)

    def chart(self, found):
        """Draw the errors of both kinds against the number of features, both logarithmic."""
        parts = [label(CHART["left"], CHART["top"] - 10, self.words["error_axis"], {"class": "muted"})]
        for error in (0.01, 0.1, 1.0):
            y = height(error)
            line = {"d": f"M{CHART['left']} {number(y)}H{CHART['right']}", "stroke": "currentColor"}
            parts.append(tag("path", {**line, "stroke-opacity": 0.15}))
            parts.append(label(CHART["left"] - 6, y + 4, f"{percent(error)} %", {"text-anchor": "end"}))
        for count in COUNTS:
            parts.append(label(across(count), CHART["bottom"] + 18, f"{count}", {"text-anchor": "middle"}))
        middle = {"text-anchor": "middle", "class": "muted"}
        parts.append(label((CHART["left"] + CHART["right"]) / 2, CHART["bottom"] + 38, self.words["axis"], middle))
        parts += [self.curve(found[kind], kind) for kind in KINDS]
        dot = {"cx": across(self.features), "cy": height(found["error"]), "r": 6, "class": "w"}
        parts.append(tag("circle", dot))
        step = (CHART["right"] - CHART["left"]) / (len(COUNTS) - 1)
        for count in COUNTS:
            box = {"x": across(count) - step / 2, "y": CHART["top"], "width": step}
            box["height"] = CHART["bottom"] - CHART["top"] + 24
            chosen = {"fill-opacity": 0, "class": "pick", "data-set": "features", "data-value": str(count)}
            parts.append(tag("rect", {**box, **chosen}))
        return "".join(parts)

    def curve(self, errors, kind):
        places = " ".join(f"{number(across(m))},{number(height(x))}" for m, x in zip(COUNTS, errors, strict=True))
        look = {"fill": "none", "stroke": "currentColor"}
        look["stroke-width"] = 2.4 if kind == KINDS[self.orthogonal] else 1.2
        look["stroke-dasharray"] = "none" if kind == "orthogonal" else "5 3"
        return tag("polyline", {"points": places, **look})


def estimate(q, k, directions):
    """Return the weights that features give."""
    products = np.einsum("im,jm->ij", *(reference.positive_features(x, directions) for x in (q, k)))
    return products / products.sum(-1, keepdims=True)


def percent(share):
    """Write a share in percent, with one decimal below 10."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"


def height(error):
    share = np.log(min(max(error, LOWEST), HIGHEST) / LOWEST) / np.log(HIGHEST / LOWEST)
    return float(CHART["bottom"] - share * (CHART["bottom"] - CHART["top"]))


def across(count):
    share = COUNTS.index(count) / (len(COUNTS) - 1)
    return CHART["left"] + share * (CHART["right"] - CHART["left"])
