"""The reference against independent oracles (ONNX's evaluator, torch's SDPA), and rule by rule."""

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

import rounding
from compare import assert_equal
from mha import masks
from mha.dropout import Dropout
from mha.reference import attention, attention_stats, attention_weights, log_sum_exp, softmax

NAN, INF = np.nan, np.inf


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def zeros(n, d=2):
    return np.zeros((1, 1, n, d))


def identity(n):
    """Values under which the output is the weights."""
    return np.eye(n)[None, None]


def operator_of_onnx(q, k, v, *, mask=None, opset=23, lengths=None, **attributes):
    inputs = {"q": q, "k": k, "v": v, "mask": mask, "": None, "lengths": lengths}
    names = ["q", "k", "v", "mask" if mask is not None else "", *(["", "", "lengths"] if lengths is not None else [])]
    types = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in inputs.items() if x is not None}
    graph = helper.make_graph(
        [helper.make_node("Attention", names, ["y"], **attributes)],
        "attention",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in types.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(model).run(None, {name: inputs[name] for name in types})[0]


CASES = {  # attributes of an operator are float32: these numbers and their roots are exact
    "plain": {},
    "scale": {"scale": 0.25},
    "softcap": {"softcap": 1.75},
    "boolean mask": {"mask": draw(7, 7, 11) > 0},
    "mask of samples and heads": {"mask": draw(8, 2, 6, 7, 11) > 0},
    "softcap and mask": {"softcap": 0.875, "mask": draw(9, 7, 11) > 0},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("num_kv_heads", [6, 3, 1])
def test_attention_equals_onnx(options, num_kv_heads):
    q, k, v = draw(0, 2, 6, 7, 5), draw(1, 2, num_kv_heads, 11, 5), draw(2, 2, num_kv_heads, 11, 3)
    expected = operator_of_onnx(q, k, v, **options)
    atol = rounding.of_output(q, k, v, scale=options.get("scale"))
    assert_equal(attention(q, k, v, **options), expected, atol=atol)


def test_bias_equals_onnx():
    q, k, v, bias = draw(0, 2, 3, 7, 5), draw(1, 2, 3, 11, 5), draw(2, 2, 3, 11, 13), draw(3, 1, 3, 7, 11)
    bias[..., 4:6] = -INF
    expected = operator_of_onnx(q, k, v, mask=bias)
    assert_equal(attention(q, k, v, bias=bias), expected, atol=rounding.of_output(q, k, v, bias=bias))


def test_causal_equals_onnx_and_torch():
    q, k, v = draw(0, 2, 3, 7, 5), draw(1, 2, 3, 7, 5), draw(2, 2, 3, 7, 11)
    output, atol = attention(q, k, v, mask=masks.causal), rounding.of_output(q, k, v)
    assert_equal(output, operator_of_onnx(q, k, v, is_causal=1), atol=atol)
    tensors = map(torch.from_numpy, (q, k, v))
    assert_equal(output, torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True), atol=atol)


@pytest.mark.parametrize("n_q", [1, 3])
def test_decoding_with_lengths_equals_onnx(n_q):
    """A cache with free slots: the last query stands at the last valid key of its sample."""
    q, k, v, lengths = draw(0, 3, 2, n_q, 5), draw(1, 3, 2, 11, 5), draw(2, 3, 2, 11, 7), np.array([3, 11, 7])
    expected = operator_of_onnx(q, k, v, opset=24, lengths=lengths, is_causal=1)
    output = attention(q, k, v, mask=masks.causal & masks.lengths(lengths))
    assert_equal(output, expected, atol=rounding.of_output(q, k, v))


@pytest.mark.parametrize(
    ("leading", "num_heads"), [((), 1), ((3,), 2), ((2, 3), 2)], ids=["no batch", "batch", "two leading axes"]
)
def test_any_number_of_leading_axes(leading, num_heads):
    q, k, v = draw(0, *leading, num_heads, 5, 7), draw(1, num_heads, 11, 7), draw(2, *leading, num_heads, 11, 3)
    output = attention(q, k, v, mask=masks.causal)
    assert output.shape == (*leading, num_heads, 5, 3)
    for index in np.ndindex(*leading):
        assert_equal(
            output[index], attention(q[index], k, v[index], mask=masks.causal), atol=rounding.of_output(q, k, v)
        )


def test_masks_of_heads_without_a_batch():
    q, k, v, mask = draw(0, 3, 5, 7), draw(1, 3, 11, 7), draw(2, 3, 11, 13), draw(3, 1, 3, 5, 11) > 0
    for options in ({"mask": mask}, {"mask": masks.lengths([4])}, {"mask": masks.causal, "q_start": [2]}):
        output = attention(q, k, v, **options)
        assert_equal(output, attention(q[None], k[None], v[None], **options)[0], label=str(options))


def test_lengths_count_all_leading_axes():
    q, k, v = draw(0, 2, 3, 1, 5, 7), draw(1, 2, 3, 1, 5, 7), draw(2, 2, 3, 1, 5, 11)
    lengths = [[5, 0, 1], [2, 4, 3]]
    output = attention(q, k, v, mask=masks.lengths(lengths))
    for index in np.ndindex(2, 3):
        n = lengths[index[0]][index[1]]
        expected = attention(q[index], k[index][:, :n], v[index][:, :n])
        assert_equal(output[index], expected, atol=rounding.of_output(q, k, v))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-700, 700), min_size=1, max_size=13), st.floats(-300, 300))
def test_softmax(scores, shift):
    weights = softmax(np.array(scores))
    assert (weights >= 0).all()
    assert_equal(weights.sum(), 1.0, rtol=(len(scores) + 2) * rounding.EPS)
    error = 4 * rounding.EPS * (700 + 300)  # of two rounded shifts, each passed on by exp
    assert_equal(softmax(np.array(scores) + shift), weights, rtol=2 * error + 16 * rounding.EPS, atol=1e-300)


def test_softmax_is_float64():
    scores = draw(0, 3, 5).astype(np.float16)
    assert_equal(softmax(scores), softmax(scores.astype(np.float64)))
    assert softmax(scores).dtype == log_sum_exp(scores).dtype == np.float64


def test_an_infinite_value_reaches_only_those_who_see_it():
    v = np.array([1.0, INF]).reshape(1, 1, 2, 1)
    output = attention(zeros(2), zeros(2), v, mask=masks.causal)  # and warns of nothing
    assert_equal(output, [[[[1.0], [INF]]]])


def test_softmax_of_extremes():
    assert_equal(softmax(np.array([[1000.0, 1000.0, -INF], [-INF, -INF, -INF]])), [[0.5, 0.5, 0], [0, 0, 0]])
    assert softmax(np.zeros((2, 0))).shape == (2, 0)
    assert_equal(log_sum_exp(np.array([[-INF, -INF], [5.0, -INF]])), [-INF, 5.0])
    assert_equal(log_sum_exp(np.zeros((3, 0))), [-INF] * 3)


def test_attention_weights():
    q, k = draw(0, 2, 6, 5, 7), draw(1, 2, 2, 11, 7)
    weights = attention_weights(q, k, mask=masks.window(2, 1))
    see = masks.window(2, 1).dense(5, 11)
    assert (weights[..., ~see] == 0).all()
    assert_equal(weights.sum(-1), np.ones((2, 6, 5)), atol=rounding.of_weights(q, k) * 11)
    v = draw(2, 2, 2, 11, 3)
    assert_equal(
        attention(q, k, v, mask=masks.window(2, 1)),
        np.einsum("bhij,bhje->bhie", weights, v.repeat(3, 1)),
        atol=rounding.of_output(q, k, v),
    )


def test_scale_cap_bias_mask_come_in_this_order():
    q, k, bias = draw(0, 1, 1, 3, 5), draw(1, 1, 1, 4, 5), draw(2, 1, 1, 3, 4)
    mask = masks.window(1, 1)
    scores = 1.5 * np.tanh(0.7 * q @ k.swapaxes(-1, -2) / 1.5) + bias
    exponentials = np.where(mask.dense(3, 4), np.exp(scores), 0)
    expected = exponentials / exponentials.sum(-1, keepdims=True)
    actual = attention_weights(q, k, scale=0.7, softcap=1.5, bias=bias, mask=mask)
    assert_equal(actual, expected, atol=rounding.of_weights(q, k, scale=0.7, bias=bias))


STAT_CASES = {
    "plain": {},
    "mask": {"mask": masks.causal & masks.lengths([0, 5])},
    "bias": {"bias": draw(5, 3, 5, 7)},
    "sinks": {"sinks": draw(6, 3), "mask": masks.window(0, 0)},
    "softcap": {"softcap": 2.0},
    "dropout": {"dropout": Dropout(0.4, 17), "scale": 0.3},
}


@pytest.mark.parametrize("options", STAT_CASES.values(), ids=STAT_CASES)
def test_attention_stats(options):
    q, k, v = draw(0, 2, 3, 5, 7), draw(1, 2, 3, 7, 7), draw(2, 2, 3, 7, 11)
    output, stats = attention_stats(q, k, v, **options)
    assert_equal(output, attention(q, k, v, **options), label="the same bits")
    options = {name: x for name, x in options.items() if name != "dropout"}
    weights = attention_weights(q, k, **options)
    atol = 16 * rounding.of_weights(q, k, scale=options.get("scale"), bias=options.get("bias"))
    empty = weights.sum(-1) == 0
    top = weights.max(-1)
    with np.errstate(divide="ignore"):
        assert_equal(np.where(empty, 0, np.exp(stats.max_logit - np.where(empty, 0, stats.lse))), top, atol=atol)
    p = weights / np.where(empty, 1, weights.sum(-1))[..., None]
    assert_equal(stats.entropy, -(p * np.log(np.where(p > 0, p, 1))).sum(-1), atol=atol)
    assert not np.signbit(stats.entropy).any()
    assert (stats.max_logit[empty] == -INF).all()


def test_stats_of_one_key_and_of_none():
    _, stats = attention_stats(zeros(2), zeros(3), identity(3), mask=np.array([[False, True, False], [False] * 3]))
    assert_equal(stats.entropy, [[[0.0, 0.0]]])
    assert_equal(stats.lse, [[[0.0, -INF]]])
    assert_equal(stats.max_logit, [[[0.0, -INF]]])


def test_entropy_ignores_the_sink():
    _, stats = attention_stats(zeros(1), zeros(3), identity(3), sinks=np.array([5.0]))
    assert_equal(stats.entropy, [[[np.log(3)]]], rtol=4 * rounding.EPS)
    assert_equal(stats.max_logit, [[[0.0]]])
    assert_equal(stats.lse, [[[np.log(3 + np.exp(5))]]], rtol=8 * rounding.EPS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_float_gives_float64(dtype):
    q, k, v = (draw(x, 1, 2, 3, 5).astype(dtype) for x in range(3))
    output, stats = attention_stats(q, k, v)
    assert {output.dtype, *(x.dtype for x in stats)} == {np.dtype(np.float64)}
    assert_equal(output, attention(*(x.astype(np.float64) for x in (q, k, v))))


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("mask", [None, masks.causal], ids=repr)
def test_short_lengths(n_q, n_k, mask):
    q, k, v = draw(0, 2, 3, n_q, 7), draw(1, 2, 3, n_k, 7), draw(2, 2, 3, n_k, 5)
    output, stats = attention_stats(q, k, v, mask=mask)
    assert output.shape == (2, 3, n_q, 5)
    assert stats.lse.shape == stats.entropy.shape == stats.max_logit.shape == (2, 3, n_q)
    assert attention_weights(q, k, mask=mask).shape == (2, 3, n_q, n_k)
    if n_k == 0:
        assert_equal(output, np.zeros((2, 3, n_q, 5)))
        assert_equal(stats.lse, np.full((2, 3, n_q), -INF))


def test_no_batch_entries():
    assert attention(np.zeros((0, 2, 3, 5)), np.zeros((0, 2, 7, 5)), np.zeros((0, 2, 7, 4))).shape == (0, 2, 3, 4)


@pytest.mark.parametrize("hidden_from", ["all", "some"])
@pytest.mark.parametrize("junk", [NAN, INF, -INF])
def test_what_a_hidden_key_holds_does_not_matter(hidden_from, junk):
    q, k, v = draw(0, 1, 1, 3, 5), draw(1, 1, 1, 4, 5), draw(2, 1, 1, 4, 7)
    mask = np.ones((3, 4), bool)
    mask[slice(None) if hidden_from == "all" else slice(0, 2), 2] = False
    clean = attention(q, k, v, mask=mask)
    for x in (k, v):
        x[..., 2, :] = junk
    with np.errstate(invalid="ignore"):  # row 2 may see the junk
        dirty = attention(q, k, v, mask=mask)
    if hidden_from == "all":
        assert_equal(dirty, clean, label="the same bits")
    else:
        assert_equal(
            dirty[..., :2, :], clean[..., :2, :], atol=rounding.of_output(q[..., :2, :], k[..., :2, :], v[..., :2, :])
        )
        assert np.isnan(dirty[..., 2, :]).all()


def test_a_bias_of_minus_infinity_hides_like_a_mask():
    q, k, v = draw(0, 1, 2, 3, 5), draw(1, 1, 2, 4, 5), draw(2, 1, 2, 4, 7)
    mask = np.array([[True, False, True, True], [False] * 4, [False, True, True, False]])
    k[..., 0, :], bias = NAN, np.where(mask, 0.0, -INF)
    bias[0, 0] = -INF
    mask[0, 0] = False
    for biased, masked in zip(
        attention_stats(q, k, v, bias=bias)[1], attention_stats(q, k, v, mask=mask)[1], strict=True
    ):
        assert_equal(biased, masked)
    assert_equal(attention(q, k, v, bias=bias), attention(q, k, v, mask=mask))
    assert_equal(attention(q, k, v, bias=bias)[..., 1, :], np.zeros((1, 2, 7)))


def test_dropout_comes_after_the_softmax():
    q, k, v = draw(0, 2, 3, 5, 7), draw(1, 2, 3, 11, 7), draw(2, 2, 3, 11, 13)
    dropout = Dropout(0.3, 5)
    kept = attention_weights(q, k) * dropout.kept((2, 3, 5, 11)) / 0.7
    expected = np.einsum("bhij,bhje->bhie", kept, v)
    assert_equal(attention(q, k, v, dropout=dropout), expected, atol=rounding.of_output(q, k, v, kept=0.7))
    assert_equal(attention(q, k, v, dropout=Dropout(0.0, 5)), attention(q, k, v))


def test_a_sink_takes_its_share():
    q, k, v, sinks = draw(0, 2, 3, 5, 7), draw(1, 2, 3, 11, 7), draw(2, 2, 3, 11, 13), draw(3, 3)
    k_sink = np.concatenate([k, np.zeros((2, 3, 1, 7))], -2)
    v_sink = np.concatenate([v, np.zeros((2, 3, 1, 13))], -2)
    bias = np.concatenate([np.zeros((3, 5, 11)), np.broadcast_to(sinks[:, None, None], (3, 5, 1))], -1)
    expected = attention(q, k_sink, v_sink, bias=bias)  # one more key that says sinks[h] and has nothing to give
    assert_equal(attention(q, k, v, sinks=sinks), expected, atol=rounding.of_output(q, k, v, bias=sinks))
