"""The four rules of ONNX's operator LinearAttention (opset 27), by its own evaluator in float32."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from compare import assert_equal
from linear_calls import draw_delta, draw_gated
from mha import reference

pytestmark = pytest.mark.skipif(onnx.defs.onnx_opset_version() < 27, reason="the operator comes with opset 27")

(Q, K, V, BETA), OPTIONS = draw_delta(13)
GATE = draw_gated(13)[0][3]
STATE, DECAY = OPTIONS["both"].values()
RULES = {
    "linear": ({}, reference.linear_attention(Q, K, V, state=STATE)),
    "gated": ({"decay": DECAY}, reference.linear_attention(Q, K, V, state=STATE, log_decay=DECAY)),
    "gated by channel": ({"decay": GATE}, reference.gated_linear_attention(Q, K, V, GATE, state=STATE)),
    "delta": ({"beta": BETA}, reference.delta_rule(Q, K, V, BETA, state=STATE)),
    "gated delta": (
        {"decay": DECAY, "beta": BETA},
        reference.delta_rule(Q, K, V, BETA, state=STATE, log_decay=DECAY),
    ),
}


def packed(x):
    """Return (batch, heads, length, …) as (batch, length, heads · …) in float32."""
    x = np.swapaxes(x, 1, 2)
    return x.reshape(*x.shape[:2], -1).astype(np.float32)


def operator(rule, **by_token):
    """Return what the operator makes of the rows above: the output in our axes, and the last state."""
    feeds = {"query": packed(Q), "key": packed(K), "value": packed(V), "past_state": STATE.astype(np.float32)}
    feeds |= {name: packed(x) for name, x in by_token.items()}
    names = [name if name in feeds else "" for name in ("query", "key", "value", "past_state", "decay", "beta")]
    attributes = {"q_num_heads": 3, "kv_num_heads": 3, "scale": 1.0, "update_rule": rule}
    node = helper.make_node("LinearAttention", names, ["output", "state"], **attributes)
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None)  # noqa: E731
    graph = helper.make_graph([node], "rule", [*map(value, feeds)], [value("output"), value("state")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=onnx.IR_VERSION)
    output, state = ReferenceEvaluator(model).run(None, feeds)
    return np.swapaxes(output.reshape(2, 13, 3, 7), 1, 2), state


@pytest.mark.parametrize("name", RULES)
def test_equals_the_operator(name):
    by_token, ours = RULES[name]
    rule = name.removesuffix(" by channel").replace(" ", "_")
    theirs = operator(rule, **by_token)
    for one, two in zip(ours, theirs, strict=True):
        assert_equal(one, two, atol=5e-6, rtol=1e-6)
    for other, (_, wrong) in RULES.items():
        assert other == name or np.abs(wrong[0] - theirs[0]).max() > 0.1, other
