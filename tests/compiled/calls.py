"""What is compiled ahead of time: calls of the public functions, by head width.

A new kernel needs one function here, and its name in a test file. Sizes matter only where they choose a kernel's flags:
a length that no tile divides, and so many keys that decoding splits them.
"""

import torch

from mha import kernels, masks
from mha.dropout import Dropout
from mha.kernels.linear import linear_attention


def tensors(architecture, width, *, n_q=301, n_k=301, heads=4, kv_heads=2):
    """Return q, k and v as models have them: slices of a projection (b, n, h, width), of 16-bit numbers."""
    dtype = torch.float16 if architecture < 80 else torch.bfloat16
    sizes = ((n_q, heads), (n_k, kv_heads), (n_k, kv_heads))
    return [torch.zeros(2, n, h, width, dtype=dtype).transpose(1, 2) for n, h in sizes]


def forward(architecture, width):
    kernels.attention(*tensors(architecture, width), mask=masks.causal)


def forward_without_mask(architecture, width):
    kernels.attention(*tensors(architecture, width))


def backward(architecture, width, mask=masks.causal, **options):
    learned = [x.requires_grad_() for x in tensors(architecture, width)]
    out = kernels.attention(*learned, mask=mask, **options)
    torch.autograd.grad(out, learned, torch.zeros_like(out))


def every_option(architecture, width):
    q = tensors(architecture, width)[0]
    bias = torch.zeros(4, 301, 301, dtype=q.dtype, requires_grad=True)
    sinks = torch.zeros(4, requires_grad=True)
    mask = (masks.causal & masks.window(64, 0)) | masks.global_tokens([0, 5])
    backward(architecture, width, mask, bias=bias, sinks=sinks, softcap=30.0, dropout=Dropout(0.1, 7))


def learned_bias(architecture, width):
    bias = torch.zeros(4, 301, 301, dtype=tensors(architecture, width)[0].dtype, requires_grad=True)
    backward(architecture, width, bias=bias)


def stats(architecture, width):
    kernels.attention_stats(*tensors(architecture, width), mask=masks.causal)


def decode(architecture, width):
    q, k, v = tensors(architecture, width, n_q=1, n_k=4096, heads=8)
    kernels.decode_attention(q, k, v, mask=masks.causal & masks.lengths(torch.tensor([4001, 17])))


def decode_drafts(architecture, width):
    """Eight rows a head, eight heads that share their keys, in pages: 64 rows, of which some do not see all keys."""
    q, pages, _ = tensors(architecture, width, n_q=8, n_k=16, heads=8, kv_heads=1)
    pages = pages.repeat(256, 1, 1, 1)
    table = torch.zeros(2, 256, dtype=torch.int32)
    kernels.paged_attention(q, pages, pages, table, torch.tensor([4001, 17]), mask=masks.causal)


def linear(architecture, width):
    """Forward and backward, with a state that is given and a decay."""
    learned = [x.requires_grad_() for x in tensors(architecture, width, kv_heads=4)]
    state, log_decay = torch.zeros(2, 4, width, width), torch.zeros(2, 4, 301)
    out, last = linear_attention(*learned, state=state, log_decay=log_decay)
    torch.autograd.grad((out, last), learned, (torch.zeros_like(out), torch.zeros_like(last)))


CALLS = {
    f.__name__: f
    for f in (
        forward,
        forward_without_mask,
        backward,
        every_option,
        learned_bias,
        stats,
        decode,
        decode_drafts,
        linear,
    )
}
