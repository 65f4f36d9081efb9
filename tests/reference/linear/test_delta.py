"""Three forms of the delta rule, and what each must equal; with a decay, the gated delta rule."""

import numpy as np
import pytest
import torch
from transformers.models.qwen3_next.modeling_qwen3_next import (
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

from compare import assert_equal
from linear_calls import OPTIONS, draw_delta
from mha.reference import chunked_delta_rule, delta_rule, linear_attention, parallel_delta_rule

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
FORMS = delta_rule, parallel_delta_rule, chunked_delta_rule


def assert_same(found, expected, close=CLOSE):
    for name, one, two in zip(("output", "state"), found, expected, strict=True):
        assert_equal(one, two, **close, label=name)


def along(rows, part):
    return [x[..., part, :] if x.ndim == 4 else x[..., part] for x in rows]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_three_forms_are_one(n, name):
    rows, options = draw_delta(n)
    options = options[name]
    expected = delta_rule(*rows, **options)
    assert_same(parallel_delta_rule(*rows, **options), expected)
    for chunk in (1, 3, 4, 7, 64):
        assert_same(chunked_delta_rule(*rows, **options, chunk=chunk), expected)


def test_by_hand():
    """The second token replaces half of what the first has stored under the same key; the third adds under another."""
    k = np.array([[[1.0, 0], [1, 0], [0, 1]]])
    v, beta = np.array([[[8.0], [2], [3]]]), np.array([[1, 0.5, 1]])
    output, state = delta_rule(k, k, v, beta)
    assert_equal(output, [[[8], [5], [3]]])
    assert_equal(state, [[[5], [3]]])
    _, state = delta_rule(k, k, v, beta, log_decay=np.log(np.array([[1, 0.5, 1]])))
    assert_equal(state, [[[3], [3]]])


def test_householder_products_of_the_paper():
    """Yang et al. (2024b), equation 5: Sₜ is the sum of βᵢ vᵢ kᵢᵀ, each through all later I − βⱼ kⱼ kⱼᵀ and decays."""
    (q, k, v, beta), options = draw_delta(7, batch=(), num_heads=1)
    gate, state = np.exp(options["decay"]["log_decay"][0]), options["state"]["state"][0]
    steps = [gate[t] * (np.eye(5) - beta[0, t] * np.outer(k[0, t], k[0, t])) for t in range(7)]
    outputs = []
    for t in range(7):
        total = np.linalg.multi_dot([*steps[t::-1], state])
        for i in range(t + 1):
            through = np.eye(5)
            for j in range(i + 1, t + 1):
                through = steps[j] @ through
            total = total + through @ (beta[0, i] * np.outer(k[0, i], v[0, i]))
        outputs.append(q[0, t] @ total)
    for form in FORMS:
        found = form(q, k, v, beta, state=state[None], log_decay=np.log(gate)[None])
        assert_same(found, (np.stack(outputs)[None], total[None]))


ORACLES = {
    "recurrent": torch_recurrent_gated_delta_rule,
    "chunked": lambda *x, **options: torch_chunk_gated_delta_rule(*x, **options, chunk_size=4),
}


@pytest.mark.parametrize("oracle", ORACLES)
def test_equals_qwen3_next(oracle):
    """Float32 of another library, whose queries are scaled by d^−½ and whose axes are (batch, length, heads, width)."""
    (q, k, v, beta), options = draw_delta(13)
    state, log_decay = options["both"].values()
    theirs = [torch.from_numpy(np.swapaxes(x, 1, 2)).float() for x in (q, k, v, log_decay, beta)]
    out, last = ORACLES[oracle](*theirs, initial_state=torch.from_numpy(state).float(), output_final_state=True)
    expected = np.swapaxes(out.numpy(), 1, 2) * 5**0.5, last.numpy()
    for form in FORMS:
        assert_same(form(q, k, v, beta, **options["both"]), expected, {"atol": 3e-6})
    for name, wrong in mistakes(q, k, v, beta, **options["both"]).items():
        assert np.abs(wrong - expected[0]).max() > 0.1, name


def mistakes(q, k, v, beta, state, log_decay):
    """Return what wrong rules give: no correction, a decay after the correction, a share of the value alone."""
    rows, late = {"state": state, "log_decay": log_decay}, np.exp(log_decay)
    before, after = [], state
    for t in range(q.shape[-2]):
        one = slice(t, t + 1)
        output, after = delta_rule(q[..., one, :], k[..., one, :], v[..., one, :], beta[..., one], state=after)
        after = late[..., t, None, None] * after
        before.append(output)
    return {
        "adds": linear_attention(q, k, beta[..., None] * v, **rows)[0],
        "decay late": np.concatenate(before, -2),
        "share of the value": delta_rule(q, k, beta[..., None] * v, np.ones_like(beta), **rows)[0],
    }


def test_orthogonal_keys_are_not_disturbed():
    """Where no key meets another, there is nothing to correct: linear attention with values βv."""
    (q, _, v, beta), _ = draw_delta(5)
    k = np.broadcast_to(np.eye(5), q.shape)
    for form in FORMS:
        assert_same(form(q, k, v, beta), linear_attention(q, k, beta[..., None] * v))


def test_the_last_value_of_a_key_is_found_again():
    (_, k, v, beta), options = draw_delta(13)
    for form in FORMS:
        output, _ = form(k, k, v, np.ones_like(beta), **options["both"])
        assert_equal(output, v, **CLOSE)


def test_a_share_of_nothing_leaves_the_state():
    rows, options = draw_delta(7)
    state = options["state"]["state"]
    for form in FORMS:
        assert_equal(form(*rows[:3], np.zeros((3, 1)), state=state)[1], state, **CLOSE)


def test_a_state_continues_the_sequence():
    rows, options = draw_delta(13)
    state, log_decay = options["both"].values()
    expected = delta_rule(*rows, state=state, log_decay=log_decay)
    for form in FORMS:
        now, parts = state, []
        for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
            output, now = form(*along(rows, part), state=now, log_decay=log_decay[..., part])
            parts.append(output)
        assert_same((np.concatenate(parts, -2), now), expected)


@pytest.mark.parametrize("least", [-900.0, -1e30, -np.inf])
def test_documents_in_one_row_are_documents_by_themselves(least):
    rows, options = draw_delta(13)
    log_decay = options["decay"]["log_decay"]
    log_decay[..., 5] = least
    parts = slice(0, 5), slice(5, 13)
    alone = [delta_rule(*along(rows, part), log_decay=log_decay[..., part]) for part in parts]
    for form in FORMS:
        assert_same(form(*rows, log_decay=log_decay), (np.concatenate([x for x, _ in alone], -2), alone[-1][1]))


def test_the_future_is_not_seen():
    rows, _ = draw_delta(13)
    changed = [x.copy() for x in rows]
    for x in changed:
        along([x], slice(6, 13))[0][...] = np.nan
    for form, chunk in ((delta_rule, {}), (chunked_delta_rule, {"chunk": 6})):
        assert_equal(form(*changed, **chunk)[0][..., :6, :], form(*rows, **chunk)[0][..., :6, :])


MISUSES = {
    "axes": ({"beta": np.zeros(13)}, ValueError, r"beta has shape \(13,\): expected \(…, heads, length\)"),
    "length": ({"beta": np.zeros((3, 12))}, ValueError, r"beta has shape \(3, 12\): expected \(…, heads, 13\), or 1"),
    "number": ({"beta": 0.5}, TypeError, "beta is a float: expected a NumPy array"),
    "decay": ({"log_decay": np.zeros((3, 4))}, ValueError, r"log_decay has shape \(3, 4\): expected .* 13\), or 1"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misfits_are_named(misuse):
    rows, _ = draw_delta(13)
    given, kind, words = MISUSES[misuse]
    for form in FORMS:
        with pytest.raises(kind, match=words):
            form(**dict(zip(("q", "k", "v", "beta"), rows, strict=True)) | given)


def test_a_chunk_has_a_token():
    rows, _ = draw_delta(3)
    with pytest.raises(ValueError, match="chunk is 0: expected at least 1"):
        chunked_delta_rule(*rows, chunk=0)
