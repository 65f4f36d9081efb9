"""What is published of models and of machines, read from tables that name their sources."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from mha.cost.cache import kv_cache_bytes, latent_cache_bytes
from mha.cost.parameters import attention_parameters, feed_forward_parameters, latent_parameters
from mha.cost.sizes import Latent


@dataclass(frozen=True, kw_only=True)
class Model:
    """The layers of a published model. `source` is a key of the bibliography, `where` a place in it.

    `d_mlp` is the width between the matrices of a feed-forward layer, three of them if it has a gate; None if it is
    not in the table.
    """

    name: str
    year: int
    kind: str  # encoder, decoder or encoder-decoder
    d_model: int
    num_heads: int
    num_kv_heads: int
    d_head: int
    num_layers: int  # of one stack
    source: str
    where: str
    latent: Latent | None = None
    d_mlp: int | None = None
    num_mlp_matrices: int = 2

    @property
    def num_attentions(self):
        """Return the number of attention operations: a decoder that reads an encoder has two in each layer."""
        return self.num_layers * (3 if self.kind == "encoder-decoder" else 1)

    def parameters(self):
        """Return the number of weights in all attention layers, biases left out."""
        if self.latent is not None:
            return self.num_attentions * latent_parameters(self.d_model, self.num_heads, self.latent)
        heads = {"num_kv_heads": self.num_kv_heads, "d_head": self.d_head}
        return self.num_attentions * attention_parameters(self.d_model, self.num_heads, **heads, bias=False)

    def feed_forward_parameters(self):
        """Return the number of weights in the feed-forward layers of all stacks, biases left out."""
        if self.d_mlp is None:
            raise ValueError(
                f"d_mlp is None: the table does not say how wide the feed-forward layers of {self.name} are"
            )
        stacks = 2 if self.kind == "encoder-decoder" else 1
        one = feed_forward_parameters(self.d_model, self.d_mlp, num_matrices=self.num_mlp_matrices, bias=False)
        return stacks * self.num_layers * one

    def cache_bytes(self, n, *, batch=1, itemsize=2):
        """Return what decoding keeps of n positions in self-attention, all layers; 0 for an encoder."""
        sizes = {"num_layers": self.num_layers, "batch": batch, "itemsize": itemsize}
        if self.kind == "encoder":
            return 0
        if self.latent is not None:
            return latent_cache_bytes(n, self.latent, **sizes)
        return kv_cache_bytes(n, self.num_kv_heads, self.d_head, **sizes)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine as its maker describes it: operations a second, bytes a second, bytes."""

    name: str
    peak: float
    bandwidth: float
    memory: float
    source: str

    @property
    def ridge(self):
        """Return the intensity from which on it computes at its peak, in operations a byte."""
        return self.peak / self.bandwidth


def published_models():
    """Return {key: `Model`}, oldest first."""
    return {key: _model(**entry) for key, entry in _table("models").items()}


def published_machines():
    """Return {key: `Machine`}, oldest first."""
    return {key: Machine(**entry) for key, entry in _table("machines").items()}


def _model(*, d_model, num_heads, num_kv_heads=None, d_head=None, latent=None, **rest):
    return Model(
        d_model=d_model,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads or num_heads,
        d_head=d_head or d_model // num_heads,
        latent=None if latent is None else Latent(**latent),
        **rest,
    )


def _table(name):
    return tomllib.loads((files("mha.cost") / f"{name}.toml").read_text(encoding="utf-8"))
