"""Many heads: project, attend once per head, join, project back.

Weights are (d_in, d_out) and multiply from the right, x W, as papers write them; torch's Linear stores the transpose.
"""

import numpy as np

from mha import shapes
from mha.reference.dot_product import attention
from mha.reference.gate import gated
from mha.reference.schemes import placed


def split_heads(x: "Float[Array, '*b n h·d']", num_heads: int) -> "Float[Array, '*b h n d']":
    """Cut the width into heads and move the heads before the length.   Book: {eq}`split-heads`."""
    shapes.check_rank("x", x, ("length", "width"))
    *batch, n, width = x.shape
    shapes.check_heads(width, num_heads, name="the width of x")
    return np.swapaxes(x.reshape(*batch, n, num_heads, width // num_heads), -2, -3)


def join_heads(x: "Float[Array, '*b h n d']") -> "Float[Array, '*b n h·d']":
    """Lay the heads side by side again: the inverse of `split_heads`.   Book: {eq}`join-heads`."""
    shapes.check_rank("x", x, ("heads", "length", "width"))
    *batch, num_heads, n, d_head = x.shape
    return np.swapaxes(x, -2, -3).reshape(*batch, n, num_heads * d_head)


def head_outputs(
    x: "Float[Array, '*b i m']",
    w_q: "Float[Array, 'm h·d']",
    w_k: "Float[Array, 'm g·d']",
    w_v: "Float[Array, 'm g·e']",
    *,
    num_heads,
    num_kv_heads=None,
    biases=(None, None, None),
    context=None,
    qk_norm=None,
    position=None,
    **options,
) -> "Float[Array, '*b h i e']":
    """Return what each head takes from x, or from `context`, before the output projection.   Book: {eq}`head`.

    `qk_norm` is a pair of functions, the norm of the queries and the norm of the keys; then acts `position`, an
    object with any of the methods that `placed` knows. `options` are those of `attention`.
    """
    context = x if context is None else context
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    shapes.check_biases(biases, ("q", "k", "v"))
    b_q, b_k, b_v = biases
    q = split_heads(project("x", x, "w_q", w_q, b_q), num_heads)
    k = split_heads(project("context", context, "w_k", w_k, b_k), num_kv_heads)
    v = split_heads(project("context", context, "w_v", w_v, b_v), num_kv_heads)
    if qk_norm is not None:
        q, k = (norm(heads) for norm, heads in zip(qk_norm, (q, k), strict=True))
    if position is not None:
        places = {name: options.get(name) for name in ("bias", "mask", "scale", "q_start")}
        q, k, options["bias"] = placed(position, q, k, **places)
    return attention(q, k, v, **options)


def multi_head_attention(
    x: "Float[Array, '*b i m']",
    w_q: "Float[Array, 'm h·d']",
    w_k: "Float[Array, 'm g·d']",
    w_v: "Float[Array, 'm g·e']",
    w_o: "Float[Array, 'h·e m']",
    *,
    num_heads,
    num_kv_heads=None,
    biases=(None, None, None, None),
    context=None,
    gate=None,
    **options,
) -> "Float[Array, '*b i m']":
    """Let every head attend, join what they found and project it back.   Book: {eq}`multi-head`.

    `biases` are those of q, k, v and the output. `gate` is (w_gate, b_gate): x W + b are the logits of the gate on the
    joined heads. `options` are those of `head_outputs` and of `attention`.
    """
    shapes.check_biases(biases, ("q", "k", "v", "the output"))
    *biases, b_o = biases
    heads = head_outputs(
        x, w_q, w_k, w_v, num_heads=num_heads, num_kv_heads=num_kv_heads, biases=biases, context=context, **options
    )
    joined = join_heads(heads)
    if gate is not None:
        w_gate, b_gate = gate
        joined = gated(joined, project("x", x, "w_gate", w_gate, b_gate))
    return project("the joined heads", joined, "w_o", w_o, b_o)


def head_contributions(heads: "Float[Array, '*b h i e']", w_o: "Float[Array, 'h·e m']") -> "Float[Array, '*b h i m']":
    """Send each head through its own rows of W_O; the sum over heads is the joined product.   Book: {eq}`head-sum`."""
    heads, w_o = shapes.float64("heads", heads), shapes.float64("w_o", w_o)
    shapes.check_rank("heads", heads, ("heads", "length", "width"))
    *_, num_heads, _, d_head = heads.shape
    shapes.check_shape("w_o", w_o, (num_heads * d_head, w_o.shape[-1]))
    return np.einsum("...hie,hem->...him", heads, w_o.reshape(num_heads, d_head, -1))


def project(name, x, weight_name, weight, bias):
    """Return x W + b in float64."""
    x, weight = shapes.float64(name, x), shapes.float64(weight_name, weight)
    bias = None if bias is None else shapes.float64(f"the bias beside {weight_name}", bias)
    shapes.check_projection(name, x, weight_name, weight, bias)
    return x @ weight if bias is None else x @ weight + bias
