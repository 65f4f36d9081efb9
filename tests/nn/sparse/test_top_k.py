"""Top-k attention against the reference; its gradient against the kept scores written out."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, reference
from mha.dropout import Dropout
from mha.nn import attention, top_k_attention, top_keys
from nn.layers import draw, layer

OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal},
    "lengths": {"mask": masks.lengths([5, 0]) & masks.causal},
    "bias": {"bias": np.random.default_rng(3).standard_normal((6, 7, 11)), "scale": 0.7},
    "all": {
        "mask": masks.causal,
        "softcap": 1.5,
        "sinks": np.linspace(-1, 1, 6),
        "q_start": 2,
        "dropout": Dropout(0.3, 5),
    },
}


def tensors(n_q=7, n_k=11):
    return draw(2, 6, n_q, 5), draw(2, 3, n_k, 5, seed=1), draw(2, 3, n_k, 2, seed=2)


def in_torch(options):
    return {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}


@pytest.mark.parametrize("num_keys", [1, 3, 13])
@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_reference(name, num_keys):
    given, options = tensors(), OPTIONS[name]
    expected = reference.top_k_attention(*(x.numpy() for x in given), num_keys=num_keys, **options)
    assert_equal(top_k_attention(*given, num_keys=num_keys, **in_torch(options)), expected, atol=1e-13)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1), (1, 13)], ids=str)
def test_any_lengths(lengths):
    given = tensors(*lengths)
    expected = reference.top_k_attention(*(x.numpy() for x in given), num_keys=2)
    assert_equal(top_k_attention(*given, num_keys=2), expected, atol=1e-14)


def test_ties_and_leading_axes():
    q, k = torch.zeros(1, 3, 2), torch.ones(1, 5, 2)
    options = {"num_keys": 2, "mask": masks.causal, "q_start": 0}
    assert_equal(top_keys(q, k, **options), reference.top_keys(q.numpy(), k.numpy(), **options))
    q, k, v = (x.expand(2, 2, *x.shape[1:]) for x in tensors())
    assert_equal(
        top_k_attention(q, k[:, :1], v, num_keys=3)[1, 0], top_k_attention(q[1, 0], k[1, 0], v[1, 0], num_keys=3)
    )


def test_a_softmax_over_all_keys_is_another_form():
    """The weights of the kept keys sum to one: leaving the others out after the softmax is not the same."""
    q, k, v = tensors()
    kept = top_keys(q, k, num_keys=3)
    k, v = (x.repeat_interleave(2, -3) for x in (k, v))
    after = torch.where(kept, torch.softmax(q @ k.mT / 5**0.5, -1), 0.0) @ v
    assert float((after - top_k_attention(q, k, v, num_keys=3)).abs().max()) > 0.1


def test_the_gradient_passes_through_the_kept_scores():
    given = [x.requires_grad_() for x in tensors()]
    kept = top_keys(*given[:2], num_keys=3)
    scores = given[0] @ given[1].repeat_interleave(2, -3).mT / 5**0.5
    written = torch.where(kept, scores, -torch.inf).softmax(-1) @ given[2].repeat_interleave(2, -3)
    found = top_k_attention(*given, num_keys=3)
    for one, two in zip(*(torch.autograd.grad(x.square().sum(), given) for x in (found, written)), strict=True):
        assert_equal(one, two, atol=1e-12)
    assert gradcheck(
        partial(top_k_attention, num_keys=2),
        [x[:1, :2, :3].detach().requires_grad_() for x in tensors()[:1]]
        + [x[:1, :1, :4].detach().requires_grad_() for x in tensors()[1:]],
    )


def test_as_the_core_of_a_layer():
    module, x = layer(13, 6, d_head=4, core=partial(top_k_attention, num_keys=3)), draw(2, 7, 13)
    q, k, v = module.project(x)
    kept = top_keys(q, k, num_keys=3, mask=masks.causal)
    assert_equal(module.per_head(x, mask=masks.causal), attention(q, k, v, mask=kept))
    assert_equal(module(x[:, :5], mask=masks.causal), module(x, mask=masks.causal)[:, :5], atol=1e-13)
