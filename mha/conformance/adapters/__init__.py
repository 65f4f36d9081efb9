"""The attention functions that the kit knows, each adapted in the file of its library."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from mha.conformance.adapter import Adapter


class Known(NamedTuple):
    """Where an adapter is built, and the packages that it needs."""

    module: str
    builder: str
    packages: tuple[str, ...]
    ours: bool = False


KNOWN = {
    "mha.reference": Known("reference", "functions", ("numpy",), ours=True),
    "mha.nn": Known("nn", "functions", ("torch", "einops"), ours=True),
    "mha.nn.MultiHeadAttention": Known("nn", "module", ("torch", "einops"), ours=True),
    "mha.kernels": Known("kernels", "functions", ("torch", "triton"), ours=True),
    "torch.sdpa": Known("torch_sdpa", "function", ("torch",)),
    "torch.MultiheadAttention": Known("torch_mha", "without_weights", ("torch",)),
    "torch.MultiheadAttention-weights": Known("torch_mha", "with_weights", ("torch",)),
    "torch.FlexAttention": Known("torch_flex", "function", ("torch",)),
    "transformers.eager": Known("hugging_face", "eager", ("torch", "transformers")),
    "transformers.sdpa": Known("hugging_face", "sdpa", ("torch", "transformers")),
    "x-transformers.Attend": Known("x_transformers", "layer", ("torch", "x_transformers")),
    "keras.MultiHeadAttention": Known("keras", "layer", ("keras", "jax")),
    "keras.ops": Known("keras", "operation", ("keras", "jax")),
    "jax.nn": Known("jax", "function", ("jax",)),
    "flax.nnx": Known("flax", "function", ("jax", "flax")),
    "equinox": Known("equinox", "function", ("jax", "equinox")),
    "onnx.Attention": Known("onnx", "operator", ("onnx",)),
}
OURS = [name for name, known in KNOWN.items() if known.ours]


def is_installed(name) -> bool:
    """Whether every package that an adapter needs is there. Nothing is imported."""
    return all(find_spec(package) is not None for package in KNOWN[name].packages)


def find(name) -> Adapter:
    """Return the adapter of this name; its packages are imported now."""
    if name not in KNOWN:
        raise ValueError(f"no adapter {name!r}: expected one of {', '.join(KNOWN)}")
    known = KNOWN[name]
    return getattr(import_module(f"{__name__}.{known.module}"), known.builder)(name)
