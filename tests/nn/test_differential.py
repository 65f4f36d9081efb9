"""Differential attention against the reference, and the layer against transformers' DiffLlama."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from transformers import DiffLlamaConfig
from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

from compare import assert_equal
from mha import masks, reference
from mha.nn import (
    DifferentialAttention,
    difference_weight,
    differential_attention,
    normed_heads,
    starting_weight,
)
from nn.layers import draw

OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal, "q_start": 1},
    "lengths": {"mask": masks.lengths([5, 0]), "scale": 0.7},
    "bias": {"bias": np.random.default_rng(3).standard_normal((6, 7, 11)), "softcap": 1.5},
}


def tensors(n_q=7, n_k=11):
    return draw(2, 6, n_q, 10), draw(2, 3, n_k, 10, seed=1), draw(2, 3, n_k, 7, seed=2)


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_reference(name):
    given, options = tensors(), OPTIONS[name]
    weight = draw(6, 1, 1, seed=4)
    expected = reference.differential_attention(*(x.numpy() for x in given), weight.numpy(), **options)
    options = {key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in options.items()}
    assert_equal(differential_attention(*given, weight, **options), expected, atol=1e-13)


def test_the_rest_equals_the_reference():
    vectors, heads = draw(4, 5) * 0.3, draw(2, 3, 5, 7) * 3
    expected = reference.difference_weight(*vectors.numpy(), 0.2)
    assert_equal(difference_weight(*vectors, 0.2), expected, atol=1e-15)
    assert_equal(normed_heads(heads, 0.2), reference.normed_heads(heads.numpy(), 0.2), atol=1e-14)
    assert [starting_weight(n) for n in range(3)] == pytest.approx([reference.starting_weight(n) for n in range(3)])


def test_hidden_keys_may_hold_anything_and_gradients_exist():
    q, k, v = (x[:1, :2].detach() for x in tensors(3, 5))
    k, v = k.clone(), v.clone()
    k[..., 4, :], v[..., 4, :] = torch.nan, torch.inf
    mask = masks.lengths([4]) & masks.causal
    alone = differential_attention(q, k[..., :4, :], v[..., :4, :], 0.3, mask=masks.causal)
    assert_equal(differential_attention(q, k, v, 0.3, mask=mask), alone, atol=1e-15)
    given = [x.requires_grad_() for x in (q, k[..., :4, :], v[..., :4, :], torch.tensor(0.3, dtype=q.dtype))]
    assert gradcheck(lambda *x: differential_attention(*x, mask=masks.causal, q_start=-1), given)


def difflama(num_kv_heads):
    """Return a layer of DiffLlama, weights drawn at 0.3, its rotation turned off by cos = 1 and sin = 0."""
    sizes = {"hidden_size": 48, "num_attention_heads": 12, "num_key_value_heads": num_kv_heads}
    config = DiffLlamaConfig(**sizes, num_hidden_layers=4, attention_bias=True, attn_implementation="eager")
    theirs = DiffLlamaAttention(config, 2).double().eval()
    make = torch.Generator().manual_seed(1)
    for parameter in theirs.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    return theirs


def from_theirs(theirs, num_kv_heads):
    """Copy the weights: their head h pairs with head h + H/2, ours holds both halves side by side."""
    ours = DifferentialAttention(48, 6, depth=2, num_kv_heads=num_kv_heads // 2, dtype=torch.float64)
    for name in ("q_proj", "k_proj", "v_proj"):
        for kind in ("weight", "bias"):
            rows = getattr(getattr(theirs, name), kind).data.unflatten(0, (2, -1, 4))  # half, head, width
            getattr(getattr(ours, name), kind).data.copy_(rows.transpose(0, 1).flatten(0, 2))
    ours.out_proj.load_state_dict(theirs.o_proj.state_dict())
    vectors = theirs.lambda_q1, theirs.lambda_k1, theirs.lambda_q2, theirs.lambda_k2
    ours.contrast.data.copy_(torch.stack([x.data for x in vectors]))
    return ours


@pytest.mark.parametrize("num_kv_heads", [12, 4])
def test_layer_is_that_of_diff_llama(num_kv_heads):
    theirs, x = difflama(num_kv_heads), draw(2, 7, 48)
    ours = from_theirs(theirs, num_kv_heads)
    unturned = torch.ones(2, 7, 4, dtype=x.dtype), torch.zeros(2, 7, 4, dtype=x.dtype)
    hidden = torch.full((7, 7), -torch.inf, dtype=x.dtype).triu(1)[None, None]
    expected = theirs(x, unturned, hidden)[0]
    assert float(expected.detach().abs().max()) > 1
    # λ is made in float32 there: a few 2⁻²⁴, through a norm and a projection of 48 terms
    assert_equal(ours(x, mask=masks.causal), expected, atol=48 * 2**-24)
    ours.start = starting_weight(3)  # λ begins by the depth from 0: one layer off is seen
    assert float((ours(x, mask=masks.causal) - expected).detach().abs().max()) > 1e-2


def test_a_layer_with_a_context():
    module = DifferentialAttention(24, 3, depth=0, dtype=torch.float64)
    x, context = draw(2, 5, 24), draw(2, 7, 24, seed=1)
    assert module(x, context).shape == (2, 5, 24)
    assert_equal(module(x[:, :3], mask=masks.causal), module(x, mask=masks.causal)[:, :3], atol=1e-14)
    module(x, context).sum().backward()
    assert all(float(parameter.grad.abs().max()) > 0 for parameter in module.parameters())
    with pytest.raises(ValueError, match="d_model is 24 and num_heads is 10"):
        DifferentialAttention(24, 5, depth=0)
