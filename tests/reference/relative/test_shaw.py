"""Shaw's vectors of distances: as the paper writes them, and against Wav2Vec2-BERT's attention."""

import numpy as np
import pytest
import torch
import transformers
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.reference import attention, attention_weights, join_heads, shaw_bias, shaw_values, softmax, split_heads

B, H, QUERIES, N, D, K = 2, 3, 5, 7, 4, 2


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


Q, KEYS, VALUES = (draw(seed, B, H, n, D) for seed, n in ((0, QUERIES), (1, N), (2, N)))
TABLE_K, TABLE_V = draw(3, 2 * K + 1, D), draw(4, 2 * K + 1, D)


def by_the_paper(at_q, at_k):
    """Shaw et al., equations 3 and 4: (x_i W_Q)(x_j W_K + a_ij)ᵀ / √d, and Σ_j α_ij (x_j W_V + a_ij)."""
    out = np.zeros((B, H, QUERIES, D))
    for b, h, i in np.ndindex(B, H, QUERIES):
        near = [int(np.clip(at_k[b, j] - at_q[b, i], -K, K)) + K for j in range(N)]
        scores = [Q[b, h, i] @ (KEYS[b, h, j] + TABLE_K[near[j]]) / np.sqrt(D) for j in range(N)]
        for j, weight in enumerate(softmax(np.array(scores))):
            out[b, h, i] += weight * (VALUES[b, h, j] + TABLE_V[near[j]])
    return out


def test_a_bias_on_scores_is_a_vector_in_the_keys():
    at_q, at_k = np.array([[2, 3, 4, 5, 6], [0, 4, 1, 9, 3]]), np.array([np.arange(N), np.arange(N)[::-1]])
    bias = shaw_bias(Q, TABLE_K, at_q, at_k)
    found = attention(Q, KEYS, VALUES, bias=bias)
    found += shaw_values(attention_weights(Q, KEYS, bias=bias), TABLE_V, at_q, at_k)
    assert_equal(found, by_the_paper(at_q, at_k), rtol=1e-12, atol=1e-13)


def wav2vec2(limit):
    """Return the q, k, v and the table of a layer, and what its attention makes of them."""
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=H * D, num_attention_heads=H, position_embeddings_type="relative_key", attention_dropout=0.0,
        left_max_position_embeddings=limit, right_max_position_embeddings=limit, attn_implementation="eager",
    )  # fmt: skip
    layer = redraw(Wav2Vec2BertSelfAttention(config), seed=3).double()
    layer.linear_out = torch.nn.Identity()
    x = torch.from_numpy(draw(5, B, N, H * D))
    with torch.no_grad():
        parts = [split_heads(linear(x).numpy(), H) for linear in (layer.linear_q, layer.linear_k, layer.linear_v)]
        return *parts, layer.distance_embedding.weight.numpy(), layer(x)[0].numpy()


@pytest.mark.parametrize("limit", [1, 3, 64])
def test_equals_wav2vec2_bert(limit):
    q, k, v, table, expected = wav2vec2(limit)
    places = np.arange(N)
    found = join_heads(attention(q, k, v, bias=shaw_bias(q, table, places, places)))
    assert_equal(found, expected, rtol=1e-12, atol=1e-12)
    for wrong in (table[::-1].copy(), np.roll(table, 1, 0)):
        assert np.abs(join_heads(attention(q, k, v, bias=shaw_bias(q, wrong, places, places))) - expected).max() > 1e-2


def test_the_outermost_rows_hold_for_all_beyond():
    q = np.ones((1, 1, 2))
    table = np.repeat(np.arange(5.0)[:, None], 2, 1)
    bias = shaw_bias(q, table, np.array([10]), np.array([0, 7, 8, 9, 10, 11, 12, 13, 99]), scale=0.5)
    assert_equal(bias[0, 0], [0, 0, 0, 1, 2, 3, 4, 4, 4])


@pytest.mark.parametrize(
    ("shape", "words"), [((4, 4), r"\(4, 4\): expected \(2K \+ 1"), ((5, 3), r"expected \(5, 4\)")]
)
def test_tables_that_do_not_fit(shape, words):
    with pytest.raises(ValueError, match=f"table has shape .*{words}"):
        shaw_bias(Q, np.zeros(shape), np.arange(QUERIES), np.arange(N))


def test_values_of_hidden_keys():
    weights = attention_weights(Q, KEYS, mask=masks.causal)
    ones = np.ones((2 * K + 1, D))
    assert_equal(shaw_values(weights, ones, np.arange(2, 7), np.arange(N)), np.ones((B, H, QUERIES, D)), rtol=1e-14)
