"""Famous bugs of other attention code, each as the smallest input that shows it and the number that is right."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.dropout import Dropout
from mha.reference import (
    attention,
    attention_backward,
    attention_stats,
    attention_weights,
    rotate,
    split_heads,
)

NAN, INF, EPS = np.nan, np.inf, rounding.EPS


def zeros(n, d=2):
    return np.zeros((1, 1, n, d))


def identity(n):
    return np.eye(n)[None, None]


def mixed(n_q, n_k, **options):
    """Return the weights that equal scores lead to, read off the output."""
    return attention(zeros(n_q), zeros(n_k), identity(n_k), **options)[0, 0]


def test_true_means_attend():
    """pytorch#170400, x-transformers#164: the modules of one library read a boolean mask in opposite ways."""
    assert_equal(mixed(1, 2, mask=np.array([[True, False]])), [[1.0, 0.0]])


def test_numbers_are_no_mask():
    """pytorch#21518: a mask of 0.0 and 1.0 is added and hides nothing."""
    with pytest.raises(TypeError, match=r"mask has dtype float64.*bias="):
        mixed(3, 3, mask=np.tril(np.ones((3, 3))))


def test_a_sample_of_padding_gives_zero_on_every_path():
    """pytorch#41508: NaN when the weights are asked for, 0 when not."""
    q, k, v = np.ones((2, 1, 3, 2)), np.ones((2, 1, 3, 2)), np.ones((2, 1, 3, 5))
    output, stats = attention_stats(q, k, v, mask=masks.lengths([3, 0]))
    assert_equal(output[1], np.zeros((1, 3, 5)))
    assert_equal(attention_weights(q, k, mask=masks.lengths([3, 0]))[1], np.zeros((1, 3, 3)))
    assert_equal(stats.lse[1], np.full((1, 3), -INF))


def test_an_empty_row_gives_zero():
    """pytorch#103749, xformers#722: NaN for a row that is False throughout."""
    assert_equal(mixed(2, 3, mask=np.array([[True, True, False], [False] * 3])), [[0.5, 0.5, 0], [0, 0, 0]])


def test_an_empty_row_has_no_gradient():
    """pytorch PR#42323, TransformerLens#389: NaN scrubbed from the output lives on in the gradient."""
    v, d_output = np.ones((1, 1, 3, 2)), np.array([[[[1.0, 2.0], [NAN, INF]]]])
    q, k = np.ones((1, 1, 2, 2)), np.ones((1, 1, 3, 2))
    bias = np.array([[0.0, 0.0, -INF], [-INF] * 3])
    gradients = attention_backward(q, k, v, d_output, bias=bias)
    assert_equal(gradients.q[0, 0, 1], [0.0, 0.0])
    assert_equal(gradients.bias[1], [0.0, 0.0, 0.0])
    assert all(np.isfinite(x).all() for x in gradients if x is not None)


def test_an_empty_causal_row_never_averages_the_future():
    """transformers PR#27114, #29029: a finite stand-in for −∞ gives an empty row the mean of all keys."""
    padded = masks.dense(np.array([[False, True, True]]))
    expected = [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    assert_equal(mixed(3, 3, mask=masks.causal & padded), expected)


def test_weights_dropout_and_output_see_the_same_mask():
    """keras#23038, transformers#31990: asking for the weights, or dropout, loses the causal mask."""
    q, k = np.random.default_rng(0).normal(size=(2, 1, 1, 3, 5))
    output = attention(q, k, identity(3), mask=masks.causal)
    assert_equal(output, attention_weights(q, k, mask=masks.causal))
    assert_equal(attention_stats(q, k, identity(3), mask=masks.causal)[0], output)
    dropped = attention(q, k, identity(3), mask=masks.causal, dropout=Dropout(0.5, 3))
    assert_equal(dropped[..., ~np.tri(3, dtype=bool)], np.zeros((1, 1, 3)))


def test_causal_and_padding_intersect():
    """pytorch#99282, #100709, onnx#8054: causal overrides the other mask, is ignored beside it, or gives NaN."""
    everything = masks.dense(np.ones((3, 3), bool))
    assert_equal(mixed(3, 3, mask=masks.causal & everything), mixed(3, 3, mask=masks.causal))
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]]
    assert_equal(mixed(3, 3, mask=masks.causal & masks.lengths([2])), expected)


def test_padding_lies_on_the_key_axis():
    """hyunwoongko/transformer#40: padding put on the query axis."""
    assert_equal(mixed(4, 4, mask=masks.lengths([2])), [[0.5, 0.5, 0, 0]] * 4)
    with pytest.raises(ValueError, match=r"mask has shape \(1, 4\).*lengths|expected \(i, j\)"):
        attention(np.zeros((2, 1, 3, 2)), np.zeros((2, 1, 4, 2)), np.zeros((2, 1, 4, 2)), mask=np.ones((2, 4), bool))


def test_masks_of_samples_do_not_mix():
    """lighthouse#77, pytorch#64706: masks of (batch · heads) tiled where they should be repeated."""
    mask = np.array([[True, False], [False, True]])[:, None, None, :]
    q = np.zeros((2, 2, 1, 3))
    v = np.broadcast_to(np.eye(2), (2, 2, 2, 2))
    output = attention(q, np.zeros((2, 2, 2, 3)), v, mask=mask)
    assert_equal(output[0], np.array([[[1.0, 0.0]]] * 2))
    assert_equal(output[1], np.array([[[0.0, 1.0]]] * 2))
    with pytest.raises(ValueError, match=r"\(2, 1, 2\).*\(1, h, i, j\)"):
        attention(q, np.zeros((2, 2, 2, 3)), v, mask=mask[:, 0])


def test_the_last_query_stands_at_the_last_key():
    """pytorch#108108, mlx#2835: causal aligned at the upper left or at the lower right."""
    assert_equal(mixed(2, 5, mask=masks.causal), [[0.25] * 4 + [0], [0.2] * 5])
    assert_equal(mixed(5, 2, mask=masks.causal), [[0, 0]] * 3 + [[1, 0], [0.5, 0.5]])
    assert_equal(mixed(2, 5, mask=masks.causal, q_start=0), [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]])


def test_a_decoding_step_sees_every_key():
    """flax#5591, lit-llama#430: one causal query over a cache sees the first key only."""
    assert_equal(mixed(1, 5, mask=masks.causal), [[0.2] * 5])


def test_chunks_equal_the_whole():
    """candle#3743, executorch#21749: the second chunk of a prompt loses its history, or sees the future."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 1, 2, 5, 7))
    whole = attention(q, k, v, mask=masks.causal)
    first = attention(q[..., :3, :], k[..., :3, :], v[..., :3, :], mask=masks.causal)
    second = attention(q[..., 3:, :], k, v, mask=masks.causal)
    assert_equal(np.concatenate([first, second], -2), whole, atol=rounding.of_output(q, k, v))
    assert (attention_weights(q[..., 3:, :], k, mask=masks.causal)[..., 0, :] > 0).sum(-1).tolist() == [[4, 4]]


def test_a_window_has_one_meaning():
    """transformers#39408, vllm#3385: window W means W keys here and W + 1 there."""
    query = slice(5, 6)
    assert_equal(masks.window_of(2).dense(6, 6)[query], [[False] * 4 + [True] * 2])
    assert_equal(masks.window(2, 0).dense(6, 6)[query], [[False] * 3 + [True] * 3])


def test_a_window_of_zero_is_the_diagonal():
    """unsloth#8253: window 0 hides everything."""
    assert_equal(mixed(3, 3, mask=masks.window(0, 0)), np.eye(3))
    with pytest.raises(ValueError, match="left is -1"):
        masks.window(-1, 0)


@pytest.mark.parametrize("junk_in", ["k", "v"])
def test_a_free_slot_may_hold_nan(junk_in):
    """flash-attention#1745, vllm#53856: 0 · NaN of an unused slot poisons the output."""
    k, v = np.array([1.0, NAN if junk_in == "k" else 1.0]), np.array([1.0, NAN if junk_in == "v" else 1.0])
    output = attention(np.ones((1, 1, 1, 1)), *(x.reshape(1, 1, 2, 1) for x in (k, v)), mask=np.array([[True, False]]))
    assert_equal(output, [[[[1.0]]]])


def test_left_padding_does_not_move_positions():
    """transformers#22161: only the distance of two rotated vectors matters."""
    q, k = np.array([[[1.0, 2, 3, 4]]]), np.array([[[0.5, -1, 2, 0]]])
    for shift in (0, 100):
        product = (rotate(q, np.array([7 + shift])) * rotate(k, np.array([3 + shift]))).sum()
        assert_equal(product, -6.4655277, atol=5e-8)  # seven printed decimals


def test_splitting_heads_moves_no_time_into_a_head():
    """FuxiCTR#30, annotated-transformer#17: a reshape without the transpose mixes heads and time."""
    assert_equal(split_heads(np.arange(8.0).reshape(1, 2, 4), 2)[0, 0], [[0, 1], [4, 5]])


def test_grouped_heads_are_contiguous():
    """onnx PR#7274, NATTEN#92: key heads tiled where they should be repeated."""
    v = np.arange(2.0).reshape(1, 2, 1, 1)
    assert_equal(attention(np.zeros((1, 4, 1, 3)), np.zeros((1, 2, 1, 3)), v)[0, :, 0, 0], [0, 0, 1, 1])


def test_heads_that_do_not_divide_are_refused():
    """equinox keeps 6 of 8 columns without a word; torch asserts without numbers."""
    with pytest.raises(ValueError, match="10 and num_heads is 3, remainder 1"):
        split_heads(np.zeros((1, 2, 10)), 3)


def test_keys_and_values_pair_up():
    """pytorch PR#193728: unequal lengths read past the end."""
    with pytest.raises(ValueError, match="v has length 5 and k has length 3"):
        attention(zeros(2), zeros(3), zeros(5))


def test_an_empty_context():
    """pytorch PR#192651, flash-attention#1537: no keys crash, hang, or lose the shape."""
    output, stats = attention_stats(zeros(2, 4), zeros(0, 4), zeros(0, 4))
    assert_equal(output, np.zeros((1, 1, 2, 4)))
    assert_equal(stats.lse, np.full((1, 1, 2), -INF))
    assert attention_weights(zeros(2, 4), zeros(0, 4)).shape == (1, 1, 2, 0)


def test_half_precision_does_not_overflow():
    """ultralytics PR#24990, pytorch#60940: q·k leaves the range of float16 before it is scaled."""
    q = np.full((1, 1, 1, 64), 60, np.float16)
    k = np.stack([np.full(64, 60), np.full(64, 30)]).astype(np.float16)[None, None]
    assert_equal(attention(q, k, np.array([1, 2], np.float16).reshape(1, 1, 2, 1)), [[[[1.0]]]])


def test_weights_are_those_before_dropout():
    """pytorch#42929, #90842: the weights that come back are dropped and scaled, and sum to anything."""
    assert_equal(attention_weights(zeros(1), zeros(1)), [[[[1.0]]]])
    with pytest.raises(TypeError, match="dropout"):
        attention_weights(zeros(1), zeros(1), dropout=Dropout(0.2, 0))


@pytest.mark.parametrize("p", [-0.1, 1.0, NAN])
def test_a_probability_outside_the_range_is_refused(p):
    """pytorch#124464: dropout of 1 divides by 0."""
    with pytest.raises(ValueError, match="expected 0 ≤ p < 1"):
        Dropout(p, 0)


def test_the_cap_comes_before_the_mask():
    """flash-attention PR#1025, onnx#7865: a capped −∞ is −cap, and lets the key through."""
    assert_equal(mixed(1, 2, mask=np.array([[True, False]]), softcap=1.0), [[1.0, 0.0]])


def test_a_sink_joins_the_maximum():
    """transformers#41026, torchtitan PR#2211: a sink outside the stable maximum overflows, or is lost."""
    third = 1 / 3
    assert_equal(mixed(1, 2, sinks=np.array([0.0])), [[third, third]], rtol=4 * EPS)
    assert_equal(mixed(1, 2, sinks=np.array([100.0])), [[np.exp(-100)] * 2], rtol=4 * EPS)
    _, stats = attention_stats(zeros(1), zeros(2), identity(2), sinks=np.array([100.0]))
    assert_equal(stats.lse, [[[100.0]]])
    hidden = {"mask": np.array([[False, False]]), "sinks": np.array([0.5])}
    output, stats = attention_stats(zeros(1), zeros(2), identity(2), **hidden)
    assert_equal(output, [[[[0.0, 0.0]]]])
    assert_equal(stats.lse, [[[0.5]]])


def test_rotary_layouts():
    """transformers#25199, flash-attention#288: halves or neighbours form the pairs."""
    x = np.array([[[1.0, 0, 0, 0]]])
    half, interleaved = rotate(x, np.array([1])), rotate(x, np.array([1]), layout="interleaved")
    assert_equal(half, [[[np.cos(1), 0, np.sin(1), 0]]], rtol=2 * EPS)
    assert_equal(interleaved, [[[np.cos(1), np.sin(1), 0, 0]]], rtol=2 * EPS)
