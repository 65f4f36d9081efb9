"""What is compiled ahead of time: for each kernel, calls of the public functions that launch it, by head width.

A new kernel needs one function here, and its name in the test file of its room. Sizes matter only where they choose a
kernel's flags: many keys, so that decoding splits them, and a length that no tile divides.
"""

import torch

from mha import masks, shapes
from mha.kernels import cache
from mha.kernels.dot_product.forward import forward as forward_pass
from mha.kernels.dot_product.problem import problem_of


def tensors(architecture, width, *, n_q=301, n_k=301, heads=4, kv_heads=2, grad=False):
    """Return q, k and v as models have them: slices of one projection (b, n, h, width), 16-bit numbers."""
    dtype = torch.float16 if architecture < 80 else torch.bfloat16
    sizes = ((n_q, heads), (n_k, kv_heads), (n_k, kv_heads))
    return [torch.zeros(2, n, h, width, dtype=dtype).transpose(1, 2).requires_grad_(grad) for n, h in sizes]


def forward(architecture, width, **options):
    q, k, v = tensors(architecture, width)
    call = shapes.check(q, k, v, mask=masks.causal, **options)
    forward_pass(q, k, v, problem_of(call, q, k, v))


def decode(architecture, width):
    q, k, v = tensors(architecture, width, n_q=1, n_k=4096, heads=8)
    cache.decode_attention(q, k, v, mask=masks.causal & masks.lengths(torch.tensor([4001, 17])))


CALLS = {"forward": forward, "decode": decode}
