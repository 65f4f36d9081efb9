"""Every fault that is planted in a careful attention is caught by the case that is about it."""

from functools import partial

import numpy as np
import pytest
import torch

from conformance.zoo import FAULTS, Careful
from mha import reference
from mha.conformance import Adapter, Torch, verify
from mha.conformance.adapters import find

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


def right_state(
    q, k, v, state=None, log_decay=None, *, late=False, fresh=False, decays_itself=False, sums=True, kept_once=False
):
    """Linear attention in a loop, and faults: the state read before the token, forgotten, or decayed with the token."""
    state = np.zeros((*q.shape[:2], q.shape[-1], v.shape[-1])) if state is None or fresh else state
    decay = np.zeros(q.shape[:-1]) if log_decay is None else log_decay
    rows = []
    for t in range(q.shape[2]):
        kept, added = np.exp(decay[..., t, None, None]), k[..., t, :, None] * v[..., t, None, :]
        kept = kept**0 if kept_once and t == 0 else kept
        new = kept * (state + added) if decays_itself else kept * state + added
        rows.append(np.einsum("bhd,bhde->bhe", q[..., t, :], state if late else new))
        state = new if sums else added
    return np.stack(rows, 2) if rows else np.zeros(v.shape), state


def deltas(q, k, v, beta, state=None, *, corrects=True, whole=False):
    state = np.zeros((*q.shape[:2], q.shape[-1], v.shape[-1])) if state is None else state
    rows = []
    for t in range(q.shape[2]):
        found = np.einsum("bhd,bhde->bhe", k[..., t, :], state) if corrects else 0.0
        step = 1.0 if whole else beta[..., t, None]
        state = state + k[..., t, :, None] * (step * (v[..., t, :] - found))[..., None, :]
        rows.append(np.einsum("bhd,bhde->bhe", q[..., t, :], state))
    return np.stack(rows, 2), state


def average(q, k, v, *, over="past"):
    weights = q @ np.swapaxes(k, -1, -2)
    weights = weights if over == "all" else np.tril(weights)
    total = {"past": weights.sum(-1, keepdims=True), "all": weights.sum(-1, keepdims=True), "nothing": 1.0}[over]
    with np.errstate(invalid="ignore"):
        return weights @ v / total


def one_series(num_heads):
    return 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)


def turned(function):
    return lambda distances, *options: function(-distances, *options)


def paper_sign(q, k, position_keys, position_queries, q_positions, k_positions):
    options = {"scale": 1.0, "paper_sign": True}
    return reference.disentangled_bias(q, k, position_keys, position_queries, q_positions, k_positions, **options)


BUCKETS = find("mha.reference").parts["distance-buckets"]
PARTS = {
    "slopes of one series": ("alibi-slopes", one_series, "slopes-of-6-heads"),
    "distances turned": ("distance-buckets", turned(BUCKETS), "buckets-of-the-past"),
    "keys ahead in the first half": ("distance-buckets", turned(BUCKETS), "buckets-of-both-directions"),
    "both directions always": ("distance-buckets", lambda x, n, m, _: BUCKETS(x, n, m, True), "buckets-of-the-past"),
    "no last bucket": ("distance-buckets", lambda x, n, m, b: BUCKETS(x, n, 99999, b), "far-distances-share-a-bucket"),
    "the paper's sign": ("disentangled", paper_sign, "a-key-meets-the-position-of-a-query"),
    "no division": ("linear-average", partial(average, over="nothing"), "values-are-averaged-so-far"),
    "the future in the denominator": ("linear-average", partial(average, over="all"), "later-tokens-change-no-average"),
    "NaN without weight": ("linear-average", average, "weights-of-zero-average-to-zero"),
    "read too early": ("linear-attention", partial(right_state, late=True), "values-are-summed-so-far"),
    "the state is not taken": ("linear-attention", partial(right_state, fresh=True), "a-state-continues"),
    "the state before is lost": ("linear-attention", partial(right_state, sums=False), "values-are-summed-so-far"),
    "a token forgets itself": (
        "linear-attention",
        partial(right_state, decays_itself=True),
        "a-token-forgets-what-was-before-it",
    ),
    "the first decay is lost": ("linear-attention", partial(right_state, kept_once=True), "a-state-is-forgotten-too"),
    "no tokens, no state": ("linear-attention", partial(right_state, fresh=True), "no-tokens-leave-the-state"),
    "nothing is corrected": ("delta-rule", partial(deltas, corrects=False), "the-same-key-is-written-over"),
    "β forgotten": ("delta-rule", partial(deltas, whole=True), "half-a-correction"),
}


def with_part(part, function, conventions=frozenset()):
    supports = frozenset({part})
    return Adapter(
        name="planted", attend=Careful(), supports=supports, parts={part: function}, conventions=frozenset(conventions)
    )


@pytest.mark.parametrize("name", PARTS)
def test_a_fault_in_a_part_is_caught(name):
    part, function, case = PARTS[name]
    assert verify(with_part(part, function), cases=[case])[case].status == "fails"


@pytest.mark.parametrize(("part", "function"), [("linear-attention", right_state), ("delta-rule", deltas)])
def test_a_right_part_holds(part, function):
    report = verify(with_part(part, function), cases=["linear"])
    assert report.passed, str(report)


def test_a_known_reading_of_a_part_is_no_fault():
    adapter = with_part("alibi-slopes", one_series, {"slopes-in-one-series"})
    assert verify(adapter, cases=["slopes-of-6-heads"])["slopes-of-6-heads"].status == "convention"
