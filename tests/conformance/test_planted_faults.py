"""Every fault that is planted in a careful attention is caught by the case that is about it."""

import numpy as np
import pytest
import torch

from conformance.zoo import FAULTS, Careful
from mha.conformance import Torch, verify

STACKED = {"mask", "bias", "scale", "softcap", "sinks", "causal", "causal-with-mask", "window", "lengths"}


def test_the_careful_one_passes():
    report = verify(Careful(), name="careful")
    assert report.failures == [], str(report)
    assert report.passed
    assert report.counts["holds"] > 120


def test_what_a_signature_says_is_found():
    report = verify(Careful())
    ran = {need for result in report.results if result.status == "holds" for need in result.case.needs}
    assert ran == STACKED | {"grouped", "value-width", "float16", "gradient"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name):
    case, attention = FAULTS[name]
    report = verify(attention, cases=[case], supports=STACKED | {"grouped", "value-width", "float16", "gradient"})
    assert report[case].status == "fails", str(report)
    assert not report.passed


def scrubbed(q, k, v, *, mask=None):
    """NaN is scrubbed after the softmax: it lives on in the gradient."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    scores = scores if mask is None else scores + torch.where(mask, 0.0, -torch.inf)
    return scores.softmax(-1).nan_to_num() @ v


def detached(q, k, v, *, mask=None):
    """The gradient stops at the scores."""
    return scrubbed(q.detach(), k.detach(), v, mask=mask)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, gradient):
        return gradient


def detached_future(q, k, v, *, causal=False):
    """The backward pass of a causal call knows of no mask."""
    outputs = [scrubbed(q, k, v, mask=mask) for mask in (torch.ones(5, 5).tril().bool() if causal else None, None)]
    return outputs[1] + (outputs[0] - outputs[1]).detach()


def few_queries(q, k, v):
    """Keys learn from the first 128 queries only."""
    scores = torch.cat([q[..., :128, :] @ k.mT, q[..., 128:, :] @ k.detach().mT], -2) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


def one_sample(q, k, v, *, bias=0.0, scale=1.0):
    """The bias learns from the first sample only."""
    first = torch.arange(len(q))[:, None, None, None] == 0
    return (scale * q @ k.mT + torch.where(first, bias, bias.detach())).softmax(-1) @ v


class OneTile(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        late = torch.arange(gradient.shape[-2])[:, None] >= 128
        return gradient.masked_fill(late, 0.0)


def one_tile(q, k, v, *, mask=None):
    """The backward pass stops after the first tile of keys."""
    return scrubbed(q, OneTile.apply(k), OneTile.apply(v), mask=mask)


def once(q, k, v, *, mask=None):
    """Its backward pass cannot be differentiated."""
    return Once.apply((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)) @ v


@pytest.mark.parametrize(
    ("attention", "case"),
    [
        (scrubbed, "empty-rows-give-keys-no-gradient"),
        (detached, "gradients-match-differences"),
        (detached, "the-gradient-of-the-query"),
        (few_queries, "many-queries-add-to-a-gradient"),
        (one_sample, "samples-and-heads-add-to-a-shared-bias"),
        (one_tile, "many-keys-have-their-gradient"),
        (detached_future, "the-future-has-no-gradient-causal"),
        (once, "a-second-derivative"),
        (once, "a-forward-derivative"),
    ],
)
def test_a_planted_fault_in_a_gradient_is_caught(attention, case):
    assert verify(attention, arrays=Torch(), cases=[case])[case].status == "fails"


@pytest.mark.parametrize(
    "case", ["the-gradient-of-a-masked-call", "gradients-match-differences", "a-second-derivative"]
)
def test_a_right_gradient_holds(case):
    assert verify(scrubbed, arrays=Torch(), cases=[case]).passed


def test_a_finer_fault_than_the_tolerance_is_not_there():
    """A relative error of 1e-12 in float64 is noticed."""
    report = verify(lambda q, k, v: Careful()(q, k, v) * (1 + 1e-12), cases=["unequal-lengths"])
    assert not report.passed
    assert verify(lambda q, k, v: (Careful()(q, k, v)).astype(np.float32), cases=["unequal-lengths"]).passed
