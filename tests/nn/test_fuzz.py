"""A few hundred of the random calls of `tests/fuzz_attention.py`, and what makes it go red."""

import pytest

import fuzz_attention
from mha import masks, shapes
from mha.nn import formula


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_legal_calls(first):
    for seed in range(first, first + 50):
        fuzz_attention.check_legal(seed)


def test_random_illegal_calls():
    for seed in range(200):
        fuzz_attention.check_illegal(seed)


def failures(number=60):
    count = 0
    for seed in range(number):
        try:
            fuzz_attention.check_legal(seed)
        except AssertionError:
            count += 1
    return count


def test_a_diagonal_one_off_is_seen(monkeypatch):
    monkeypatch.setattr(shapes, "_query_start", lambda mask, n_q, n_k, q_start, batch_shape: n_k - n_q + 1)
    assert failures() > 5


def test_tiled_groups_are_seen(monkeypatch):
    def tiled(x, num_groups):
        return x if x.shape[-3] == num_groups else formula_by_group(x.roll(1, -3), num_groups)

    formula_by_group = formula.by_group
    monkeypatch.setattr(formula, "by_group", tiled)
    assert failures() > 5


def test_a_forgotten_negation_is_seen(monkeypatch):
    monkeypatch.setattr(masks.Mask, "__invert__", lambda self: self)
    assert failures(200) > 3
