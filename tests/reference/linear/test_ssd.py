"""Mamba-2's state space is linear attention: against its own recurrence and another library's two forms."""

import numpy as np
import pytest
import torch
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan, mamba2_selective_state_update

from compare import assert_equal
from linear_calls import draw_space
from mha.reference import (
    chunked_linear_attention,
    linear_attention,
    parallel_linear_attention,
    selective_state_space,
)

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
FORMS = linear_attention, parallel_linear_attention, chunked_linear_attention


def assert_same(found, expected, close=CLOSE):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **close, label=name)


def recurrence(x, dt, A, B, C, D, state):
    """Dao and Gu (2024), equations 1 and 2 of one head and one group, discretised as in section 2: h is (d, e)."""
    y = []
    for t in range(len(x)):
        state = np.exp(dt[t] * A) * state + np.outer(B[t], dt[t] * x[t])
        y.append(C[t] @ state + D * x[t])
    return np.array(y), state


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("n", [1, 2, 7, 13])
def test_equals_its_recurrence(n, form):
    given, D, state = draw_space(n)
    y, last = selective_state_space(*given, D=D, state=state, core=form)
    x, dt, A, B, C = given
    for b in range(2):
        for h in range(6):
            group = b, h // 3
            one = x[b, h], dt[b, h], A[h], B[group], C[group], D[h], state[b, h]
            assert_same((y[b, h], last[b, h]), recurrence(*one))


def test_length_zero():
    given, D, state = draw_space(0)
    y, last = selective_state_space(*given, D=D, state=state)
    assert y.shape == (2, 6, 0, 7)
    assert_equal(last, state)


def theirs(given, D, state):
    """Return Mamba-2's arguments: axes (batch, length, heads, width), a state (…, value width, key width)."""
    x, dt, A, B, C = (np.swapaxes(x, 1, 2) if x.ndim > 2 else x for x in given)
    return [torch.from_numpy(np.ascontiguousarray(x)).float() for x in (x, dt, A, B, C, D, np.swapaxes(state, -1, -2))]


def test_equals_mamba2():
    given, D, state = draw_space(13)
    x, dt, A, B, C, their_d, first = theirs(given, D, state)
    options = {"chunk_size": 4, "D": their_d, "initial_states": first, "return_final_states": True}
    y, last = mamba2_chunk_scan(x, dt, A, B, C, **options)
    expected = np.swapaxes(y.numpy(), 1, 2), np.swapaxes(last.numpy(), -1, -2)
    for form in FORMS:
        assert_same(selective_state_space(*given, D=D, state=state, core=form), expected, {"atol": 5e-6, "rtol": 1e-6})
    for name, wrong in mistakes(*given, D, state).items():
        assert np.abs(wrong[0] - expected[0]).max() > 0.1, name


def mistakes(x, dt, A, B, C, D, state):
    ones = np.ones_like(dt)
    return {
        "no step before B": selective_state_space(x / dt[..., None], dt, A, B, C, D=D, state=state),
        "no step in the decay": selective_state_space(x * dt[..., None], ones, A, B, C, D=D, state=state),
        "heads of a group apart": selective_state_space(x, dt, A, B[:, ::-1], C, D=D, state=state),
        "no skip": selective_state_space(x, dt, A, B, C, state=state),
    }


def test_a_token_at_a_time_equals_mamba2():
    given, D, state = draw_space(5)
    _, _, A, _, _, their_d, first = theirs(given, D, state)
    x, dt, _, B, C = given
    expected = []
    for t in range(5):
        now = [torch.from_numpy(np.ascontiguousarray(one[..., t, :])).float() for one in (x, B, C)]
        step = torch.from_numpy(dt[..., t]).float()[..., None].expand(-1, -1, 7)
        wide = A[:, None, None].expand(-1, 7, 5), their_d[:, None].expand(-1, 7)
        expected.append(mamba2_selective_state_update(first, now[0], step, wide[0], *now[1:], wide[1]).numpy())
    y, last = selective_state_space(*given, D=D, state=state)
    assert_equal(y, np.stack(expected, -2), atol=5e-6)
    assert_equal(last, np.swapaxes(first.numpy(), -1, -2), atol=5e-6)


def test_a_state_continues_the_sequence():
    (x, dt, A, B, C), D, state = draw_space(13)
    expected = selective_state_space(x, dt, A, B, C, D=D, state=state)
    parts = []
    for part in (slice(0, 4), slice(4, 4), slice(4, 13)):
        now = x[..., part, :], dt[..., part], A, B[..., part, :], C[..., part, :]
        y, state = selective_state_space(*now, D=D, state=state)
        parts.append(y)
    assert_same((np.concatenate(parts, -2), state), expected)


(X, DT, A_, B_, C_), D_, _ = draw_space(5)
MISUSES = {
    "heads of A": ({"A": A_[:2]}, ValueError, r"A has shape \(2,\): expected \(6,\), one number per head of x"),
    "heads of D": ({"D": D_[:2]}, ValueError, r"D has shape \(2,\): expected \(6,\), one number per head of x"),
    "steps": ({"dt": DT[:, :, :4]}, ValueError, r"dt has shape \(2, 6, 4\): expected \(…, 6, 5\), one step per head"),
    "groups": ({"B": X[:, :4]}, ValueError, r"B has 4 heads and x has 6: query heads must be a multiple"),
    "length": ({"C": C_[..., :4, :]}, ValueError, "C has length 4 and x has length 5: every token has all of them"),
    "width": ({"C": C_[..., :4]}, ValueError, "B has width 5 and C has width 4: the widths must be equal"),
    "number": ({"dt": 0.1}, TypeError, "dt is a float: expected a NumPy array"),
    "library": ({"A": torch.from_numpy(A_)}, TypeError, "A is a torch tensor and x is a NumPy array"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misfits_are_named(misuse):
    given, kind, words = MISUSES[misuse]
    with pytest.raises(kind, match=words):
        selective_state_space(**{"x": X, "dt": DT, "A": A_, "B": B_, "C": C_} | given)
