"""DeBERTa's terms: against the attention of DeBERTa-v2, and the sign of the paper, which is another."""

import numpy as np
import pytest
import torch
import transformers
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention, make_log_bucket_position

from compare import assert_equal
from exact import redraw
from mha.reference import attention, disentangled_bias, join_heads, split_heads
from mha.reference.relative.deberta import log_buckets, table_rows

B, H, N, D = 2, 4, 11, 3  # √(3 · 3) is exact in float32, in which theirs is computed


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def deberta(span, max_distance=None, shared=False):
    """Return q, k, v, the two tables of a layer, and what its heads find."""
    config = transformers.DebertaV2Config(
        hidden_size=H * D, num_attention_heads=H, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
        relative_attention=True, pos_att_type=["c2p", "p2c"], share_att_key=shared,
        max_relative_positions=span if max_distance is None else max_distance,
        position_buckets=-1 if max_distance is None else span,
    )  # fmt: skip
    layer = redraw(DisentangledSelfAttention(config), seed=3).double()
    x, table = torch.from_numpy(draw(0, B, N, H * D)), torch.from_numpy(draw(1, 2 * span, H * D))
    q, k, v = layer.query_proj, layer.key_proj, layer.value_proj
    for_keys, for_queries = (k, q) if shared else (layer.pos_key_proj, layer.pos_query_proj)
    with torch.no_grad():
        parts = [split_heads(linear(x).numpy(), H) for linear in (q, k, v)]
        parts += [split_heads(linear(table).numpy(), H) for linear in (for_keys, for_queries)]
        out = layer(x, torch.ones(B, 1, N, N, dtype=torch.bool), rel_embeddings=table)[0]
    return *parts, out.numpy()


@pytest.mark.parametrize(
    "options", [{"span": 4}, {"span": 23}, {"span": 6, "max_distance": 13}, {"span": 5, "shared": 1}]
)
def test_equals_deberta_v2(options):
    q, k, v, *tables, expected = deberta(**options)
    call = {"scale": (3 * D) ** -0.5, "max_distance": options.get("max_distance")}
    places = np.arange(N)

    def found(*tables, scale=call["scale"], **changed):
        bias = disentangled_bias(q, k, *tables, places, places, **call | changed)
        return join_heads(attention(q, k, v, bias=bias, scale=scale))

    assert_equal(found(*tables), expected, rtol=1e-12, atol=1e-12)
    for wrong in (found(*tables, paper_sign=True), found(*tables[::-1]), found(*tables, scale=D**-0.5)):
        assert np.abs(wrong - expected).max() > 1e-2


def test_the_sign_of_the_second_term():
    """DeBERTa#162: three tokens, span 2, rows that hold their own number, and keys of one."""
    rows, keys = np.arange(4.0).reshape(1, 4, 1), np.ones((1, 3, 1))
    arguments = np.zeros((1, 3, 1)), keys, np.zeros((1, 4, 1)), rows, np.arange(3), np.arange(3)
    assert_equal(disentangled_bias(*arguments, scale=1.0)[0, 0], [2, 1, 0])
    assert_equal(disentangled_bias(*arguments, scale=1.0, paper_sign=True)[0, 0], [2, 3, 3])


def test_the_terms_of_the_paper():
    """He et al., equation 4, loop by loop, with δ of equation 3; key heads shared by groups."""
    span = 3
    q, k, keys, queries = draw(1, B, H, 5, D), draw(2, B, 2, 7, D), draw(3, H, 2 * span, D), draw(4, H, 2 * span, D)
    at_q, at_k = np.array([3, 9, 4, 1, 0]), np.arange(7)

    def delta(distance):
        return 0 if distance <= -span else 2 * span - 1 if distance >= span else distance + span

    bias = disentangled_bias(q, k, keys, queries, at_q, at_k, paper_sign=True, scale=0.3)
    for b, h, i, j in np.ndindex(bias.shape):
        to_position = q[b, h, i] @ keys[h, delta(at_q[i] - at_k[j])]
        to_content = k[b, h // 2, j] @ queries[h, delta(at_k[j] - at_q[i])]
        assert_equal(bias[b, h, i, j], 0.3 * (to_position + to_content), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("span", "max_distance"), [(256, 512), (6, 13), (32, 128), (4, 9), (8, 100)])
def test_buckets_of_deberta_v2(span, max_distance):
    distances = np.arange(-max_distance + 1, max_distance)
    expected = make_log_bucket_position(torch.from_numpy(distances), span, max_distance).numpy()
    assert_equal(log_buckets(distances, span, max_distance), expected)
    far = np.array([-(10**6), 10**6])
    assert_equal(table_rows(far, span, max_distance), [0, 2 * span - 1])


@pytest.mark.parametrize(
    ("tables", "options", "words"),
    [
        (((H, 5, D), (H, 5, D)), {}, r"position_keys has shape \(4, 5, 3\): expected \(4, 2s, 3\)"),
        (((H, 6, D), (H, 8, D)), {}, r"position_queries has shape \(4, 8, 3\): expected \(4, 6, 3\)"),
        (((3, 6, D), (3, 6, D)), {}, r"position_keys has shape \(3, 6, 3\): expected \(4, 2s, 3\)"),
        (((H, 8, D), (H, 8, D)), {"max_distance": 3}, "span is 4 and max_distance is 3: expected"),
    ],
)
def test_tables_that_do_not_fit(tables, options, words):
    q, k = draw(1, H, 5, D), draw(2, H, 7, D)
    with pytest.raises(ValueError, match=words):
        disentangled_bias(q, k, *map(np.zeros, tables), np.arange(5), np.arange(7), **options)
