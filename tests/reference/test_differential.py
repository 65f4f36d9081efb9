"""Differential attention against the equations of Ye et al. (2024), written out."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import (
    attention,
    attention_weights,
    difference_weight,
    differential_attention,
    normed_heads,
    starting_weight,
)


def draw(n_q=7, n_k=11, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n_q, 10)), make((2, 3, n_k, 10)), make((2, 3, n_k, 7))


def test_is_the_equation():
    q, k, v = draw()
    see, bias = np.tri(7, 11, 4, dtype=bool), np.random.default_rng(2).standard_normal((6, 7, 11))
    k, every = np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    maps = []
    for half in (slice(0, 5), slice(5, 10)):
        e = np.exp(q[..., half] @ np.swapaxes(k[..., half], -1, -2) / 5**0.5 + bias) * see
        maps.append(e / e.sum(-1, keepdims=True))
    found = differential_attention(q, k[:, ::2], v, 0.3, mask=masks.causal, bias=bias)
    assert_equal(found, (maps[0] - 0.3 * maps[1]) @ every, atol=1e-13)
    wrong = attention_weights(q, k, mask=masks.causal, bias=bias) @ every * 0.7
    assert np.abs(found - wrong).max() > 0.1


def test_what_both_maps_see_cancels():
    """Equal halves: the same map twice, and with λ = 1 nothing is left."""
    q, k, v = draw()
    q[..., 5:], k[..., 5:] = q[..., :5], k[..., :5]
    assert_equal(differential_attention(q, k, v, 1.0), np.zeros((2, 6, 7, 7)), atol=1e-15)
    assert_equal(differential_attention(q, k, v, 0.0), attention(q[..., :5], k[..., :5], v))


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1), (5, 3)], ids=str)
def test_empty_rows_are_zero(lengths):
    found = differential_attention(*draw(*lengths), 0.4, mask=masks.causal)
    empty = ~masks.causal.dense(*lengths).any(-1)
    assert_equal(found[:, :, empty], np.zeros((2, 6, empty.sum(), 7)))
    assert np.isfinite(found).all()


def test_the_weight_of_the_second_map():
    vectors = np.random.default_rng(1).standard_normal((4, 5)) * 0.3
    expected = np.exp((vectors[0] * vectors[1]).sum()) - np.exp((vectors[2] * vectors[3]).sum()) + 0.2
    assert_equal(difference_weight(*vectors, 0.2), expected, atol=1e-15)
    assert_equal(
        np.array([starting_weight(0), starting_weight(1), starting_weight(40)]),
        [0.2, 0.8 - 0.6 * np.exp(-0.3), 0.8],
        atol=1e-5,
    )


def test_heads_of_one_size():
    heads = np.random.default_rng(1).standard_normal((2, 3, 5, 7)) * 10
    found = normed_heads(heads, 0.2)
    assert_equal(np.sqrt((found**2).mean(-1)), np.full((2, 3, 5), 0.8), atol=1e-6)
    assert_equal(normed_heads(100 * heads, 0.2), found, atol=1e-6)


def test_what_it_refuses():
    q, k, v = draw()
    with pytest.raises(ValueError, match="q has width 9: expected an even width"):
        differential_attention(q[..., :9], k[..., :9], v, 0.3)
    for option in ("sinks", "dropout"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
            differential_attention(q, k, v, 0.3, **{option: None})
