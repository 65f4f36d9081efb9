"""A layer as an ONNX graph around the standard operator `Attention` (opset 23); what that cannot say is refused."""

import numpy as np
import torch
from torch import nn

from mha import masks
from mha.nn.dot_product import attention
from mha.nn.heads import MultiHeadAttention
from mha.nn.rotary import Rotary, RotaryFrequencies

__all__ = ["to_onnx"]

OPSET, IR_VERSION = 23, 11
INPUTS = "x", "context", "mask", "bias"
SIZES = {"mask": ("mask_b", "mask_h", "queries", "keys"), "bias": ("bias_b", "bias_h", "queries", "keys")}


def to_onnx(module, *, inputs=("x",), mask=None):
    """Return a `MultiHeadAttention` as an `onnx.ModelProto` with one output, (batch, queries, d_model).

    `inputs` names those of the graph, of any batch and length: "x", and as wanted "context", "mask" (booleans) and
    "bias", both on four axes that broadcast to (batch, heads, queries, keys). `mask=masks.causal` is part of the
    graph. Positions are the default ones. Refused by name: sinks, a position scheme that adds, another core, dropout.
    A softcap acts before the mask, as the standard has it; a runtime that caps after it is wrong (onnx#7865).
    """
    _check(module, inputs, mask)
    graph = _Graph(module.out_proj.weight.dtype)
    context = "context" if "context" in inputs else "x"
    q, k, v = (
        graph.linear(source, linear)
        for source, linear in (("x", module.q_proj), (context, module.k_proj), (context, module.v_proj))
    )
    for act in (_turned, _normed) if module.norm_last else (_normed, _turned):
        q, k = act(graph, module, q, k)
    options = {"q_num_heads": module.num_heads, "kv_num_heads": module.num_kv_heads, "is_causal": int(mask is not None)}
    options |= {name: x for name in ("scale", "softcap") if (x := getattr(module, name)) is not None}
    joined = graph.node("Attention", q, k, v, _added(graph, inputs), **options)
    if module.gate_proj is not None:
        joined = graph.node("Mul", joined, graph.node("Sigmoid", graph.linear("x", module.gate_proj)))
    widths = {"x": module.d_model, "context": module.k_proj.in_features}
    sizes = {name: ("batch", rows, widths[name]) for name, rows in (("x", "queries"), ("context", "keys"))} | SIZES
    return graph.model({name: sizes[name] for name in inputs}, graph.linear(joined, module.out_proj), sizes["x"])


def _check(module, inputs, mask):
    if not isinstance(module, MultiHeadAttention):
        raise TypeError(f"module is a {type(module).__name__}: expected a MultiHeadAttention")
    if "x" not in inputs or not set(inputs) <= set(INPUTS):
        raise ValueError(f"inputs are {inputs!r}: expected 'x', and of 'context', 'mask', 'bias' what the graph takes")
    if mask is not None and not isinstance(mask, masks.Causal):
        raise ValueError(f"mask is {mask!r}: expected masks.causal; give any other to the graph, inputs=('x', 'mask')")
    if mask is not None and "context" in inputs:
        raise ValueError("mask is causal and there is a context: ONNX aligns it upper left; give it to the graph")
    if "context" in inputs and module.k_proj.in_features != module.v_proj.in_features:
        raise ValueError("d_key_in and d_value_in differ: expected one width, for the graph has one context")
    norms = [one for one in (module.q_norm, module.k_norm) if one is not None]
    linears = module.q_proj, module.k_proj, module.v_proj, module.out_proj, module.gate_proj
    double = module.out_proj.weight.dtype == torch.float64  # ONNX turns no doubles
    lacking = {
        "sinks": module.sinks is None,
        "core": module.core is attention,
        "reads": module.reads is None,  # groups of unequal size
        "dropout": module.dropout == 0 or not module.training,
        "position": module.position is None or (type(module.position) in (Rotary, RotaryFrequencies) and not double),
        "qk_norm": all(type(one) in (nn.RMSNorm, nn.LayerNorm) for one in norms),  # a subclass may do anything
        "a projection": all(one is None or type(one).forward is nn.Linear.forward for one in linears),
        "scale": module.scale is None or module.scale > 0,
        "dtype": module.out_proj.weight.dtype in (torch.float16, torch.float32, torch.float64),
    }
    for name, can in lacking.items():
        if not can:
            hint = "; eval() switches it off" if name == "dropout" else ""
            used = module.out_proj.weight.dtype if name == "dtype" else getattr(module, name, "this one")
            raise ValueError(f"{name} is {used}: the ONNX graph has no counterpart{hint}")


def _normed(graph, module, q, k):
    if module.q_norm is None:
        return q, k
    return graph.norm(q, module.q_norm, module.num_heads), graph.norm(k, module.k_norm, module.num_kv_heads)


def _turned(graph, module, q, k):
    """Turn q and k by their positions: keys from 0 on, the last query at the last key."""
    if module.position is None:
        return q, k
    n_q, n_k = (graph.node("Squeeze", graph.node("Shape", x, start=1, end=2)) for x in (q, k))
    zero, one = (graph.constant(np.array(n)) for n in (0, 1))
    position = module.position
    width = module.d_head if position.width is None else position.width
    frequencies, gain = (graph.constant(np.array(x)) for x in (position.table(width, "cpu").numpy(), position.gain))
    options = {"interleaved": int(position.layout == "interleaved"), "rotary_embedding_dim": position.width or 0}
    turned = []
    for x, start, num_heads in ((q, graph.node("Sub", n_k, n_q), module.num_heads), (k, zero, module.num_kv_heads)):
        places = graph.node("Range", start, n_k, one)
        column = graph.node("Unsqueeze", graph.node("Cast", places, to=11), graph.constant(np.array([1])))  # 11: double
        phases = graph.node("Mul", column, frequencies)
        shape = graph.node(
            "Concat", graph.node("Shape", x, start=0, end=2), graph.constant(np.array([width // 2])), axis=0
        )
        tables = [graph.cast(graph.node("Mul", graph.node(f, phases), gain)) for f in ("Cos", "Sin")]
        tables = [graph.node("Expand", table, shape) for table in tables]
        turned.append(graph.node("RotaryEmbedding", x, *tables, num_heads=num_heads, **options))
    return turned


def _added(graph, inputs):
    """Return the one input that the operator has for a mask or a bias, or "" for neither."""
    if "bias" not in inputs:
        return "mask" if "mask" in inputs else ""
    if "mask" not in inputs:
        return "bias"
    return graph.node("Where", "mask", "bias", graph.constant(np.array(-np.inf, graph.numpy)))


class _Graph:
    """Nodes and constants as they come; each node is named by its output."""

    def __init__(self, dtype):
        import onnx  # what only this conversion needs

        self.onnx, self.nodes, self.constants = onnx, [], []
        self.numpy = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}[dtype]
        self.dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.numpy))

    def node(self, operator, *inputs, **attributes):
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def cast(self, x):
        return self.node("Cast", x, to=self.dtype)

    def parameter(self, tensor):
        return self.constant(tensor.detach().cpu().numpy())

    def linear(self, x, linear):
        out = self.node("MatMul", x, self.parameter(linear.weight.T))
        return out if linear.bias is None else self.node("Add", out, self.parameter(linear.bias))

    def norm(self, x, norm, num_heads):
        """Normalise each head of x, (batch, length, heads · width), by itself."""
        split, joined = ([0, 0, num_heads, -1], [0, 0, -1])
        heads = self.node("Reshape", x, self.constant(np.array(split)))
        eps = float(np.finfo(self.numpy).eps) if norm.eps is None else norm.eps
        gain = np.ones(norm.normalized_shape, self.numpy) if norm.weight is None else norm.weight.detach().cpu().numpy()
        given = [self.constant(gain)]
        if getattr(norm, "bias", None) is not None:
            given.append(self.parameter(norm.bias))
        operator = "LayerNormalization" if isinstance(norm, nn.LayerNorm) else "RMSNormalization"
        return self.node("Reshape", self.node(operator, heads, *given, epsilon=eps), self.constant(np.array(joined)))

    def model(self, inputs, output, output_shape):
        """Return the checked model whose inputs have these shapes."""
        helper = self.onnx.helper
        given = [
            helper.make_tensor_value_info(name, self.onnx.TensorProto.BOOL if name == "mask" else self.dtype, shape)
            for name, shape in inputs.items()
        ]
        made = helper.make_tensor_value_info(output, self.dtype, output_shape)
        graph = helper.make_graph(self.nodes, "multi_head_attention", given, [made], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        self.onnx.checker.check_model(model, full_check=True)
        return model
