"""One number in five formats: its bits, its neighbours, and how far off each format is."""

import math

import traitlets

from mha.reference import FORMATS, round_to, spacing
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting
from mha.widgets.svg import canvas, label, tag

WIDTH, HEIGHT = 430, 338
EDGE, BREADTH = 23, 384
BITS, LINE, TABLE, ROW = 44, 138, 210, 22
COLUMNS = {"becomes": 262, "off": 407}  # right edges
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Rounding(Widget):
    """The number (1 + thousandths / 1000) · 2^exponent rounded to each format.   Book: {eq}`rounding-unit`."""

    _esm = module_source("rounding")
    formats = data(traitlets.List())
    exponent = setting(traitlets.Int())
    thousandths = setting(traitlets.Int())
    format = setting(traitlets.Int())

    def __init__(self, *, exponent=0, thousandths=0, format=1, name="", caption=None):
        super().__init__(
            formats=[one._asdict() for one in FORMATS],
            exponent=exponent,
            thousandths=thousandths,
            format=format,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"exponent": (-30, 20), "thousandths": (0, 999), "format": (0, len(FORMATS) - 1)}

    @traitlets.validate("exponent", "thousandths", "format")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the number, what it becomes in each format, and bits and neighbours in the chosen one."""
        value, chosen = (1 + self.thousandths / 1000) * 2.0**self.exponent, FORMATS[self.format]
        rounded = [float(round_to(value, format)) for format in FORMATS]
        step = float(spacing(value, chosen))
        low = math.floor(value / step) * step
        return {
            "value": value,
            "rounded": [x if math.isfinite(x) else None for x in rounded],
            "off": [100 * abs(x - value) / value if math.isfinite(x) else None for x in rounded],
            "bits": bits(rounded[self.format], chosen),
            "low": low if low <= chosen.largest else None,
            "high": low + step if low + step <= chosen.largest else None,
            "place": (value - low) / step,
        }

    def becomes(self, found, format):
        """Write what the number becomes in a format."""
        rounded = found["rounded"][format]
        if rounded is None:
            return "∞" if FORMATS[format].has_infinity else "NaN"
        return decimal(rounded)

    def sentence(self):
        found = self.compute()
        off = found["off"][self.format]
        told = {"value": decimal(found["value"]), "format": FORMATS[self.format].name}
        told["rounded"] = self.becomes(found, self.format)
        if off is None:
            return say("widgets.rounding.sentence_beyond", largest=decimal(FORMATS[self.format].largest), **told)
        return say("widgets.rounding.sentence", off=decimal(off), **told)

    def alt(self):
        words = {"significand": significand(self.thousandths), "exponent": raised(self.exponent)}
        return f"{self.sentence()} {say('widgets.rounding.settings', bits=self.compute()['bits'], **words)}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.pattern(found) + self.between(found) + self.table(found))

    def pattern(self, found):
        """Draw the bits of the chosen format, in their three groups."""
        chosen, middle = FORMATS[self.format], {"text-anchor": "middle"}
        first = {"significand": significand(self.thousandths), "exponent": raised(self.exponent)}
        parts = [label(EDGE, 20, say("widgets.rounding.value", **first, value=decimal(found["value"])))]
        size = min(24, BREADTH / chosen.bits)
        groups = {"sign": 1, "exponent": chosen.exponent_bits, "fraction": chosen.fraction_bits}
        looks = {"sign": {"fill-opacity": 0.15}, "exponent": {"fill": "#c8553d", "fill-opacity": 0.35}}
        x, left = EDGE, iter(found["bits"])
        for name, count in groups.items():
            look = looks.get(name, {"class": "w", "fill-opacity": 0.35})
            for _ in range(count):
                parts.append(tag("rect", {"x": x + 0.5, "y": BITS, "width": size - 1, "height": 26, **look}))
                font = {"font-size": 13 if size > 14 else 10}
                parts.append(label(x + size / 2, BITS + 18, next(left), {**middle, **font}))
                x += size
            if name != "sign":
                words = say("widgets.rounding.group", name=self.words[f"{name}_bits"], count=count)
                parts.append(label(x - size * count / 2, BITS + 42, words, {**middle, "class": "muted"}))
        return "".join(parts)

    def between(self, found):
        """Draw the number between its neighbours."""
        left, right, middle = EDGE + 60, EDGE + BREADTH - 60, {"text-anchor": "middle"}
        line = {"stroke": "currentColor", "stroke-opacity": 0.6}
        parts = [tag("path", {"d": f"M{EDGE} {LINE}h{BREADTH}M{left} {LINE - 7}v14M{right} {LINE - 7}v14", **line})]
        for x, name in ((left, "low"), (right, "high")):
            text = self.words["beyond"] if found[name] is None else decimal(found[name])
            parts.append(label(x, LINE + 24, text, middle))
        x = left + (right - left) * found["place"]
        parts.append(tag("circle", {"cx": x, "cy": LINE, "r": 5, "class": "w"}))
        return "".join(parts)

    def table(self, found):
        """Write what the number becomes in every format."""
        end = {"text-anchor": "end"}
        parts = [label(right, TABLE, self.words[name], {**end, "class": "muted"}) for name, right in COLUMNS.items()]
        for row, format in enumerate(FORMATS):
            y, bold = TABLE + (row + 1) * ROW, {"font-weight": "700"} if row == self.format else {}
            off = found["off"][row]
            parts += [
                label(EDGE, y, format.name, bold),
                label(COLUMNS["becomes"], y, self.becomes(found, row), {**end, **bold}),
                label(COLUMNS["off"], y, "—" if off is None else f"{decimal(off)} %", {**end, **bold}),
            ]
            box = {"x": EDGE - 6, "y": y - 15, "width": BREADTH + 12, "height": ROW, "fill-opacity": 0}
            parts.append(tag("rect", {**box, "class": "pick", "data-set": "format", "data-value": str(row)}))
        return "".join(parts)


def bits(x, format):
    """Return the bits of a number of `format`, not negative: sign, exponent, fraction."""
    if not math.isfinite(x):
        field = 2**format.exponent_bits - 1
        fraction = 0 if format.has_infinity else 2**format.fraction_bits - 1
    elif x < format.smallest_normal:
        field, fraction = 0, int(x / format.smallest)
    else:
        exponent = math.frexp(x)[1] - 1
        field, fraction = exponent + format.bias, int((x / 2.0**exponent - 1) * 2**format.fraction_bits)
    return f"0{field:0{format.exponent_bits}b}{fraction:0{format.fraction_bits}b}"


def significand(thousandths):
    """Write 1 + thousandths / 1000."""
    return f"1.{thousandths:03d}".rstrip("0").rstrip(".")


def raised(exponent):
    """Write an exponent as raised digits."""
    return str(exponent).translate(RAISED)


def decimal(x):
    """Write a number that is not negative with five digits."""
    if x == 0:
        return "0"
    power = max(k for k in range(-50, 50) if float(f"1e{k}") <= x)
    digits = math.floor(x / float(f"1e{power}") * 10000 + 0.5)
    if digits == 100000:
        digits, power = 10000, power + 1
    written = str(digits).rstrip("0")
    if power < -4 or power > 6:
        return f"{written[0]}{'.' if len(written) > 1 else ''}{written[1:]} · 10{raised(power)}"
    if power < 0:
        return f"0.{'0' * (-power - 1)}{written}"
    whole, rest = written[: power + 1].ljust(power + 1, "0"), written[power + 1 :]
    return f"{whole}.{rest}" if rest else whole
