"""Online softmax and tiles against the whole softmax of `mha.reference`, forward and backward."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.reference import (
    attention,
    attention_backward,
    attention_stats,
    finish,
    flash_attention,
    flash_backward,
    online_softmax,
    rescaled,
    start,
)

B, H, G, N, M, D, E = 2, 6, 3, 11, 13, 5, 7


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def inputs(n=N, m=M):
    return draw(0, B, H, n, D), draw(1, B, G, m, D), draw(2, B, G, m, E)


def test_three_scores_by_hand():
    """0, then ln 2, then ln 4: exponentials 1, 2 and 4 of values 7, 0 and 14, so (7 + 0 + 56) / 7 = 9."""
    state = start((1,), 1)
    expected = [(0, 1, 7), (np.log(2), 1.5, 3.5), (np.log(4), 1.75, 15.75)]
    for score, value, (top, total, mixed) in zip(np.log([1, 2, 4]), [7.0, 0.0, 14.0], expected, strict=True):
        state = online_softmax(state, np.array([[score]]), np.array([[value]]))
        assert_equal([*state.top, *state.total, *state.mixed[0]], [top, total, mixed], atol=1e-14)
    output, lse = finish(state)
    assert_equal(output, [[9.0]], atol=1e-14)
    assert_equal(lse, [np.log(7)], atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 13, 14])
@pytest.mark.parametrize("order", ["rising", "falling", "drawn"])
def test_online_softmax_in_any_order_and_any_tile(size, order):
    scores, values = 9 * draw(3, B, N, M), draw(4, B, M, E)
    scores = {"rising": np.sort(scores), "falling": -np.sort(-scores), "drawn": scores}[order]
    state = start((B, N), E)
    for first in range(0, M, size):
        keys = slice(first, first + size)
        state = online_softmax(state, scores[..., keys], values[:, keys])
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    total = exponentials.sum(-1)
    output, lse = finish(state)
    atol = 4 * (M + 8) * 9 * rounding.EPS * np.abs(values).max() * np.abs(scores).max()
    assert_equal(output, exponentials @ values / total[..., None], atol=atol)
    assert_equal(lse, scores.max(-1) + np.log(total), atol=atol)


def test_a_state_means_the_same_under_another_top():
    state = online_softmax(start((N,), E), draw(3, N, M), draw(4, M, E))
    other = rescaled(state, state.top + 3.0)
    assert_equal(other.total, state.total * np.exp(-3.0), rtol=8 * rounding.EPS)
    for found, expected in zip(finish(other), finish(state), strict=True):
        assert_equal(found, expected, atol=1e-14)


def test_nothing_seen_is_finished_as_zero():
    state = start((2,), 3)
    hidden = online_softmax(state, np.full((2, 5), np.nan), np.full((5, 3), np.nan), see=np.zeros((2, 5), bool))
    for either in (state, hidden):
        output, lse = finish(either)
        assert_equal(output, np.zeros((2, 3)))
        assert_equal(lse, [-np.inf, -np.inf])


def test_large_scores_overflow_nowhere():
    scores = np.array([[1e4, -1e4, 2e4]])
    output, lse = finish(online_softmax(start((1,), 1), scores, np.array([[1.0], [2], [3]])))
    assert_equal(output, [[3.0]])
    assert_equal(lse, [2e4])


CASES = {
    "plain": {},
    "causal": {"mask": masks.causal},
    "window": {"mask": masks.window(3, 1), "scale": 0.4},
    "lengths": {"mask": masks.causal & masks.lengths([4, 13])},
    "some rows empty": {"mask": masks.causal, "q_start": -4},
}


@pytest.mark.parametrize("tile", [(1, 1), (4, 3), (5, 13), (11, 4), (16, 16)], ids=str)
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_flash_attention_and_its_backward_equal_the_whole_row(options, tile):
    q, k, v = inputs()
    d_output = draw(3, B, H, N, E)
    output, lse = flash_attention(q, k, v, **options, tile=tile)
    expected, stats = attention_stats(q, k, v, **options)
    sizes = {"scale": options.get("scale")}
    assert_equal(output, expected, atol=2 * rounding.of_output(q, k, v, **sizes))
    assert_equal(lse, stats.lse, atol=2 * rounding.of_weights(q, k, **sizes))
    gradients = flash_backward(q, k, v, output, lse, d_output, **options, tile=tile)
    whole = attention_backward(q, k, v, d_output, **options)
    for name in "qkv":
        atol = 2 * rounding.of_gradients(q, k, v, d_output, **sizes)
        assert_equal(getattr(gradients, name), getattr(whole, name), atol=atol, label=name)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (1, 1), (2, 17)])
def test_short_lengths(n, m):
    q, k, v = inputs(n, m)
    output, lse = flash_attention(q, k, v, mask=masks.causal, tile=(2, 3))
    assert_equal(output, attention(q, k, v, mask=masks.causal), atol=rounding.of_output(q, k, v))
    gradients = flash_backward(q, k, v, output, lse, np.ones_like(output), mask=masks.causal, tile=(2, 3))
    assert [x.shape for x in gradients[:3]] == [q.shape, k.shape, v.shape]


def test_broadcast_leading_axes_are_summed():
    q, k, v = draw(0, B, H, N, D), draw(1, 1, G, M, D), draw(2, G, M, E)
    d_output = draw(3, B, H, N, E)
    output, lse = flash_attention(q, k, v)
    gradients = flash_backward(q, k, v, output, lse, d_output)
    whole = attention_backward(q, k, v, d_output)
    for name in "qkv":
        atol = 2 * rounding.of_gradients(q, k, v, d_output)
        assert_equal(getattr(gradients, name), getattr(whole, name), atol=atol, label=name)


@pytest.mark.parametrize("junk", [np.nan, np.inf])
def test_what_is_hidden_may_hold_anything(junk):
    q, k, v = inputs()
    d_output = draw(3, B, H, N, E)
    options = {"mask": masks.causal & masks.lengths([9, 9]), "tile": (4, 5)}
    clean = flash_attention(q, k, v, **options)
    gradients = flash_backward(q, k, v, *clean, d_output, **options)
    k[..., 9:, :] = v[..., 9:, :] = junk
    dirty = flash_attention(q, k, v, **options)
    for found, expected in zip(dirty, clean, strict=True):
        assert_equal(found, expected)
    for name, found in zip("qkv", flash_backward(q, k, v, *dirty, d_output, **options), strict=False):
        assert_equal(found, getattr(gradients, name), label=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile": (0, 4)}, "tile is 0: expected at least 1"),
        ({"tile": 0}, "tile is 0: expected at least 1"),
        ({"lse": np.zeros(3)}, r"lse has shape \(3,\): expected \(2, 6, 11\)"),
        ({"d_output": np.zeros((1, 1))}, r"d_output has shape \(1, 1\): expected \(2, 6, 11, 7\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    q, k, v = inputs()
    arguments = dict(zip(("output", "lse"), flash_attention(q, k, v), strict=True))
    arguments |= {"d_output": draw(3, B, H, N, E)} | change
    with pytest.raises(ValueError, match=message):
        flash_backward(q, k, v, **arguments)
