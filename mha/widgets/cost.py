"""A calculator: what the attention layers of a decoder cost, and which roof of a machine they meet."""

import math

import traitlets

from mha import cost
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting
from mha.widgets.svg import FAINT, canvas, label, number, tag

WIDTH, HEIGHT = 430, 384
EDGE, BREADTH, LINE = 23, 384, 19
COUNTED = ("parameters", "prompt_flops", "score_bytes", "cache_bytes", "step_flops", "step_bytes", "step_seconds")
UNITS = {"parameters": "", "prompt_flops": "FLOP", "score_bytes": "B", "cache_bytes": "B", "step_flops": "FLOP"}
UNITS |= {"step_bytes": "B", "step_seconds": "s"}
BAR, AXIS, ROOF = 180, 334, 240
POINTS = ("step", "composed", "fused")
LOW, HIGH = -1, 5  # powers of ten of the intensities that are drawn
TICKS = {-1: "0.1", 0: "1", 1: "10", 2: "100", 3: "10³", 4: "10⁴", 5: "10⁵"}
LENGTHS = [2**power for power in range(7, 21)]
BATCHES = [2**power for power in range(11)]
ITEMSIZES = [4, 2, 1]
WIDTHS = range(16, 513)  # of a head
PREFIXES = {
    1e-9: "n",
    1e-6: "µ",
    1e-3: "m",
    1: "",
    1e3: "k",
    1e6: "M",
    1e9: "G",
    1e12: "T",
    1e15: "P",
    1e18: "E",
    1e21: "Z",
}


def digits(x):
    """Write a number with three digits, halves rounded upwards."""
    places = 2 if x < 10 else 1 if x < 100 else 0
    return f"{math.floor(x * 10**places + 0.5) / 10**places:.{places}f}"


def quantity(x, unit):
    """Write an amount with three digits and a prefix: 2147483648 B is 2.15 GB."""
    x = float(x)
    scale = max((scale for scale in PREFIXES if x >= scale), default=1)
    return f"{digits(x / scale)}\u202f{PREFIXES[scale]}{unit}".rstrip("\u202f")


def head_options(width):
    """Return the numbers of heads that cut `width` columns into heads of a width in use."""
    return [heads for heads in range(1, width + 1) if width % heads == 0 and width // heads in WIDTHS]


def largest(options, limit):
    """Return the largest option up to `limit`, or the smallest there is."""
    return max((option for option in options if option <= limit), default=options[0])


class Cost(Widget):
    """The counts of `mha.cost` for a published decoder, cut into any number of heads, at any length and batch.

    `model` and `machine` are keys of `cost.published_models()` and `cost.published_machines()`.
    """

    _esm = module_source("cost")
    models = data(traitlets.List(traitlets.Dict()))
    machine = data(traitlets.Dict())
    lengths = data(traitlets.List(traitlets.Int()))
    batches = data(traitlets.List(traitlets.Int()))
    itemsizes = data(traitlets.List(traitlets.Int()))
    model = setting(traitlets.Int())
    num_heads = setting(traitlets.Int())
    num_kv_heads = setting(traitlets.Int())
    length = setting(traitlets.Int())
    batch = setting(traitlets.Int())
    itemsize = setting(traitlets.Int())

    def __init__(
        self,
        model="llama-2-7b",
        *,
        num_heads=None,
        num_kv_heads=None,
        length=4096,
        batch=1,
        itemsize=2,
        machine="h100",
        name="",
        caption=None,
    ):
        published = {key: m for key, m in cost.published_models().items() if m.kind == "decoder" and not m.latent}
        if model not in published:
            raise ValueError(f"model is {model!r}, expected one of {', '.join(published)}")
        machines = cost.published_machines()
        if machine not in machines:
            raise ValueError(f"machine is {machine!r}, expected one of {', '.join(machines)}")
        chosen, roof = published[model], machines[machine]
        super().__init__(
            models=[
                {
                    "name": m.name,
                    "d_model": m.d_model,
                    "width": m.num_heads * m.d_head,
                    "num_heads": m.num_heads,
                    "num_kv_heads": m.num_kv_heads,
                    "num_layers": m.num_layers,
                    "head_options": head_options(m.num_heads * m.d_head),
                }
                for m in published.values()
            ],
            machine={
                "name": roof.name,
                "peak": int(roof.peak),
                "bandwidth": int(roof.bandwidth),
                "memory": int(roof.memory),
            },
            lengths=LENGTHS,
            batches=BATCHES,
            itemsizes=ITEMSIZES,
            model=list(published).index(model),
            num_heads=chosen.num_heads if num_heads is None else num_heads,
            num_kv_heads=chosen.num_kv_heads if num_kv_heads is None else num_kv_heads,
            length=length,
            batch=batch,
            itemsize=itemsize,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"model": (0, len(self.models) - 1), "num_heads": (1, 10**4), "num_kv_heads": (1, 10**4)}

    @traitlets.validate("model", "num_heads", "num_kv_heads")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("length", "batch", "itemsize")
    def _among_options(self, proposal):
        key, value = proposal.trait.name, proposal.value
        options = {"length": self.lengths, "batch": self.batches, "itemsize": self.itemsizes}[key]
        if value not in options:
            raise ValueError(f"{key} is {value}, expected one of {options}")
        return value

    def compute(self):
        """Return the heads that were meant and every count; whole numbers as text, which holds any number of digits."""
        model, machine, n = self.models[self.model], self.machine, self.length
        heads = largest(model["head_options"], self.num_heads)
        groups = largest([g for g in range(1, heads + 1) if heads % g == 0], self.num_kv_heads)
        d_head, layers = model["width"] // heads, model["num_layers"]
        split = {"num_kv_heads": groups, "d_head": d_head}
        parameters = layers * cost.attention_parameters(model["d_model"], heads, **split, bias=False)
        causal, copies = n * (n + 1) // 2, layers * self.batch
        cache = cost.kv_cache_bytes(n, groups, d_head, num_layers=layers, batch=self.batch, itemsize=self.itemsize)
        step_flops = copies * cost.attention_flops(1, model["d_model"], heads, cached=n - 1, **split)
        step_bytes = parameters * self.itemsize + cache
        core, sizes = cost.core_flops(causal, heads, d_head), {"num_kv_heads": groups, "itemsize": self.itemsize}
        return {
            "heads": heads,
            "groups": groups,
            "d_head": d_head,
            "parameters": str(parameters),
            "prompt_flops": str(copies * cost.attention_flops(n, model["d_model"], heads, pairs=causal, **split)),
            "score_bytes": str(self.batch * heads * n * n * self.itemsize),
            "cache_bytes": str(cache),
            "step_flops": str(step_flops),
            "step_bytes": str(step_bytes),
            "step_seconds": cost.roofline_seconds(
                step_flops, step_bytes, peak=machine["peak"], bandwidth=machine["bandwidth"]
            ),
            "held": (parameters * self.itemsize + cache) / machine["memory"],
            "ridge": machine["peak"] / machine["bandwidth"],
            "step": cost.arithmetic_intensity(step_flops, step_bytes),
            "composed": cost.arithmetic_intensity(core, cost.composed_traffic(n, heads, d_head, **sizes)),
            "fused": cost.arithmetic_intensity(core, cost.fused_traffic(n, heads, d_head, **sizes)),
        }

    def about(self, found):
        """Return the words for the setting and the counts that sentences are made of."""
        model = self.models[self.model]
        written = {key: quantity(found[key], UNITS[key]) for key in COUNTED}
        return written | {
            "model": model["name"],
            "layers": model["num_layers"],
            "d_model": model["d_model"],
            "heads": found["heads"],
            "groups": found["groups"],
            "d_head": found["d_head"],
            "length": self.length,
            "batch": self.batch,
            "machine": self.machine["name"],
            "step": digits(found["step"]),
            "ridge": digits(found["ridge"]),
            "bound": self.words["arithmetic" if found["step"] >= found["ridge"] else "bandwidth"],
            "dtype": self.words[f"itemsize_{self.itemsize}"],
        }

    def sentence(self):
        about = self.about(self.compute())
        keys = ("model", "heads", "d_head", "groups", "length", "batch", "step_bytes", "step", "machine", "ridge")
        return say("widgets.cost.sentence", **{key: about[key] for key in (*keys, "bound")})

    def alt(self):
        about = self.about(self.compute())
        keys = ("dtype", "parameters", "prompt_flops", "score_bytes", "cache_bytes", "step_flops", "step_seconds")
        return f"{self.sentence()} {say('widgets.cost.settings', **{key: about[key] for key in keys})}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.counts(found) + self.fill(found) + self.roof(found))

    def counts(self, found):
        """Write the split and the counts."""
        about, words, end = self.about(found), self.words, {"text-anchor": "end"}
        keys = ("d_model", "layers", "heads", "d_head", "groups")
        parts = [label(EDGE, 14, say("widgets.cost.split", **{key: about[key] for key in keys}), {"class": "muted"})]
        for line, key in enumerate(COUNTED):
            y = 38 + LINE * line
            parts.append(label(EDGE, y, words[key]))
            parts.append(label(EDGE + BREADTH, y, about[key], {**end, "font-weight": "700"}))
        return "".join(parts)

    def fill(self, found):
        """Draw how much of the machine's memory weights and cache take."""
        share, box = found["held"], {"x": EDGE, "y": BAR + 8, "height": 8, "class": "w"}
        taken = {"memory": quantity(self.machine["memory"], "B"), "machine": self.machine["name"]}
        words = say("widgets.cost.held", share=digits(100 * share), **taken)
        return (
            tag("rect", {**box, "width": BREADTH, "fill-opacity": FAINT})
            + tag("rect", {**box, "width": BREADTH * min(share, 1)})
            + label(EDGE, BAR, words, {"class": "muted"})
        )

    def roof(self, found):
        """Draw the intensities beside the ridge of the machine, on a logarithmic axis."""
        left, right, words = EDGE + 140, EDGE + BREADTH - 60, self.words

        def place(intensity):
            power = min(max(math.log10(intensity), LOW), HIGH)
            return left + (right - left) * (power - LOW) / (HIGH - LOW)

        ridge, middle, end = place(found["ridge"]), {"text-anchor": "middle"}, {"text-anchor": "end"}
        band = {"y": ROOF + 8, "height": AXIS - ROOF - 8, "class": "w", "fill-opacity": FAINT}
        parts = [
            tag("rect", {"x": left, "width": ridge - left, **band}),
            tag("path", {"d": f"M{number(ridge)} {ROOF + 8}V{AXIS}", "stroke": "currentColor"}),
            label(EDGE, ROOF - 16, words["intensity"], {"class": "muted"}),
            label(ridge - 6, ROOF + 1, words["bandwidth_side"], {**end, "class": "muted"}),
            label(ridge + 6, ROOF + 1, words["arithmetic_side"], {"class": "muted"}),
        ]
        for line, key in enumerate(POINTS):
            y, x = ROOF + 28 + 24 * line, place(found[key])
            parts.append(label(EDGE, y + 4, words[f"{key}_point"]))
            parts.append(
                tag("path", {"d": f"M{number(left)} {y}H{number(x)}", "stroke": "currentColor", "stroke-opacity": 0.35})
            )
            parts.append(tag("circle", {"cx": x, "cy": y, "r": 5, "class": "w"}))
            parts.append(label(EDGE + BREADTH, y + 4, digits(found[key]), {**end, "font-weight": "700"}))
        for power in range(LOW, HIGH + 1):
            x = place(10.0**power)
            parts.append(tag("path", {"d": f"M{number(x)} {AXIS}v4", "stroke": "currentColor"}))
            parts.append(label(x, AXIS + 17, TICKS[power], {**middle, "class": "muted"}))
        parts.append(tag("path", {"d": f"M{left} {AXIS}H{right}", "stroke": "currentColor"}))
        about = {"machine": self.machine["name"], "ridge": digits(found["ridge"])}
        parts.append(label(EDGE, AXIS + 40, say("widgets.cost.ridge", **about), {"class": "muted"}))
        return "".join(parts)
