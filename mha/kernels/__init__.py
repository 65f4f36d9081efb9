"""Attention in Triton: the meaning of `mha.reference`, at the speed of the device.

Kernels take CUDA tensors, or those of the CPU in Triton's slow interpreter, which TRITON_INTERPRET=1 chooses before
triton is imported. Called by name they serve or raise, and never hand a call on. `import mha.kernels` costs nothing:
Triton is loaded with the first name that is used.
"""

from importlib import import_module

_ROOMS = {
    "cache": ("decode_attention", "decode_attention_lse", "paged_attention", "paged_attention_lse"),
    "dot_product": ("BiasRule", "Stats", "alibi", "attention", "attention_stats"),
    "linear": ("linear_attention",),
    "sparse": ("sparse_attention",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}
_ELSEWHERE = {"attention_weights": "kernels never form the weights; mha.nn.attention_weights gives them"}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _ELSEWHERE:
        raise AttributeError(f"module 'mha.kernels' has no attribute {name!r}: {_ELSEWHERE[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'mha.kernels' has no attribute {name!r}")
    try:
        return getattr(import_module(f"mha.kernels.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton"):
            raise
        raise ImportError(f"mha.kernels.{name} needs {error.name}: in a checkout, pip install '.[triton]'") from error


def __dir__():
    return __all__
