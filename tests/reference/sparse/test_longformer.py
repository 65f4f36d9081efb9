"""Longformer's attention, said once more by loops over tokens."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference

BATCH, HEADS, N, WIDTH, VALUE_WIDTH = 2, 3, 11, 5, 7
LOCAL = masks.window(2, 1)


def draw(n_q=N, n_k=N, batch=BATCH):
    rng = np.random.default_rng(0)
    widths = [(n_q, WIDTH), (n_k, WIDTH), (n_k, VALUE_WIDTH)] * 2
    return [rng.standard_normal((batch, HEADS, n, width)) for n, width in widths]


def globals_of(n=N):
    chosen = np.zeros((BATCH, n), bool)
    chosen[0, [0, 6]] = chosen[1, 3] = True
    return chosen


def by_loops(tensors, is_global, seen=lambda i, j: True):
    """Return what each token takes: the softmax over a list of keys, written out."""
    q, k, v, q_global, k_global, v_global = tensors
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    n_q, n_k = q.shape[-2], k.shape[-2]
    for b, h, row in np.ndindex(*q.shape[:-1]):
        i = row + n_k - n_q
        if is_global[b, i]:
            query, keys, values, near = q_global[b, h, row], k_global[b, h], v_global[b, h], range(n_k)
        else:
            query, keys, values = q[b, h, row], k[b, h], v[b, h]
            near = [j for j in range(n_k) if -2 <= j - i <= 1 or is_global[b, j]]
        near = [j for j in near if seen(i, j)]
        weights = np.exp([query @ keys[j] / np.sqrt(WIDTH) for j in near])
        out[b, h, row] = sum(w * values[j] for w, j in zip(weights, near, strict=True)) / weights.sum()
    return out


@pytest.mark.parametrize("n_q", [1, 4, N])
def test_longformer_attention_by_loops(n_q):
    tensors = draw(n_q)
    expected = by_loops(tensors, globals_of())
    assert_equal(reference.longformer_attention(*tensors, globals_of(), local=LOCAL), expected, atol=1e-13)


def test_a_mask_restricts_both_kinds_of_query():
    tensors = draw()
    expected = by_loops(tensors, globals_of(), seen=lambda i, j: j <= i)
    found = reference.longformer_attention(*tensors, globals_of(), local=LOCAL, mask=masks.causal)
    assert_equal(found, expected, atol=1e-13)


def test_one_row_of_globals_serves_all_samples():
    tensors, chosen = draw(), globals_of()[0]
    expected = reference.longformer_attention(*tensors, np.stack([chosen, chosen]), local=LOCAL)
    assert_equal(reference.longformer_attention(*tensors, chosen, local=LOCAL), expected)


def test_with_equal_projections_it_is_one_mask():
    """Without projections of their own, global tokens are a term of the mask."""
    q, k, v, *_ = draw()
    mask = LOCAL | masks.global_tokens([[0, 6], [3]])
    found = reference.longformer_attention(q, k, v, q, k, v, globals_of(), local=LOCAL)
    assert_equal(found, reference.attention(q, k, v, mask=mask), atol=1e-14)


@pytest.mark.parametrize("n", [0, 1])
def test_length_zero_and_one(n):
    found = reference.longformer_attention(*draw(n, n), np.ones((BATCH, n), bool), local=LOCAL)
    assert_equal(found, draw(n, n)[5])


@pytest.mark.parametrize(
    ("is_global", "options", "message"),
    [
        (np.zeros(N, int), {}, "is_global has dtype int64: expected booleans, True = a global token"),
        (np.zeros(7, bool), {}, r"is_global has shape \(7,\): expected \(11,\), or one row per sample \(2, 11\)"),
        (globals_of(), {"q_start": 1}, "q_start is 1, with 11 queries and 11 keys: expected every query among the"),
    ],
)
def test_refused(is_global, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        reference.longformer_attention(*draw(), is_global, local=LOCAL, **options)


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_global_has_the_shape_of_the_rest(name):
    q, k, v, *others = draw()
    place = "qkv".index(name)
    others[place] = others[place][..., 1:, :]
    with pytest.raises(ValueError, match=f"{name}_global has shape .* and {name} has .*: expected equal heads, length"):
        reference.longformer_attention(q, k, v, *others, np.ones(k.shape[-2], bool), local=LOCAL)
