"""The wall: up to which length a model fits one machine and how long it takes, with each remedy for long texts."""

import math

import traitlets

from mha import cost
from mha.text import say
from mha.widgets.base import Widget, data, module_source, setting
from mha.widgets.cost import digits, quantity
from mha.widgets.svg import canvas, label, number, tag

WIDTH, HEIGHT = 430, 424
EDGE, BREADTH, LINE = 23, 384, 19
ROWS = ("weights", "cache", "working", "prompt_seconds", "core_share", "token_seconds", "reach")
LEFT, TOP, BOTTOM = EDGE + 38, 184, 364
LOW, HIGH = 8, 16  # powers of ten of the bytes that are drawn
TICKS = {8: "100 MB", 10: "10 GB", 12: "1 TB", 14: "100 TB", 16: "10 PB"}
REMEDIES = ("stored", "fused", "window", "linear")
WINDOW = 4096
LENGTHS = [2**power for power in range(7, 23)]
FARTHEST = 2**40
ITEMSIZE = 2


def sizes(model):
    """Return what the browser needs of a published model."""
    return {
        "name": model.name,
        "num_layers": model.num_layers,
        "num_heads": model.num_heads,
        "num_kv_heads": model.num_kv_heads,
        "d_head": model.d_head,
        "parameters": model.parameters() + model.feed_forward_parameters(),
    }


class Wall(Widget):
    """Bytes and seconds by `mha.cost` of a published decoder that reads a text of any length, and writes one token.

    `model` and `machine` are keys of `cost.published_models()` and `cost.published_machines()`, `remedy` is one of
    `stored`, `fused`, `window`, which sees the last 4096 keys, and `linear`, with as many features as a head is wide.
    """

    _esm = module_source("wall")
    models = data(traitlets.List(traitlets.Dict()))
    machines = data(traitlets.List(traitlets.Dict()))
    lengths = data(traitlets.List(traitlets.Int()))
    window = data(traitlets.Int())
    model = setting(traitlets.Int())
    machine = setting(traitlets.Int())
    length = setting(traitlets.Int())
    remedy = setting(traitlets.Int())

    def __init__(self, model="llama-3-8b", *, machine="h100", length=2**17, remedy="stored", name="", caption=None):
        published = {
            key: m for key, m in cost.published_models().items() if m.kind == "decoder" and m.d_mlp is not None
        }
        machines = cost.published_machines()
        for argument, value, options in (
            ("model", model, published),
            ("machine", machine, machines),
            ("remedy", remedy, REMEDIES),
        ):
            if value not in options:
                raise ValueError(f"{argument} is {value!r}, expected one of {', '.join(options)}")
        kept = ("name", "peak", "bandwidth", "memory")
        super().__init__(
            models=[sizes(m) for m in published.values()],
            machines=[{key: getattr(m, key) for key in kept} for m in machines.values()],
            lengths=LENGTHS,
            window=WINDOW,
            model=list(published).index(model),
            machine=list(machines).index(machine),
            length=length,
            remedy=REMEDIES.index(remedy),
            name=name,
            caption=caption,
        )

    def limits(self):
        last = {"model": self.models, "machine": self.machines, "remedy": REMEDIES}
        return {key: (0, len(options) - 1) for key, options in last.items()}

    @traitlets.validate("model", "machine", "remedy")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    @traitlets.validate("length")
    def _among_lengths(self, proposal):
        if proposal.value not in self.lengths:
            raise ValueError(f"length is {proposal.value}, expected one of {self.lengths}")
        return proposal.value

    def held(self, remedy, n):
        """Return the bytes of the weights, of the cache of n positions, and of one layer that reads them all."""
        m = self.models[self.model]
        heads, split = (m["num_heads"], m["d_head"]), {"num_kv_heads": m["num_kv_heads"], "itemsize": ITEMSIZE}
        weights = ITEMSIZE * m["parameters"]
        peak = cost.composed_peak if remedy == "stored" else cost.fused_peak
        if remedy == "linear":
            cache = cost.linear_state_bytes(m["num_heads"], m["d_head"], m["d_head"], num_layers=m["num_layers"])
        else:
            kept = min(n, self.window) if remedy == "window" else n
            cache = cost.kv_cache_bytes(kept, m["num_kv_heads"], m["d_head"], num_layers=m["num_layers"])
        return weights, cache, peak(n, *heads, **split)

    def core_flops(self, remedy, n):
        """Return the operations of scores and mix of all layers; stored scores are computed behind the mask too."""
        m = self.models[self.model]
        if remedy == "linear":
            return m["num_layers"] * cost.linear_flops(n, m["num_heads"], m["d_head"], m["d_head"])
        full = min(n, self.window) if remedy == "window" else n  # the rows before the window is full are a triangle
        pairs = n * n if remedy == "stored" else full * (full + 1) // 2 + (n - full) * full
        return m["num_layers"] * cost.core_flops(pairs, m["num_heads"], m["d_head"])

    def prompt_bytes(self, remedy, n):
        """Return the bytes that move while a text is read: the weights once, and the tensors of each layer."""
        m = self.models[self.model]
        traffic = cost.composed_traffic if remedy == "stored" else cost.fused_traffic
        split = {"num_kv_heads": m["num_kv_heads"], "itemsize": ITEMSIZE}
        return ITEMSIZE * m["parameters"] + m["num_layers"] * traffic(n, m["num_heads"], m["d_head"], **split)

    def token_flops(self, remedy, n):
        """Return the operations of one more token."""
        m = self.models[self.model]
        if remedy == "linear":
            core = cost.linear_flops(1, m["num_heads"], m["d_head"], m["d_head"])
        else:
            seen = min(n, self.window) if remedy == "window" else n
            core = cost.core_flops(seen, m["num_heads"], m["d_head"])
        return 2 * m["parameters"] + m["num_layers"] * core

    def reach(self, remedy):
        """Return the largest number of positions that fit the machine; 0 if not even the weights do."""
        memory, fits, fails = self.machines[self.machine]["memory"], 0, FARTHEST
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if sum(self.held(remedy, middle)) <= memory else (fits, middle)
        return fits

    def compute(self):
        """Return the bytes and the seconds of the chosen remedy, and the bytes of every remedy at each length."""
        machine, remedy, n = self.machines[self.machine], REMEDIES[self.remedy], self.length
        rates = {"peak": machine["peak"], "bandwidth": machine["bandwidth"]}
        weights, cache, working = self.held(remedy, n)
        core = self.core_flops(remedy, n)
        flops = 2 * n * self.models[self.model]["parameters"] + core
        return {
            "weights": float(weights),
            "cache": float(cache),
            "working": float(working),
            "total": float(weights + cache + working),
            "prompt_flops": float(flops),
            "prompt_seconds": cost.roofline_seconds(flops, self.prompt_bytes(remedy, n), **rates),
            "core_share": core / flops,
            "token_seconds": cost.roofline_seconds(self.token_flops(remedy, n), weights + cache, **rates),
            "reach": float(self.reach(remedy)),
            "totals": [[float(sum(self.held(other, m))) for m in self.lengths] for other in REMEDIES],
        }

    def about(self, found):
        """Return the words for the setting and the numbers that sentences are made of."""
        machine, words = self.machines[self.machine], self.words
        written = {key: quantity(found[key], "B") for key in ("weights", "cache", "working", "total")}
        written |= {key: quantity(found[key], "s") for key in ("prompt_seconds", "token_seconds")}
        return written | {
            "core_share": f"{digits(100 * found['core_share'])} %",
            "reach": quantity(found["reach"], "") if found["reach"] else words["nowhere"],
            "fit": words["fits" if found["total"] <= machine["memory"] else "fails"],
            "model": self.models[self.model]["name"],
            "machine": machine["name"],
            "memory": quantity(machine["memory"], "B"),
            "remedy": words[REMEDIES[self.remedy]],
            "length": self.length,
        }

    def sentence(self):
        about = self.about(self.compute())
        keys = ("model", "machine", "remedy", "length", "total", "memory", "fit", "reach")
        return say("widgets.wall.sentence", **{key: about[key] for key in keys})

    def alt(self):
        about = self.about(self.compute())
        keys = ("weights", "cache", "working", "prompt_seconds", "core_share", "token_seconds")
        return f"{self.sentence()} {say('widgets.wall.settings', **{key: about[key] for key in keys})}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, self.rows(found) + self.chart(found))

    def rows(self, found):
        """Write the bytes and the seconds."""
        about, end = self.about(found), {"text-anchor": "end", "font-weight": "700"}
        parts = []
        for line, key in enumerate(ROWS):
            y = 14 + LINE * line
            parts += [label(EDGE, y, self.words[key]), label(EDGE + BREADTH, y, about[key], end)]
        return "".join(parts)

    def chart(self, found):
        """Draw the bytes against the length on logarithmic axes, one line a remedy, and the memory of the machine."""
        machine, right, muted = self.machines[self.machine], EDGE + BREADTH, {"class": "muted"}

        def across(n):
            first, last = math.log2(self.lengths[0]), math.log2(self.lengths[-1])
            return LEFT + (right - LEFT) * (math.log2(n) - first) / (last - first)

        def up(nbytes):
            power = min(max(math.log10(nbytes), LOW), HIGH)
            return BOTTOM - (BOTTOM - TOP) * (power - LOW) / (HIGH - LOW)

        parts = [label(EDGE, TOP - 18, self.words["chart"], muted)]
        for power, words in TICKS.items():
            y = up(10.0**power)
            parts.append(label(LEFT - 6, y + 4, words, {"text-anchor": "end", "font-size": "10", **muted}))
            rule = {"d": f"M{LEFT} {number(y)}H{right}", "stroke": "currentColor", "stroke-opacity": 0.12}
            parts.append(tag("path", rule))
        memory = up(machine["memory"])
        dashed = {"d": f"M{LEFT} {number(memory)}H{right}", "stroke": "currentColor", "stroke-dasharray": "5 4"}
        parts += [tag("path", dashed), label(LEFT + 6, memory - 6, self.about(found)["memory"], muted)]
        for other, totals in enumerate(found["totals"]):
            corners = [f"{number(across(n))} {number(up(x))}" for n, x in zip(self.lengths, totals, strict=True)]
            chosen = other == self.remedy
            look = {"stroke": "#2f8097", "stroke-width": "3"} if chosen else {"stroke": "currentColor"}
            faint = {} if chosen else {"stroke-opacity": 0.45}
            parts.append(tag("path", {"d": f"M{'L'.join(corners)}", "fill": "none", **look, **faint}))
        parts.append(tag("circle", {"cx": across(self.length), "cy": up(found["total"]), "r": 6, "class": "w"}))
        for n in self.lengths[::3]:
            words = quantity(n, "")
            parts.append(label(across(n), BOTTOM + 18, words, {"text-anchor": "middle", **muted}))
        parts.append(label(EDGE, BOTTOM + 42, self.words["axis"], muted))
        return "".join(parts)
