"""Talking heads against Shazeer et al. (2020), their einsums written out."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, talking_heads_attention


def draw(n_q=7, n_k=11, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n_q, 5)), make((2, 3, n_k, 5)), make((2, 3, n_k, 2)), make((6, 6)), make((6, 6))


@pytest.mark.parametrize("lengths", [(7, 11), (11, 7), (1, 1), (0, 3), (3, 0)], ids=str)
def test_is_the_pseudocode(lengths):
    """`talking_heads_attention` of the paper's section 4, with a mask on J' and our scale."""
    q, k, v, before, after = draw(*lengths)
    see = masks.causal.dense(*lengths)
    k6, v6 = np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    scores = np.einsum("bhid,bhjd,hs->bsij", q, k6, before) / 5**0.5
    e = np.exp(scores) * see
    total = e.sum(-1, keepdims=True)
    expected = np.einsum("bsij,so,boje->boie", e / np.where(total == 0, 1, total), after, v6)
    assert_equal(talking_heads_attention(q, k, v, before, after, mask=masks.causal), expected, atol=1e-12)


def test_silent_heads_are_attention_and_a_transpose_is_not():
    q, k, v, before, after = draw()
    eye, bias = np.eye(6), np.random.default_rng(5).standard_normal((6, 7, 11))
    bias[2, 1] = -np.inf
    options = {"mask": masks.lengths([4, 0]), "bias": bias, "q_start": 0}
    found = talking_heads_attention(q, k, v, eye, eye, **options)
    assert_equal(found, attention(q, k, v, **options), atol=1e-13)
    found = talking_heads_attention(q, k, v, before, after)
    assert np.abs(found - talking_heads_attention(q, k, v, before.T, after)).max() > 0.1
    assert np.abs(found - talking_heads_attention(q, k, v, before, after.T)).max() > 0.1


def test_a_mask_of_one_head_acts_on_its_softmax():
    q, k, v, before, after = draw()
    see = np.ones((1, 6, 7, 11), bool)
    see[0, 2] = False
    without = np.delete(after, 2, axis=0), np.delete(before, 2, axis=1)
    padded = np.insert(without[1], 2, 0, axis=1), np.insert(without[0], 2, 0, axis=0)
    found = talking_heads_attention(q, k, v, before, after, mask=see)
    assert_equal(found, talking_heads_attention(q, k, v, *padded), atol=1e-13)


def test_hidden_keys_may_hold_anything():
    q, k, v, before, after = draw()
    k[:, :, 9:], v[:, :, 9:] = np.nan, np.inf
    found = talking_heads_attention(q, k, v, before, after, mask=masks.lengths([9, 9]))
    assert_equal(found, talking_heads_attention(q, k[:, :, :9], v[:, :, :9], before, after), atol=1e-14)


def test_what_it_refuses():
    q, k, v, before, after = draw()
    with pytest.raises(ValueError, match=r"after has shape \(5, 6\): expected \(6, 6\)"):
        talking_heads_attention(q, k, v, before, after[1:])
    with pytest.raises(TypeError, match="unexpected keyword argument 'sinks'"):
        talking_heads_attention(q, k, v, before, after, sinks=np.zeros(6))
