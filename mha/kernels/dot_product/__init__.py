"""Scaled dot-product attention as kernels: the arguments and the meaning of `mha.reference`, to the first derivative.

The call is checked and its leading axes become one; `problem` says what the launches need, `operators` show them to
torch, and `forward`, `backward` and `bias_gradient` launch them.
"""

import math
from typing import Any, NamedTuple

from mha import shapes
from mha.kernels.dot_product.bias_rule import BiasRule, alibi
from mha.kernels.dot_product.operands import taken_apart
from mha.kernels.dot_product.operators import kernel_forward
from mha.kernels.layout import with_unit_stride
from mha.kernels.limits import check_tensors, lack
from mha.kernels.runtime import check_device
from mha.options import hinted

__all__ = ["BiasRule", "Stats", "alibi", "attention", "attention_stats"]

PRECISIONS = "ieee", "tf32x3"


class Stats(NamedTuple):
    """Per query row (…, h, i), in float32. lse can be differentiated; the other two carry no gradient."""

    lse: Any  # log of the softmax denominator, the sink's term included; −inf for an empty row
    max_logit: Any  # the sink left out
    entropy: Any  # in nats, of the weights of the visible keys made to sum to 1; 0 for an empty row


@hinted
def attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
    precision="ieee",
) -> "Float[Tensor, '*b h i e']":
    """Mix the values of the visible keys, weighted by a softmax of scale · q·k.   Book: {eq}`scaled-dot-product`

    q, k and v are float16, bfloat16 or float32, all of one dtype, up to 256 wide, with any strides; logits and softmax
    are float32. No n² numbers are stored, and tiles that the mask hides are skipped, forward and backward. `bias` is a
    tensor, which gets its gradient, or a `BiasRule`. Hidden keys may hold anything. `precision` says how float32 is
    multiplied: "ieee" as on a CPU, "tf32x3" by three products on tensor cores. The tables of a mask and `q_start` are
    read on the host: leave them there, for each call waits for what is on a device. float64, forward mode, `torch.func`
    and second derivatives are refused by name.
    """
    options = {"mask": mask, "scale": scale, "softcap": softcap, "q_start": q_start, "dropout": dropout}
    return _attend(q, k, v, bias, sinks, options, precision, stats=False)[0]


@hinted
def attention_stats(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
    precision="ieee",
):
    """Return the output of `attention`, the same bits, and its `Stats` of one pass.   Book: {eq}`attention-stats`

    The statistics are those before dropout.
    """
    options = {"mask": mask, "scale": scale, "softcap": softcap, "q_start": q_start, "dropout": dropout}
    out, *stats = _attend(q, k, v, bias, sinks, options, precision, stats=True)
    return out, Stats(*stats)


def _attend(q, k, v, bias, sinks, options, precision, stats):
    """Check the call, fold its leading axes into one, and return what the operator gives, with the axes of the call."""
    rule, bias = (bias, None) if isinstance(bias, BiasRule) else (None, bias)
    check_tensors(q=q, k=k, v=v, bias=bias, sinks=sinks)
    call = shapes.check(q, k, v, bias=bias, sinks=sinks, **options)
    if rule is not None:
        rule.check(call.num_heads)
    error = lack(q, k, v, bias=bias, sinks=sinks)
    if error is not None:
        raise error
    check_device(q=q, k=k, v=v, bias=bias, sinks=sinks)
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}: expected 'ieee' or 'tf32x3', how float32 is multiplied")
    q, k, v = (with_unit_stride(_one_batch_axis(x, call.batch_shape)) for x in (q, k, v))
    bias = None if bias is None else _four_axes(bias, call.batch_shape)
    carried = taken_apart((call.mask, call.q_start, call.dropout, rule))
    found = kernel_forward(q, k, v, bias, sinks, *carried, call.scale, call.softcap, precision, stats)
    rows = call.weights_shape[:-1]
    out, lse, *others = found
    of_rows = (lse * math.log(2), *others) if stats else ()
    return [out.reshape(*rows, v.shape[-1]), *(x.reshape(rows) for x in of_rows)]


def _one_batch_axis(x, batch_shape):
    """Return (batch, heads, length, width): a view where the strides allow it, which they do up to one leading axis."""
    if len(batch_shape) == 1:
        return x.expand(*batch_shape, *x.shape[-3:])
    return x.expand(*batch_shape, *x.shape[-3:]).reshape(-1, *x.shape[-3:])


def _four_axes(bias, batch_shape):
    """Return the bias as (b | 1, h | 1, i | 1, j | 1): an axis of size 1 stays one."""
    bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape) if bias.ndim < 4 else bias
    *leading, h, i, j = bias.shape
    if all(size == 1 for size in leading):
        return bias.reshape(1, h, i, j)
    return _one_batch_axis(bias, batch_shape)
