"""What attention did in one pass: every multi-head layer of a model, its inputs and its heads, as they were.

The model runs as always. Each layer calls its core through a recorder that keeps the very q, k, v, options and result;
weights, scores and statistics are computed from them when asked for.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mha import shapes
from mha.analysis.cores import attention_layers, wrapped_cores
from mha.nn import formula
from mha.nn.dot_product import attention_weights
from mha.nn.row_stats import attention_stats
from mha.nn.visible import visible

__all__ = ["Call", "Recording", "capture"]


@dataclass(frozen=True)
class Call:
    """One call of one layer: q, k and v as attention saw them, norms and positions applied, and what it answered."""

    name: str  # of the layer in the model
    layer: Any
    q: Any  # (batch, heads, queries, width)
    k: Any  # (batch, key heads, keys, width)
    v: Any  # (batch, key heads, keys, width)
    options: Any  # of the core: mask, bias, scale, softcap, sinks, q_start, dropout
    heads: Any  # what each head found: (batch, heads, queries, width), before the gate

    @property
    def scores(self):
        """The scores of each head, capped, biased, and −inf where a query may not see a key."""
        call = shapes.check(self.q, self.k, **self._before_dropout())
        options = {name: self.options[name] for name in ("bias", "softcap")}
        see = visible(call, self.q.device, self.options["bias"])
        return formula.scores(self.q, self.k, see, scale=call.scale, **options)

    @property
    def weights(self):
        """The weights of each head, before dropout: (batch, heads, queries, keys)."""
        return attention_weights(self.q, self.k, **self._before_dropout())

    @property
    def stats(self):
        """`Stats` of each row of scores: lse, max_logit, entropy."""
        return attention_stats(self.q, self.k, self.v, **self._before_dropout())[1]

    def _before_dropout(self):
        return {name: value for name, value in self.options.items() if name != "dropout"}


class Recording(Mapping):
    """The calls of each layer: `recording[name]` is the latest, by the layer's name or the layer itself.

    `calls` has all of them, in the order in which they ran.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.runs = True  # until the block ends; a copy of a layer made in it may still call here

    def __getitem__(self, layer) -> Call:
        for call in reversed(self.calls):
            if call.layer is layer or call.name == layer:
                return call
        raise KeyError(f"{layer!r} did not run: expected one of {list(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(call.name for call in self.calls))

    def __len__(self):
        return len(set(self))


@contextmanager
def capture(model, *, detach=False):
    """Record what each `MultiHeadAttention` in `model` does until the block ends; its outputs keep their bits.

    ::

        with capture(model) as seen:
            model(tokens)
        seen["blocks.3.attention"].weights

    A model of transformers is recorded in the block of `mha.models.huggingface.swapped(model)`. Tensors stay on the
    graph of the pass unless `detach`. Single steps of a layer whose groups are of unequal size take another way in it,
    equal up to rounding. The layers are as before after the block, whatever happens.
    """
    recording = Recording()
    layers = attention_layers(model, "there is nothing to record")
    try:
        with wrapped_cores(layers, lambda name, layer: _recorder(recording, name, layer, detach)):
            yield recording
    finally:
        recording.runs = False


def _recorder(recording, name, layer, detach):
    core = layer.core

    def record(q, k, v, **options):
        heads = core(q, k, v, **options)
        if not recording.runs:
            return heads
        seen = {"q": q, "k": k, "v": v, "heads": heads}, options
        tensors, others = ({key: _loose(x) if detach else x for key, x in part.items()} for part in seen)
        recording.calls.append(Call(name, layer, **tensors, options=others))
        return heads

    return record


def _loose(x):
    return x.detach() if hasattr(x, "detach") else x
