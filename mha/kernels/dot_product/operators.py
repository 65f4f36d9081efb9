"""Forward and backward as operators of torch: what torch.compile puts in a graph, and autograd's rule between the two.

The options cross as `operands`: lists of tiles are made inside, for each call as it comes, so that one graph serves
every mask of a structure.
"""

import torch
from torch import Tensor

from mha.kernels.dot_product.backward import backward
from mha.kernels.dot_product.bias_gradient import bias_gradient
from mha.kernels.dot_product.forward import forward
from mha.kernels.dot_product.operands import assembled
from mha.kernels.dot_product.problem import problem_of
from mha.shapes import Call

__all__ = ["kernel_backward", "kernel_forward"]


@torch.library.custom_op("mha::kernel_forward", mutates_args=())
def kernel_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: "Tensor | None",
    sinks: "Tensor | None",
    text: str,
    numbers: list[int],
    tables: list[Tensor],
    scale: float,
    softcap: float | None,
    precision: str,
    stats: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return output, lse in base 2, max_logit and entropy; without `stats` the last two are empty."""
    with torch.cuda.device_of(q):  # Triton launches on the current device
        problem = _problem(q, k, v, bias, sinks, text, numbers, tables, scale, softcap, precision, ("forward",))
        out, lse, *found = forward(q, k, v, problem, stats=stats)
    return out, lse, *(found if stats else _nothing(lse, 2))


@kernel_forward.register_fake
def _(q, k, v, bias, sinks, text, numbers, tables, scale, softcap, precision, stats):
    rows = q.shape[:-1]
    out, lse = q.new_empty(*rows, v.shape[-1]), q.new_empty(rows, dtype=torch.float32)
    return out, lse, *([torch.empty_like(lse) for _ in range(2)] if stats else _nothing(lse, 2))


@torch.library.custom_op("mha::kernel_backward", mutates_args=())
def kernel_backward(
    d_out: Tensor,
    d_lse: "Tensor | None",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: "Tensor | None",
    sinks: "Tensor | None",
    out: Tensor,
    lse: Tensor,
    text: str,
    numbers: list[int],
    tables: list[Tensor],
    scale: float,
    softcap: float | None,
    precision: str,
    with_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of q, k, v, bias and sinks; empty without a bias to differentiate, or without sinks."""
    with torch.cuda.device_of(q):
        problem = _problem(q, k, v, bias, sinks, text, numbers, tables, scale, softcap, precision, ("dq", "dkdv"))
        dq, dk, dv, dsinks = backward(d_out, q, k, v, out, lse, problem, d_lse=d_lse)
        dbias = bias_gradient(d_out, q, k, v, out, lse, problem, d_lse=d_lse) if with_bias else None
    return dq, dk, dv, *(x if x is not None else _nothing(lse, 1)[0] for x in (dbias, dsinks))


@kernel_backward.register_fake
def _(d_out, d_lse, q, k, v, bias, sinks, out, lse, text, numbers, tables, scale, softcap, precision, with_bias):
    nothing = _nothing(lse, 2)
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    dbias = bias.new_empty(bias.shape) if with_bias else nothing[0]
    return dq, dk, dv, dbias, nothing[1] if sinks is None else sinks.new_empty(sinks.shape)


def _problem(q, k, v, bias, sinks, text, numbers, tables, scale, softcap, precision, passes):
    mask, q_start, dropout, rule = assembled(text, numbers, tables)
    (batch, num_heads, n_q, _), (_, num_kv_heads, n_k, _) = q.shape, k.shape
    call = Call((batch,), num_heads, num_kv_heads, n_q, n_k, mask, q_start, scale, softcap, dropout)
    bias = bias if rule is None else rule
    return problem_of(call, q, k, v, bias=bias, sinks=sinks, precision=precision, passes=passes)


def _nothing(like, number):
    return [like.new_empty(0) for _ in range(number)]


def _keep(ctx, inputs, output):
    q, k, v, bias, sinks, text, numbers, tables, scale, softcap, precision, _ = inputs
    out, lse, max_logit, entropy = output
    ctx.save_for_backward(q, k, v, bias, sinks, out, lse, *tables)
    ctx.rest = text, numbers, scale, softcap, precision
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(max_logit, entropy)


def _pull(ctx, d_out, d_lse, *_):
    q, k, v, bias, sinks, out, lse, *tables = ctx.saved_tensors
    text, numbers, scale, softcap, precision = ctx.rest
    with_bias = bias is not None and ctx.needs_input_grad[3]
    d_out = out.new_zeros(()).expand(out.shape) if d_out is None else d_out
    *found, dbias, dsinks = kernel_backward(
        d_out, d_lse, q, k, v, bias, sinks, out, lse, text, numbers, tables, scale, softcap, precision, with_bias
    )
    found += [dbias if with_bias else None, dsinks if sinks is not None else None]
    of_lists = None if numbers else [], [None] * len(tables)  # torch takes an empty list for one of tensors
    return *found, None, *of_lists, None, None, None, None


kernel_forward.register_autograd(_pull, setup_context=_keep)


def _no_second_derivative(ctx, *gradients):
    raise ValueError("mha.kernels has no second derivative: mha.nn.attention has one, in eager mode")


kernel_backward.register_autograd(_no_second_derivative)
