"""The state space of Mamba-2 as a matrix of weights: the recurrence and the matrix say the same."""

import numpy as np
import pytest

from compare import assert_equal
from linear_calls import draw_space
from mha.reference import decay_mask, selective_state_space, state_space_weights


def test_by_hand():
    kept = np.array([0.3, 0.5, 0.25])
    expected = np.array([[1.0, 0, 0], [0.5, 1, 0], [0.125, 0.25, 1]])
    assert_equal(decay_mask(np.log(kept)), expected, atol=1e-15)


def test_without_a_decay_it_is_the_causal_mask():
    assert_equal(decay_mask(np.zeros(5)), np.tri(5))


def test_what_forgets_all_cuts_the_sequence():
    mask = decay_mask(np.array([-0.1, -0.2, -np.inf, -0.3]))
    assert np.isfinite(mask).all()
    assert not mask[2:, :2].any()
    assert_equal(mask[3, 2], np.exp(-0.3), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 13])
def test_the_weights_give_the_output(n):
    (x, dt, A, B, C), D, _ = draw_space(n)
    weights = state_space_weights(dt, A, B, C)
    expected, _ = selective_state_space(x, dt, A, B, C, D=D)
    assert_equal(weights @ x + D[:, None, None] * x, expected, atol=1e-11)
    assert not np.triu(weights, 1).any()


def test_one_weight_by_the_formula():
    (_, dt, A, B, C), _, _ = draw_space(7)
    found = state_space_weights(dt, A, B, C)[1, 4, 5, 2]
    group = 4 // 3
    between = dt[1, 4, 3] + dt[1, 4, 4] + dt[1, 4, 5]
    assert_equal(found, C[1, group, 5] @ B[1, group, 2] * np.exp(between * A[4]) * dt[1, 4, 2], rtol=1e-12)


def test_misfits_are_named():
    (_, dt, A, B, C), _, _ = draw_space(5)
    with pytest.raises(ValueError, match=r"A has shape \(2,\): expected \(6,\)"):
        state_space_weights(dt, A[:2], B, C)
    with pytest.raises(ValueError, match=r"log_decay has shape \(\): expected \(…, length\)"):
        decay_mask(np.array(0.5))
