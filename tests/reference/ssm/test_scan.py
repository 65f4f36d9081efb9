"""The selective scan: against the equations of Mamba by hand, gated linear attention, and another library's scan."""

import numpy as np
import pytest
import torch
from transformers.models.mamba.modeling_mamba import mamba_selective_scan

from compare import assert_equal
from mha.reference import gated_linear_attention, parallel_selective_scan, prefix_states, selective_scan
from space_calls import draw_scan, part_of, scan_by_hand

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
FORMS = selective_scan, parallel_selective_scan


def assert_same(found, expected, close=CLOSE):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **close, label=name)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_equals_the_equations(n, form):
    given, D, state = draw_scan(n)
    y, last = form(*given, D=D, state=state)
    x, dt, A, B, C = given
    for b in range(2):
        assert_same((y[b], last[b]), scan_by_hand(x[b], dt[b], A, B[b], C[b], D, state[b]))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_equals_gated_linear_attention_with_a_head_for_each_channel(form):
    (x, dt, A, B, C), _, state = draw_scan(11)
    keys, queries = B[:, None], C[:, None]
    gate = dt[..., None] * A[:, None]
    y, last = gated_linear_attention(queries, keys, (dt * x)[..., None], gate, state=state[..., None])
    assert_same(form(x, dt, A, B, C, state=state), (y[..., 0], last[..., 0]))


def test_equals_mamba():
    given, D, _ = draw_scan(13)
    x, dt, A, B, C = (torch.from_numpy(np.ascontiguousarray(one)).float() for one in given)
    y, last = mamba_selective_scan(x, dt, A, B.mT, C.mT, D=torch.from_numpy(D).float(), return_last_state=True)
    for form in FORMS:
        assert_same(form(*given, D=D), (y.numpy(), last.numpy()), {"atol": 1e-5, "rtol": 1e-5})
    x, dt, A, B, C = given
    for name, wrong in {
        "no step before B": selective_scan(x / dt, dt, A, B, C, D=D),
        "no step in the decay": selective_scan(x * dt, np.ones_like(dt), A, B, C, D=D),
        "B and C swapped": selective_scan(x, dt, A, C, B, D=D),
        "B discretised exactly": selective_scan(x * np.expm1(dt * A[:, :1]) / (dt * A[:, :1]), dt, A, B, C, D=D),
    }.items():
        assert np.abs(wrong[0] - y.numpy()).max() > 0.05, name


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_state_continues_the_sequence(form):
    given, D, state = draw_scan(13)
    expected = form(*given, D=D, state=state)
    parts = []
    for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
        y, state = form(*part_of(given, part), D=D, state=state)
        parts.append(y)
    assert_same((np.concatenate(parts, -1), state), expected)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_step_of_any_length_forgets_all_and_overflows_nowhere(form):
    (x, dt, A, B, C), D, state = draw_scan(7)
    dt[..., 3] = 1e6
    x[..., 3] = 0.0
    y, last = form(x, dt, A, B, C, D=D, state=state)
    assert np.isfinite(y).all()
    anew = form(*part_of((x, dt, A, B, C), slice(4, 7)), D=D)
    assert_same((y[..., 4:], last), anew)


def test_stretches_join_in_any_order():
    rng = np.random.default_rng(0)
    kept, written = rng.random((2, 3, 6, 5))
    whole = prefix_states(kept, written)
    early, late = (prefix_states(kept[:, part], written[:, part]) for part in (slice(0, 4), slice(4, 6)))
    joined = late[0][:, -1] * early[0][:, -1], late[0][:, -1] * early[1][:, -1] + late[1][:, -1]
    for one, two in zip(whole, joined, strict=True):
        assert_equal(one[:, -1], two, **CLOSE)


(X, DT, A_, B_, C_), D_, STATE = draw_scan(5)
MISUSES = {
    "step": ({"dt": DT[..., :4]}, r"dt has shape \(2, 3, 4\): expected \(…, 3, 5\), for x has 3 channels and 5 tokens"),
    "decays": ({"A": A_[:2]}, r"A has shape \(2, 5\): expected \(3, 5\)"),
    "channels first": ({"B": np.swapaxes(B_, 1, 2)[..., :4]}, r"B has shape \(2, 5, 4\): expected \(…, 5, 5\)"),
    "skip": ({"D": D_[:2]}, r"D has shape \(2,\): expected \(3,\)"),
    "state": ({"state": STATE[..., :4]}, r"state has shape \(2, 3, 4\): expected \(…, 3, 5\)"),
    "batch": ({"C": C_[[0, 1, 1]]}, r"do not broadcast: x \(2,\), dt \(2,\), B \(2,\), C \(3,\)"),
}


@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_misfits_are_named(form, misuse):
    changed, words = MISUSES[misuse]
    with pytest.raises(ValueError, match=words):
        form(**{"x": X, "dt": DT, "A": A_, "B": B_, "C": C_} | changed)


def test_tensors_are_sent_to_the_other_floor():
    with pytest.raises(TypeError, match="B is a torch tensor and x is a NumPy array"):
        selective_scan(X, DT, A_, torch.from_numpy(B_), C_)
    with pytest.raises(TypeError, match=r"x is a torch tensor: expected a NumPy array; mha\.nn takes tensors"):
        selective_scan(*map(torch.from_numpy, (X, DT, A_, B_, C_)))


def test_stretches_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match=r"written has shape \(4, 1\): expected \(4, 2\)"):
        prefix_states(np.ones((4, 2)), np.ones((4, 1)))
    with pytest.raises(ValueError, match=r"kept has shape \(4,\)"):
        prefix_states(np.ones(4), np.ones(4))
