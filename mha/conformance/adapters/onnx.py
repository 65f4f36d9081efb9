"""The operators Attention and RotaryEmbedding of the ONNX standard, run by its reference evaluator."""

import numpy as np
from onnx import TensorProto, checker, helper
from onnx.reference import ReferenceEvaluator

from mha.conformance.adapter import Adapter

OPSET = 25
WEIGHTS = 3  # the mode in which the second output holds the weights
TYPES = {
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
    "int64": TensorProto.INT64,
}


def operator(name):
    """Return the adapter of the operator; the evaluator has no derivatives."""
    return Adapter(
        name=name,
        attend=lambda *inputs, **options: _attention(*inputs, **options)[0],
        weights=lambda *inputs, **options: _attention(*inputs, **options)[1],
        both=lambda *inputs, **options: _attention(*inputs, **options)[0],
        rotate=_rotate,
        supports=frozenset(
            {"mask", "bias", "scale", "softcap", "causal", "causal-with-mask", "window", "lengths"}
            | {"grouped", "value-width", "float16", "weights", "rotate"}
        ),
        conventions=frozenset({"upper-left", "floats-are-added", "missing-keys-are-hidden"}),
        dtype=np.float32,
        packages=("onnx",),
        isolated=True,
    )


def _attention(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, causal=False, window=None, lengths=None):
    if mask is not None and bias is not None:
        bias, mask = np.where(mask, bias, -np.inf), None
    given = {"Q": q, "K": k, "V": v, "mask": mask if bias is None else bias.astype(q.dtype)}
    given["lengths"] = None if lengths is None else lengths.astype(np.int64)
    left, right = (-1, -1) if window is None else window
    attributes = {"is_causal": int(causal), "qk_matmul_output_mode": WEIGHTS}
    attributes |= {} if scale is None else {"scale": scale}
    attributes |= {} if softcap is None else {"softcap": softcap}
    attributes |= {} if window is None else {"left_window_size": left, "right_window_size": right}
    names = [name if given[name] is not None else "" for name in ("Q", "K", "V", "mask")]
    names += [] if lengths is None else ["", "", "lengths"]
    present = {name: x for name, x in given.items() if x is not None}
    return _evaluated("Attention", names, ["Y", "", "", "weights"], present, attributes)


def _rotate(x, positions):
    angles = np.arange(128)[:, None] * 10000.0 ** (-2 * np.arange(x.shape[-1] // 2) / x.shape[-1])
    cos, sin = (turn(angles).astype(x.dtype) for turn in (np.cos, np.sin))
    given = {"X": x, "cos": cos, "sin": sin, "positions": positions[None].astype(np.int64)}
    return _evaluated("RotaryEmbedding", list(given), ["Y"], given, {})[0]


def _evaluated(kind, inputs, outputs, given, attributes):
    """Return the outputs that have a name."""
    node = helper.make_node(kind, inputs, outputs, **attributes)
    sides = [helper.make_tensor_value_info(name, TYPES[str(x.dtype)], x.shape) for name, x in given.items()]
    wanted = [name for name in outputs if name]
    four_axes, dtype = ["b", "h", "i", "w"], TYPES[str(given[inputs[0]].dtype)]
    results = [helper.make_tensor_value_info(name, dtype, four_axes) for name in wanted]
    graph = helper.make_graph([node], "case", sides, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    checker.check_model(model, full_check=True)
    return ReferenceEvaluator(model).run(wanted, given)
