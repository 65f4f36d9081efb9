"""Linear attention as operators of torch, with their shapes and their derivative."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from mha.kernels.layout import with_unit_stride
from mha.kernels.linear.outputs import outputs
from mha.kernels.linear.states import states
from mha.kernels.runtime import architecture
from mha.kernels.tile_sizes import padded, tile_size

__all__ = ["backward", "forward"]

STRIP = 64  # of the table's row: no tile takes more columns of a width


class Size(NamedTuple):
    """Tokens of a chunk, columns of a tile of keys and of one of values, and what a launch takes besides."""

    chunk: int
    d: int
    e: int
    options: dict


def size_of(q, v):
    """Return the Size for these tensors."""
    size = tile_size("linear", architecture(q.device), STRIP, itemsize=q.element_size())
    d, e = (min(size.bn, padded(max(1, x.shape[-1]))) for x in (q, v))
    return Size(size.bm, d, e, size.options())


@torch.library.custom_op("mha::linear_forward", mutates_args=())
def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    first: torch.Tensor,
    log_decay: "torch.Tensor | None",
    precision: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output (b, h, n, e) and the last state (b, h, d, e) from the first."""
    q, k, v = map(with_unit_stride, (q, k, v))
    options = {"size": size_of(q, v), "precision": precision}
    every, last = states(k, v, log_decay, first.contiguous(), **options)
    return outputs(q, k, v, log_decay, every, **options), last


@forward.register_fake
def _(q, k, v, first, log_decay, precision):
    return v.new_empty((*q.shape[:-1], v.shape[-1])), torch.empty_like(first, memory_format=torch.contiguous_format)


@torch.library.custom_op("mha::linear_backward", mutates_args=())
def backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    first: torch.Tensor,
    log_decay: "torch.Tensor | None",
    d_out: torch.Tensor,
    d_last: torch.Tensor,
    of_decay: bool,
    precision: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of q, k, v and the first state, and with `of_decay` that of the decay, else an empty one."""
    q, k, v, d_out = map(with_unit_stride, (q, k, v, d_out))
    options = {"size": size_of(q, v), "precision": precision}
    every, _ = states(k, v, log_decay, first.contiguous(), **options)
    d_every, d_first = states(q, d_out, log_decay, d_last.contiguous(), backward=True, **options)
    exact = torch.float32 if of_decay else q.dtype
    dq = outputs(d_out, v, k, log_decay, every, transposed=True, dtype=exact, **options)
    dk = outputs(v, d_out, q, log_decay, d_every, backward=True, transposed=True, dtype=exact, **options)
    dv = outputs(k, q, d_out, log_decay, d_every, backward=True, **options)
    if not of_decay:
        return dq, dk, dv, d_first, first.new_empty(0)
    entering = torch.cat([d_first[:, :, None], d_every[:, :, :-1]], 2)[:, :, : every.shape[2]]
    taken = (q * dq).sum(-1) - (k * dk).sum(-1)
    d_decay = gradient_of_decay(taken, (entering * every).sum((-2, -1)), options["size"].chunk)
    return dq.to(q.dtype), dk.to(k.dtype), dv, d_first, d_decay


def gradient_of_decay(taken, entering, chunk):
    """Return (b, h, n) from what each token takes off, and from what the first token of each chunk has.

    The decay of a token acts on what was kept before and is read from it on. From one token to the next that loses what
    the first one reads, q · dq, and gains what it keeps, k · dk. A sum over all tokens would lose its digits.
    """
    n, chunks = taken.shape[-1], entering.shape[-1]
    taken = F.pad(taken, (0, chunks * chunk - n)).reshape(*entering.shape, chunk)
    before = taken.cumsum(-1) - taken
    return (entering[..., None] - before).flatten(-2)[..., :n].contiguous()


@backward.register_fake
def _(q, k, v, first, log_decay, d_out, d_last, of_decay, precision):
    d_rows = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    d_first = torch.empty_like(first, memory_format=torch.contiguous_format)
    return *d_rows, d_first, first.new_empty(q.shape[:-1] if of_decay else 0)


def keep(ctx, inputs, output):
    *tensors, ctx.precision = inputs
    ctx.save_for_backward(*tensors)


def differentiate(ctx, d_out, d_last):
    q, k, v, first, log_decay = ctx.saved_tensors
    of_decay = ctx.needs_input_grad[4]
    *gradients, d_decay = backward(q, k, v, first, log_decay, d_out, d_last, of_decay, ctx.precision)
    return *gradients, d_decay if of_decay else None, None


def refuse(ctx, *gradients):
    raise ValueError("mha.kernels.linear_attention has a first derivative only; mha.nn.linear_attention has any")


forward.register_autograd(differentiate, setup_context=keep)
backward.register_autograd(refuse)
