"""Few cases in which every two values of two factors meet: what fails by the meeting of two options, fails in one."""

import random
from itertools import combinations


def pairwise(factors, *, seed=0):
    """Return cases, dictionaries of one value for each factor, such that each pair of values occurs in one of them.

    Greedy: a case starts from a pair that is still missing, and each further factor, in random order, takes the value
    that completes the most missing pairs. The first cases hold the most.
    """
    rng = random.Random(seed)
    names = list(factors)
    missing = {
        pair
        for one, two in combinations(range(len(names)), 2)
        for pair in _pairs(one, range(len(factors[names[one]])), two, range(len(factors[names[two]])))
    }
    order = sorted(missing)
    rng.shuffle(order)
    cases = []
    for pair in order:
        if pair in missing:
            chosen = _completed(dict(pair), [len(factors[name]) for name in names], missing, rng)
            missing -= set(combinations(sorted(chosen.items()), 2))
            cases.append({name: factors[name][chosen[place]] for place, name in enumerate(names)})
    return cases


def _pairs(one, values, two, others):
    return (((one, x), (two, y)) for x in values for y in others)


def _completed(chosen, sizes, missing, rng):
    """Return the choice with a value for every factor, places for names."""
    left = [place for place in range(len(sizes)) if place not in chosen]
    rng.shuffle(left)
    for place in left:
        gains = [
            sum(tuple(sorted([(place, value), other])) in missing for other in chosen.items())
            for value in range(sizes[place])
        ]
        best = max(gains)
        chosen[place] = rng.choice([value for value, gain in enumerate(gains) if gain == best])
    return chosen
