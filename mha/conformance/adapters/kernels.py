"""The kernels of this package, on a GPU or, where there is none, in Triton's interpreter.

Triton is asked to interpret before it is imported: then the cases run in a process of their own. So nothing here loads
it before a case calls.
"""

import numpy as np
import torch

from mha import kernels
from mha.conformance.adapter import FEATURES, PARTS, Adapter
from mha.conformance.adapters.values import with_masks
from mha.conformance.arrays import Torch

LACKS = {"weights", "rotate", "second-derivative", "forward-derivative"} | set(PARTS) - {"linear-attention"}


def functions(name):
    """Return the adapter of the functions of `mha.kernels`."""
    on_gpu = torch.cuda.is_available()
    return Adapter(
        name=name,
        attend=with_masks(_attend),
        as_given=_attend,
        stats=with_masks(lambda *inputs, **options: kernels.attention_stats(*inputs, **options)[1]._asdict()),
        parts={"linear-attention": lambda *inputs, **options: kernels.linear_attention(*inputs, **options)},
        arrays=Torch("cuda" if on_gpu else "cpu"),
        supports=FEATURES - LACKS,
        dtype=np.float32,
        packages=("torch", "triton"),
        environment={} if on_gpu else {"TRITON_INTERPRET": "1"},
    )


def _attend(*inputs, **options):
    return kernels.attention(*inputs, **options)
