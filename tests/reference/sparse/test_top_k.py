"""Top-k attention against a loop, query by query."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, top_k_attention, top_keys


def draw(n_q=7, n_k=11, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n_q, 5)), make((2, 3, n_k, 5)), make((2, 3, n_k, 2))


def in_loops(q, k, v, num_keys, see):
    """Return the definition: sort the visible scores of a query, keep the first, normalise over them."""
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, h, i in np.ndindex(q.shape[:-1]):
        scores = [(-q[b, h, i] @ k[b, h // 2, j] / 5**0.5, j) for j in range(k.shape[-2]) if see[i, j]]
        kept = sorted(scores)[:num_keys]
        weights = [np.exp(-score) for score, _ in kept]
        for weight, (_, j) in zip(weights, kept, strict=True):
            output[b, h, i] += weight / sum(weights) * v[b, h // 2, j]
    return output


@pytest.mark.parametrize("num_keys", [1, 3, 11, 50])
@pytest.mark.parametrize("lengths", [(7, 11), (11, 7), (1, 1), (3, 0), (0, 3)], ids=str)
def test_is_the_loop(lengths, num_keys):
    q, k, v = draw(*lengths)
    for mask in (None, masks.causal):
        see = np.ones(lengths, bool) if mask is None else mask.dense(*lengths)
        assert_equal(
            top_k_attention(q, k, v, num_keys=num_keys, mask=mask), in_loops(q, k, v, num_keys, see), atol=1e-13
        )


def test_all_keys_are_attention():
    q, k, v = draw()
    options = {"mask": masks.causal, "sinks": np.linspace(-1, 1, 6), "softcap": 2.0}
    assert_equal(top_k_attention(q, k, v, num_keys=11, **options), attention(q, k, v, **options))


def test_of_equal_scores_the_earlier_key_is_kept():
    kept = top_keys(np.zeros((1, 3, 2)), np.ones((1, 5, 2)), num_keys=2, mask=masks.causal, q_start=0)
    assert_equal(kept[0].astype(int), [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]])


def test_what_a_query_sees_and_what_it_does_not():
    q, k, v = draw()
    k[..., -1, :] = np.nan
    assert_equal(
        top_k_attention(q, k, v, num_keys=3, mask=masks.lengths([10, 10]), q_start=0),
        top_k_attention(q, k[..., :10, :], v[..., :10, :], num_keys=3),
    )
    assert np.isnan(top_k_attention(q, k, v, num_keys=3)).all()


def test_the_number_is_a_count():
    with pytest.raises(ValueError, match="num_keys is 0: expected at least 1"):
        top_keys(*draw()[:2], num_keys=0)
