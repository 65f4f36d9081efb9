"""Approximations have other numbers than attention, and hold its rules: what is hidden, empty, permuted or later."""

import pytest

from mha import nn, reference
from mha.conformance import Torch, verify
from mha.conformance.adapters.values import with_masks

RULES = "relations", "hidden-numbers", "lengths", "empty-rows"
FLOORS = {"reference": (reference, None), "nn": (nn, Torch())}
# The numbers of softmax attention itself, and what segments of keys cannot keep.
CORES = {
    "features": (lambda floor, d: floor.FeatureAttention(), {"a-large-score-comes-last"}),
    "Performer": (lambda floor, d: floor.Performer(13, d), {"a-large-score-comes-last"}),
    "Nyström": (lambda floor, d: floor.Nystrom(2), {"keys-given-twice-change-nothing"}),
}


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("name", CORES)
def test_an_approximation_holds_the_rules(name, floor):
    (functions, arrays), (build, approximate) = FLOORS[floor], CORES[name]

    def attend(q, k, v, **options):
        return build(functions, q.shape[-1])(q, k, v, **options)

    report = verify(with_masks(attend), cases=RULES, supports=declared(build(functions, 1)), arrays=arrays, name=name)
    assert {result.case.name for result in report.failures} == approximate, str(report)
    assert report.counts["holds"] >= 18


def declared(core):
    given = {"causal": {"causal"}, "padding": {"lengths"}}
    return {"gradient", "value-width"}.union(*(given.get(word, ()) for word in core.supports))
