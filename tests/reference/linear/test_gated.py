"""Three forms of gated linear attention, and what each must equal."""

import numpy as np
import pytest

from compare import assert_equal
from linear_calls import draw_gated
from mha.reference import (
    chunked_gated_linear_attention,
    gated_linear_attention,
    linear_attention,
    parallel_gated_linear_attention,
)

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
FORMS = gated_linear_attention, parallel_gated_linear_attention, chunked_gated_linear_attention


def assert_same(found, expected):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **CLOSE, label=name)


def along(rows, part):
    return [x[..., part, :] for x in rows]


@pytest.mark.parametrize("with_state", [False, True], ids=["nothing", "state"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_three_forms_are_one(n, with_state):
    rows, state = draw_gated(n)
    state = state if with_state else None
    expected = gated_linear_attention(*rows, state=state)
    assert_same(parallel_gated_linear_attention(*rows, state=state), expected)
    for chunk in (1, 3, 4, 7, 64):
        assert_same(chunked_gated_linear_attention(*rows, state=state, chunk=chunk), expected)


def test_by_hand():
    q, k, v = np.ones((1, 2, 2)), np.array([[[1.0, 2], [3, 4]]]), np.array([[[1.0], [10]]])
    output, state = gated_linear_attention(q, k, v, np.log(np.array([[[1, 1], [0.5, 0.25]]])))
    assert_equal(output, [[[3], [71]]], rtol=1e-15)
    assert_equal(state, [[[30.5], [40.5]]], rtol=1e-15)


def test_one_gate_for_all_channels_is_a_decay():
    (q, k, v, log_gate), state = draw_gated(13)
    same = log_gate[..., :1]
    expected = linear_attention(q, k, v, state=state, log_decay=same[..., 0])
    for form in FORMS:
        assert_same(form(q, k, v, same, state=state), expected)


def paper(q, k, v, log_gate, state):
    """Yang et al. (2024), section 4.1: with b the cumulated gates, (Q ∘ B)(K / B)ᵀ under the causal mask, times V."""
    b = np.cumprod(np.exp(log_gate), -2)
    pairs = np.tril((q * b) @ np.swapaxes(k / b, -1, -2))
    last = b[..., -1:, :]
    after = np.swapaxes(last, -1, -2) * state + np.swapaxes(k / b * last, -1, -2) @ v
    return pairs @ v + q * b @ state, after


def test_quotients_of_cumulated_gates():
    rows, state = draw_gated(13)
    for form in FORMS:
        assert_same(form(*rows, state=state), paper(*rows, state))


@pytest.mark.parametrize("wrong", ["gate late", "gate of values", "gate of queries"])
def test_the_formula_tells_wrong_gates_apart(wrong):
    """The gate of a token fades what was before it, by key channel, and not the pair that it adds."""
    (q, k, v, log_gate), state = draw_gated(13, e=5)
    gate = np.exp(log_gate)
    planted = {
        "gate late": (q, k * gate, v, log_gate),
        "gate of values": (q, k, v, np.log(np.roll(gate, 1, -1))),
        "gate of queries": (q * gate, k, v, log_gate),
    }
    off = np.abs(gated_linear_attention(*planted[wrong], state=state)[0] - paper(q, k, v, log_gate, state)[0])
    assert off.max() > 0.1


def test_a_state_continues_the_sequence():
    rows, state = draw_gated(13)
    expected = gated_linear_attention(*rows, state=state)
    for form in FORMS:
        now, parts = state, []
        for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
            output, now = form(*along(rows, part), state=now)
            parts.append(output)
        assert_same((np.concatenate(parts, -2), now), expected)


@pytest.mark.parametrize("least", [-900.0, -1e30, -np.inf])
def test_what_forgets_all_begins_anew(least):
    """e^(−900) is 0; its inverse, which the quotient of cumulated gates has, would be infinite."""
    rows, _ = draw_gated(13)
    rows[3][..., 5, :] = least
    expected = gated_linear_attention(*along(rows, slice(0, 5))), gated_linear_attention(*along(rows, slice(5, 13)))
    for form in FORMS:
        assert_same(form(*rows), (np.concatenate([output for output, _ in expected], -2), expected[1][1]))


def test_the_future_is_not_seen():
    rows, _ = draw_gated(13)
    changed = [x.copy() for x in rows]
    for x in changed:
        x[..., 6:, :] = np.nan
    for form, chunk in zip(FORMS, ({}, {}, {"chunk": 6}), strict=True):
        if form is not parallel_gated_linear_attention:  # one product holds all tokens
            assert_equal(form(*changed, **chunk)[0][..., :6, :], form(*rows, **chunk)[0][..., :6, :])


def test_padding_without_a_key_or_a_gate_leaves_no_trace():
    rows, state = draw_gated(11)
    padded = [np.concatenate([x, np.zeros_like(x[..., :2, :])], -2) for x in rows]
    padded[0][..., 11:, :], padded[2][..., 11:, :] = 5.0, 7.0
    expected = gated_linear_attention(*rows, state=state)
    for form in FORMS:
        output, last = form(*padded, state=state)
        assert_same((output[..., :11, :], last), expected)


MISUSES = {
    "axes": (np.zeros((3, 13)), r"log_gate has shape \(3, 13\): expected \(…, heads, length, key width\)"),
    "width": (np.zeros((3, 13, 4)), r"log_gate has shape \(3, 13, 4\): expected \(…, heads, 13, 5\), or 1 for all"),
    "length": (np.zeros((3, 12, 5)), r"log_gate has shape \(3, 12, 5\): expected \(…, heads, 13, 5\), or 1 for all"),
    "heads": (np.zeros((2, 13, 5)), r"the axes before the length do not broadcast: .* log_gate \(2,\)"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misfits_are_named(misuse):
    (q, k, v, _), _ = draw_gated(13)
    log_gate, words = MISUSES[misuse]
    for form in FORMS:
        with pytest.raises(ValueError, match=words):
            form(q, k, v, log_gate)


def test_a_chunk_has_a_token():
    rows, _ = draw_gated(3)
    with pytest.raises(ValueError, match="chunk is 0: expected at least 1"):
        chunked_gated_linear_attention(*rows, chunk=0)
