"""One right key among many: how its weight falls as the keys become more, and what a growing scale does about it."""

import traitlets

from mha.analysis.dilution import largest_weight, needle_weight
from mha.text import say
from mha.widgets.base import Widget, module_source, setting
from mha.widgets.svg import canvas, label, number, tag

MOST = 20  # the longest text has 2²⁰ keys
TRAINED = 10  # scores that grow with the logarithm of n are as given at 2¹⁰ keys
WIDTH, HEIGHT = 430, 282
CHART = {"left": 46, "right": 412, "top": 34, "bottom": 226}
COLOURS = {"needle": "#2f8097", "largest": "#c8553d"}


class Dilution(Widget):
    """The weight of a key whose score is `margin` above the mean of 2^`exponent` keys, and of the luckiest other one.

    The others have random scores with standard deviation `spread`. With `grows`, all scores grow with ln n.
    Book: {eq}`needle-weight`, {eq}`largest-weight`.
    """

    _esm = module_source("dilution")
    exponent = setting(traitlets.Int())
    margin = setting(traitlets.Float())
    spread = setting(traitlets.Float())
    grows = setting(traitlets.Bool())

    def __init__(self, *, exponent=10, margin=8.0, spread=1.0, grows=False, name="", caption=None):
        super().__init__(
            exponent=exponent, margin=float(margin), spread=float(spread), grows=grows, name=name, caption=caption
        )

    def limits(self):
        return {"exponent": (1, MOST), "margin": (0, 20), "spread": (0, 3)}

    @traitlets.validate("exponent", "margin", "spread")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return both weights by length, 2, 4, … 2²⁰ keys, and the factor of the scores at the chosen one."""
        factors = [exponent / TRAINED if self.grows else 1.0 for exponent in range(1, MOST + 1)]
        told = list(zip(range(1, MOST + 1), factors, strict=True))
        return {
            "needle": [needle_weight(2**e, f * self.margin, f * self.spread) for e, f in told],
            "largest": [largest_weight(2**e - 1, f * self.spread) for e, f in told],
            "factor": factors[self.exponent - 1],
        }

    def sentence(self):
        found = self.compute()
        needle, largest = (found[name][self.exponent - 1] for name in COLOURS)
        return say(
            "widgets.dilution.sentence",
            n=f"{2**self.exponent:,}".replace(",", "\u202f"),
            margin=number(self.margin),
            spread=number(self.spread),
            factor=say("widgets.dilution.factor", factor=f"{found['factor']:.1f}") if self.grows else "",
            needle=percent(needle),
            largest=percent((1 - needle) * largest),
        )

    def alt(self):
        return say("widgets.dilution.alt", sentence=self.sentence())

    def picture(self):
        """Draw both weights over the number of keys, and mark the chosen one."""
        found, words = self.compute(), self.words
        parts = self.axes()
        for line, (name, colour) in enumerate(COLOURS.items()):
            found_here = found[name]
            if name == "largest":  # its part of what the needle leaves
                found_here = [(1 - n) * x for n, x in zip(found["needle"], found_here, strict=True)]
            points = "L".join(f"{number(across(e))} {number(up(x))}" for e, x in enumerate(found_here, 1))
            stroke = {"fill": "none", "stroke": colour, "stroke-width": 2}
            dashes = {"stroke-dasharray": "6 3"} if line else {}
            parts.append(tag("path", {"d": f"M{points}", **stroke, **dashes}))
            dot = {"cx": across(self.exponent), "cy": up(found_here[self.exponent - 1]), "r": 4.5, "fill": colour}
            parts.append(tag("circle", dot))
            left = CHART["left"] + 190 * line
            parts.append(tag("path", {"d": f"M{left} 16h22", **stroke, **dashes}))
            parts.append(label(left + 28, 20, words[f"legend_{name}"]))
        step = across(2) - across(1)
        for e in range(1, MOST + 1):
            column = {"x": across(e) - step / 2, "y": CHART["top"], "width": step, "height": HEIGHT - CHART["top"]}
            chosen = {"fill-opacity": 0, "class": "pick", "data-set": "exponent", "data-value": str(e)}
            parts.append(tag("rect", {**column, **chosen}))
        return canvas(WIDTH, HEIGHT, "".join(parts))

    def axes(self):
        """Draw the axes, their numbers and a line at the chosen length."""
        right, bottom, end = CHART["right"], CHART["bottom"], {"text-anchor": "end"}
        middle, parts = {"text-anchor": "middle"}, []
        for share in (0, 0.5, 1):
            faint = {"stroke": "currentColor", "stroke-opacity": 0.4 if share == 0 else 0.15}
            parts.append(tag("path", {"d": f"M{CHART['left']} {number(up(share))}H{right}", **faint}))
            parts.append(label(CHART["left"] - 8, up(share) + 4, f"{round(100 * share)} %", end))
        for e in (1, 5, 10, 15, 20):
            parts.append(label(across(e), bottom + 18, f"{2**e:,}".replace(",", "\u202f"), middle))
        at = f"M{number(across(self.exponent))} {CHART['top']}V{bottom}"
        parts.append(tag("path", {"d": at, "stroke": "currentColor", "stroke-opacity": 0.3}))
        parts.append(label((CHART["left"] + right) / 2, bottom + 42, self.words["axis"], {**middle, "class": "muted"}))
        return parts


def across(exponent):
    """Return where a number of keys stands."""
    return CHART["left"] + 12 + (CHART["right"] - CHART["left"] - 30) * (exponent - 1) / (MOST - 1)


def up(share):
    """Return where a weight stands."""
    return CHART["bottom"] - (CHART["bottom"] - CHART["top"]) * share


def percent(share):
    """Write a share in percent, with two digits below 10 and no more than are shown below a thousandth."""
    whole = 100 * share
    return f"{whole:.0f}" if whole >= 9.95 else f"{whole:.1f}" if whole >= 0.095 else say("widgets.dilution.less")
