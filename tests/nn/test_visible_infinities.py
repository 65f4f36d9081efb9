"""A NaN or an infinity that a query sees: the reference's answer in each entry, and untouched rows beside it."""

import math

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.dropout import Dropout
from mha.nn import attention, attention_stats, attention_weights

SPOILED = {
    "one value": ("v", (1, 0, 4, 2), math.inf),
    "one value below": ("v", (1, 1, 0, 0), -math.inf),
    "values of both signs": ("v", (1, 0, slice(3, 5), 1), torch.tensor([math.inf, -math.inf])),
    "no number": ("v", (0, 1, 2, 1), math.nan),
    "a key of −inf": ("k", (0, 0, 3), -math.inf),
    "a key of +inf": ("k", (0, 0, 3), math.inf),
    "a key without number": ("k", (1, 1, 5, 0), math.nan),
}
MASKS = {
    "all": torch.ones(7, 7, dtype=torch.bool),
    "causal": masks.causal,
    "window": masks.window(2, 1),
    "lengths": masks.lengths([7, 6]) & masks.causal,
}
OPTIONS = {
    "fused": {},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks": torch.zeros(4, dtype=torch.float64)},
    "dropout": {"dropout": Dropout(0.4, 3)},
}


def inputs(spoiled=None):
    make = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(2, 4 if name == "q" else 2, 7, 3, generator=make, dtype=torch.float64) for name in "qkv"
    }
    tensors["q"] = tensors["q"].abs()  # so that the score of an infinite key is infinite, not NaN
    if spoiled is not None:
        name, where, bad = spoiled
        tensors[name][where] = bad
    return tensors


def in_numpy(given):
    return {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in given.items()}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equals_the_reference(spoiled, mask, options):
    options, tensors = {"mask": mask} | options, inputs(spoiled)
    expected = reference.attention(**in_numpy(tensors), **in_numpy(options))
    assert_equal(attention(**tensors, **options), expected, rtol=0, atol=1e-13)
    options.pop("dropout", None)
    q, k = (tensors[name] for name in "qk")
    weights = reference.attention_weights(q.numpy(), k.numpy(), **in_numpy(options))
    assert_equal(attention_weights(q, k, **options), weights, rtol=0, atol=1e-13)
    _, stats = attention_stats(**tensors, **options)
    hurt = np.isnan(weights).any(-1)
    lse = reference.attention_stats(**in_numpy(tensors), **in_numpy(options))[1].lse
    assert_equal(stats.lse[~hurt], lse[~hurt], rtol=0, atol=1e-13)
    assert bool(stats.lse[hurt].isnan().all())


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED)
def test_a_mask_that_hides_nothing_changes_nothing(spoiled):
    tensors = inputs(spoiled)
    assert_equal(attention(**tensors, mask=MASKS["all"]), attention(**tensors), rtol=0, atol=1e-14)


@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_other_rows_and_their_gradients_are_untouched(spoiled, options):
    """Causal: the rows before a bad key. Their gradients are those of clean inputs, bit for bit or to rounding."""
    _, (b, g, at, *_), _ = spoiled
    first = at.start if isinstance(at, slice) else at
    untouched = torch.ones(2, 4, 7, dtype=torch.bool)
    untouched[b, 2 * g : 2 * g + 2, first:] = False
    found = []
    for tensors in (inputs(spoiled), inputs()):
        leaves = [x.requires_grad_() for x in tensors.values()]
        rows = attention(**tensors, mask=masks.causal, **options)[untouched]
        found.append((rows, *torch.autograd.grad(rows.square().sum(), leaves)))
    for one, other in zip(*found, strict=True):
        assert_equal(one, other, rtol=0, atol=1e-12)
