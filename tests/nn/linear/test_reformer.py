"""`mha.nn.linear.reformer` against the attention of transformers' Reformer, and its chunks."""

import numpy as np
import pytest
import torch
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

from approximation_calls import D, shared, tensors
from compare import assert_equal
from mha import masks, nn, reference

N, CHUNK = 35, 5


def theirs(rounds, *, causal, before=1, buckets=4):
    """Return a layer of one head with weights of standard deviation 0.3."""
    torch.manual_seed(0)
    config = ReformerConfig(
        hidden_size=D,
        num_attention_heads=1,
        attention_head_size=D,
        num_hashes=rounds,
        num_buckets=buckets,
        lsh_attn_chunk_length=CHUNK,
        lsh_num_chunks_before=before,
        lsh_num_chunks_after=0,
        is_decoder=causal,
        hash_seed=3,
        lsh_attention_probs_dropout_prob=0.0,
    )
    layer = LSHSelfAttention(config).double().eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return layer


def ours(rounds, buckets=4, **options):
    """Return the core with the rotations that their seed draws."""
    core = nn.Reformer(D, buckets, chunk=CHUNK, rounds=rounds, across_buckets=True, **options)
    torch.manual_seed(3)
    rotations = torch.randn(1, D, rounds, buckets // 2, dtype=torch.float64)
    object.__setattr__(core, "rotations", rotations.numpy())
    return core


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_theirs_but_for_the_first_chunk(rounds, causal):
    """Their first chunk looks back at the last one of the round before, ours at nothing: those rows are left out."""
    layer, core = theirs(rounds, causal=causal), ours(rounds)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, N, D)))
    q, v = (linear(x)[:, None] for linear in (layer.query_key, layer.value))
    options = {"mask": masks.causal} if causal else {}
    expected, found = layer(x).hidden_states, core(q, q, v, **options)[:, 0]
    places = nn.angular_hash(q, torch.from_numpy(core.rotations)).argsort(dim=-1, stable=True).argsort(-1)
    first = (places < CHUNK).any(-2)[:, 0]
    assert 0.3 < (~first).double().mean() < 0.9
    assert_equal(found[~first], expected[~first], atol=1e-12)
    assert (found[first] - expected[first]).abs().max() > 1e-4
    planted = nn.Reformer(D, 4, chunk=CHUNK, rounds=rounds)  # rotations of our own, and no other buckets
    with pytest.raises(AssertionError):
        assert_equal(planted(q, q, v, **options)[:, 0][~first], expected[~first], atol=1e-12)


@torch.no_grad()
def test_padding_is_theirs():
    layer, core = theirs(1, causal=False), ours(1)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((1, N, D)))
    keep = np.arange(N)[None] < 24
    q, v = (linear(x)[:, None] for linear in (layer.query_key, layer.value))
    expected = layer(x, attention_mask=torch.from_numpy(keep)).hidden_states[0]
    found = core(q, q, v, mask=masks.key_padding(keep))[0, 0]
    places = nn.angular_hash(q, torch.from_numpy(core.rotations))[0, 0, 0]
    places = places.masked_fill(~torch.from_numpy(keep[0]), 4).argsort(stable=True).argsort()
    later = (places >= CHUNK) & torch.from_numpy(keep[0])
    assert_equal(found[later], expected[later], atol=1e-12)


def test_memory_is_in_chunks():
    """No tensor of all pairs: the largest that autograd keeps is linear in the length."""
    sizes = {}
    for n in (64, 256):
        q, _, v = tensors(*shared(n))
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x):
            nn.Reformer(D, 8, chunk=8, rounds=2)(q.requires_grad_(), q, v)
        sizes[n] = max(kept)
    assert sizes[256] == 4 * sizes[64]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9])
def test_any_length(n):
    for chunk in (1, 4, 64):
        for options in ({}, {"mask": masks.causal}, {"mask": masks.causal, "q_start": -2}):
            rows = shared(n)
            arguments = D, 4, chunk, 2
            expected = reference.Reformer(*arguments)(*rows, **options)
            assert_equal(nn.Reformer(*arguments)(*tensors(*rows), **options), expected, atol=1e-13)


def test_tied_projections_make_a_layer():
    core = nn.Reformer(4, 2, chunk=3)
    layer = nn.MultiHeadAttention(8, 2, core=core, dtype=torch.float64)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 7, 8)))
    with pytest.raises(ValueError, match="k differs from q: expected one tensor for both"):
        layer(x)
    layer.k_proj = layer.q_proj
    q, k, v = layer.project(x)
    assert_equal(layer.per_head(x), core(q, k, v))


def test_a_nan_is_no_other_token():
    """What diverged is shown, not refused as two tensors."""
    q, _, v = shared(5)
    q[..., 3, 0] = np.nan
    expected = reference.Reformer(D, 2, chunk=2)(q, q, v)
    assert np.isnan(expected[..., 3, :]).all()
    found = nn.Reformer(D, 2, chunk=2)(*tensors(q, q, v))
    assert found[..., 3, :].isnan().all()
