"""Every two values meet, in few cases, and the same cases each time."""

from itertools import combinations, product

import pytest

from pairwise import pairwise

SMALL = {"mask": [None, "causal", "window"], "bias": [0, 1], "width": [16, 30, 64, 256]}


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("sizes", [(3, 2), (33, 8, 8, 6, 5, 3, 2, 2)], ids=str)
def test_every_two_values_meet(sizes, seed):
    factors = {f"factor {place}": list(range(size)) for place, size in enumerate(sizes)}
    cases = pairwise(factors, seed=seed)
    for one, two in combinations(factors, 2):
        assert {(case[one], case[two]) for case in cases} == set(product(factors[one], factors[two]))


def test_the_cases_are_few_and_repeatable():
    cases = pairwise(SMALL)
    assert cases == pairwise(SMALL)
    assert len(cases) == 3 * 4  # the two largest factors
    assert all(list(case) == list(SMALL) for case in cases)
