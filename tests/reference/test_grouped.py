"""Grouped and latent attention, by hand and against heads that have keys and values of their own."""

import numpy as np
import pytest

import rounding
from compare import assert_equal
from mha import masks
from mha.reference import absorbed_attention, attention, grouped_heads, latent_attention, pool_heads


def test_neighbours_share_a_key_head():
    """onnx PR#7274, NATTEN#92: dealing the key heads out in turns is another model."""
    assert_equal(grouped_heads(4, 2), [0, 0, 1, 1])
    assert_equal(grouped_heads(9, 3), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert_equal(grouped_heads(5, 1), [0] * 5)
    values = np.array([0.0, 1.0])[None, :, None, None]
    out = attention(np.zeros((1, 4, 1, 1)), np.zeros((1, 2, 1, 1)), values)
    assert_equal(out[0, :, 0, 0], grouped_heads(4, 2))
    with pytest.raises(ValueError, match="num_kv_heads is 4 and num_heads is 6"):
        grouped_heads(6, 4)


def test_pooling_averages_neighbours():
    w = np.array([[1.0, 2, 3, 4, 10, 20, 30, 40]])  # four heads of width 2
    assert_equal(pool_heads(w, 4, 2), [[2, 3, 20, 30]])
    assert_equal(pool_heads(w, 4, 1), [[11, 16.5]])
    assert_equal(pool_heads(w, 4, 4), w)


SIZES = {"b": 2, "h": 3, "i": 5, "j": 7, "d": 4, "r": 2, "c": 11, "e": 6}


def arguments(**sizes):
    n, make = SIZES | sizes, np.random.default_rng(0).standard_normal
    axes = "bhid", "bhir", "bjc", "bjr", "hcd", "hce"
    return tuple(0.5 * make([n[axis] for axis in one]) for one in axes)


def naive(q, q_rope, latent, k_rope, w_k, w_v, see):
    """Head by head and query by query, in loops."""
    b, h, n_q, d = q.shape
    out = np.zeros((b, h, n_q, w_v.shape[-1]))
    for s, g, i in np.ndindex(b, h, n_q):
        keys, values = latent[s] @ w_k[g], latent[s] @ w_v[g]
        scores = (keys @ q[s, g, i] + k_rope[s] @ q_rope[s, g, i]) / np.sqrt(d + q_rope.shape[-1])
        shown = np.exp(scores[see[i]])
        out[s, g, i] = shown / shown.sum() @ values[see[i]]
    return out


@pytest.mark.parametrize("form", [latent_attention, absorbed_attention])
@pytest.mark.parametrize("sizes", [{}, {"i": 1, "j": 1}, {"h": 1, "r": 6}], ids=str)
def test_equals_the_loops(form, sizes):
    given = arguments(**sizes)
    n_q, n_k = given[0].shape[2], given[2].shape[1]
    see = masks.causal.dense(n_q, n_k)
    size = max(float(np.abs(x).max()) for x in given) ** 3 * 11 * 6
    assert_equal(form(*given, mask=masks.causal), naive(*given, see), atol=64 * rounding.EPS * size)


@pytest.mark.parametrize(
    "options", [{"scale": 0.3}, {"softcap": 2.0}, {"mask": masks.window(1, 1)}, {"bias": np.full((3, 5, 7), 0.2)}]
)
def test_absorbed_is_expanded(options):
    given = arguments()
    assert_equal(absorbed_attention(*given, **options), latent_attention(*given, **options), atol=1e-13)


@pytest.mark.parametrize("form", [latent_attention, absorbed_attention])
@pytest.mark.parametrize(
    ("place", "shape", "words"),
    [
        (1, (2, 3, 4, 2), r"q_rope has shape \(2, 3, 4, 2\): expected \(2, 3, 5, 2\)"),
        (3, (2, 7, 4), r"k_rope has shape \(2, 7, 4\): expected \(2, 7, 2\)"),
        (4, (3, 4, 11), r"w_k has shape \(3, 4, 11\): expected \(3, 11, 4\)"),
        (5, (2, 11, 6), r"w_v has shape \(2, 11, 6\): expected \(3, 11, 6\)"),
    ],
)
def test_misfits_are_named(form, place, shape, words):
    given = list(arguments())
    given[place] = np.zeros(shape)
    with pytest.raises(ValueError, match=words):
        form(*given)
