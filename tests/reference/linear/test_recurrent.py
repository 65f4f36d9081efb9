"""Three forms of linear attention, and what each must equal."""

import numpy as np
import pytest

from compare import assert_equal
from linear_calls import OPTIONS, bounds, draw
from mha import masks, reference
from mha.reference import (
    chunked_linear_attention,
    linear_attention,
    linear_average,
    parallel_linear_attention,
    retention_log_decay,
)
from rounding import EPS


def assert_close(found, expected, close):
    for name, one, two, atol in zip(("output", "state"), found, expected, close, strict=True):
        assert one.shape == two.shape
        assert_equal(np.abs(one - two) <= atol, np.ones(one.shape, bool), label=name)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 13])
def test_three_forms_are_one(n, name):
    rows, options = draw(n)
    options = options[name]
    expected, close = linear_attention(*rows, **options), bounds(*rows, **options)
    assert_close(parallel_linear_attention(*rows, **options), expected, close)
    for chunk in (1, 3, 4, 7, 64):
        assert_close(chunked_linear_attention(*rows, **options, chunk=chunk), expected, close)


def test_by_hand():
    q, k, v = np.array([[[1.0], [2], [3]]]), np.array([[[1.0], [1], [2]]]), np.array([[[5.0], [7], [1]]])
    output, state = linear_attention(q, k, v)
    assert_equal(output, [[[5], [24], [42]]])
    assert_equal(state, [[[14]]])
    output, state = linear_attention(q, k, v, state=np.array([[[8.0]]]), log_decay=np.log(np.full((1, 3), 0.5)))
    assert_equal(output, [[[9], [23], [23.25]]], rtol=8 * EPS)
    assert_equal(state, [[[7.75]]], rtol=8 * EPS)


def retention(q, k, v, gamma):
    """Sun et al. (2023), equation 5: (Q Kᵀ ⊙ D) V with D_nm = γⁿ⁻ᵐ."""
    n = q.shape[-2]
    apart = np.arange(n)[:, None] - np.arange(n)
    kept = np.where(apart >= 0, gamma[:, None, None] ** np.maximum(apart, 0), 0.0)
    return (q @ np.swapaxes(k, -1, -2) * kept) @ v


@pytest.mark.parametrize("form", [linear_attention, parallel_linear_attention, chunked_linear_attention])
def test_retention_of_the_paper(form):
    (q, k, v), _ = draw(11)
    gammas = np.array([0.9, 0.6, 1.0]), 1 - 2.0 ** (-5 - np.arange(3))
    for gamma, log_decay in zip(gammas, (np.log(gammas[0])[:, None], retention_log_decay(3)), strict=True):
        output, _ = form(q, k, v, log_decay=log_decay)
        atol, _ = bounds(q, k, v, log_decay=log_decay)
        assert (np.abs(output - retention(q, k, v, gamma)) <= atol).all()
        wrong, _ = form(q, k, v, log_decay=log_decay[::-1])  # the heads the other way round
        assert np.abs(wrong - retention(q, k, v, gamma)).max() > 0.1


def test_decays_of_retention():
    assert_equal(np.exp(retention_log_decay(3)), [[31 / 32], [63 / 64], [127 / 128]], rtol=4 * EPS)
    assert np.diff(retention_log_decay(40), axis=0).min() > 0, "no two heads of the last alike, by rounding"
    with pytest.raises(ValueError, match="num_heads is 0: expected at least 1"):
        retention_log_decay(0)


def test_chunks_of_the_gated_paper():
    """Yang et al. (2024), section 3.1 and 4.2, with one gate a token: Λ, Γ and γ are quotients of cumulated gates."""
    (q, k, v), options = draw(12, batch=())
    gate, size, state, outputs = np.exp(options["decay"]["log_decay"]), 4, np.zeros((3, 5, 7)), []
    for start in range(0, 12, size):
        part = slice(start, start + size)
        b = np.cumprod(gate[:, part], -1)
        inside = np.tril(q[:, part] @ np.swapaxes(k[:, part], -1, -2) * (b[:, :, None] / b[:, None, :]))
        outputs.append(inside @ v[:, part] + b[..., None] * q[:, part] @ state)
        late = (b[:, -1:] / b)[..., None] * k[:, part]
        state = b[:, -1, None, None] * state + np.swapaxes(late, -1, -2) @ v[:, part]
    close = bounds(q, k, v, **options["decay"])
    assert_close(linear_attention(q, k, v, **options["decay"]), (np.concatenate(outputs, -2), state), close)


def test_a_state_continues_the_sequence():
    rows, options = draw(13)
    expected = linear_attention(*rows, **options["both"])
    log_decay, state, parts = options["both"]["log_decay"], options["both"]["state"], []
    for part in (slice(0, 4), slice(4, 4), slice(4, 5), slice(5, 13)):
        output, state = linear_attention(*(x[..., part, :] for x in rows), state=state, log_decay=log_decay[..., part])
        parts.append(output)
    assert_equal(np.concatenate(parts, -2), expected[0])
    assert_equal(state, expected[1])


@pytest.mark.parametrize("least", [-np.inf, -1e30])
def test_documents_in_one_row_are_documents_by_themselves(least):
    """Ahead of a document nothing is left, and what it says of itself keeps its digits."""
    rows, options = draw(13)
    log_decay = options["decay"]["log_decay"]
    log_decay[..., [4, 5, 9]] = least
    parts = [slice(0, 4), slice(4, 5), slice(5, 9), slice(9, 13)]
    alone = [linear_attention(*(x[..., part, :] for x in rows), log_decay=log_decay[..., part]) for part in parts]
    expected = np.concatenate([output for output, _ in alone], -2), alone[-1][1]
    close = bounds(*rows, log_decay=log_decay)
    for form in (linear_attention, parallel_linear_attention, chunked_linear_attention):
        assert_close(form(*rows, log_decay=log_decay), expected, close)


def test_the_future_is_not_seen():
    rows, options = draw(13)
    changed = [x.copy() for x in rows]
    for x in changed:
        x[..., 6:, :] = np.nan
    for form in (linear_attention, chunked_linear_attention):
        chunk = {"chunk": 4} if form is chunked_linear_attention else {}
        before, after = (form(*given, **options["both"], **chunk)[0][..., :4, :] for given in (rows, changed))
        assert_equal(after, before)


def test_the_average_is_attention_with_these_weights():
    """Causal attention whose score is log φ(q)·φ(k) has weights in proportion to φ(q)·φ(k)."""
    (q, k, v), _ = draw(11)
    q, k = np.exp(q / 4), np.exp(k / 4)
    bias = np.log(q @ np.swapaxes(k, -1, -2))
    nothing = np.zeros((*q.shape[:-1], 1))
    expected = reference.attention(nothing, nothing, v, mask=masks.causal, bias=bias)
    atol = 4 * (11 + 5 + 8) * EPS * np.abs(v).max()  # weights of up to 11 terms of 5 products, through log and exp
    assert_equal(linear_average(q, k, v)[0], expected, atol=atol)


def test_an_average_of_nothing_is_zero():
    (q, k, v), _ = draw(5)
    k[..., :2, :] = 0
    output, state = linear_average(np.abs(q), np.abs(k), v)
    assert_equal(output[..., :2, :], np.zeros((2, 3, 2, 7)))
    assert_equal(output[..., 2, :], v[..., 2, :], rtol=8 * EPS)
    assert_equal(state[..., -1], np.abs(k).sum(-2), rtol=8 * EPS)


def test_leading_axes_broadcast():
    (q, k, v), options = draw(5)
    shared = q[:1, :1], k[:, :1], v[0]
    whole = [np.broadcast_to(x, (2, 3, *x.shape[-2:])) for x in shared]
    state, by_head = options["state"]["state"][:1], options["decay of heads"]["log_decay"]
    expected = linear_attention(*whole, state=np.broadcast_to(state, (2, 3, 5, 7)), log_decay=by_head)
    for found, one in zip(linear_attention(*shared, state=state, log_decay=by_head), expected, strict=True):
        assert_equal(found, one)


ROWS, _ = draw(5)
MISUSES = {
    "rank": ({"q": ROWS[0][0, 0]}, ValueError, r"q has shape \(5, 5\): expected \(…, heads, length, width\)"),
    "integers": ({"k": ROWS[1].astype(int)}, TypeError, "k has dtype int64"),
    "width": ({"k": ROWS[1][..., :3]}, ValueError, "k has width 3 and q has width 5"),
    "length": ({"v": ROWS[2][..., :3, :]}, ValueError, "v has length 3 and q has length 5: every token has all three"),
    "heads": ({"k": ROWS[1][:, :2]}, ValueError, r"do not broadcast: q \(2, 3\), k \(2, 2\), v \(2, 3\)"),
    "axes of the state": (
        {"state": np.zeros((5, 7))},
        ValueError,
        r"state has shape \(5, 7\): expected \(…, heads, key width, value width\)",
    ),
    "state": ({"state": np.zeros((2, 3, 7, 5))}, ValueError, r"state has shape .*expected \(…, heads, 5, 7\)"),
    "decay": ({"log_decay": np.zeros((2, 3, 4))}, ValueError, r"log_decay has shape .*expected \(…, heads, 5\), or 1"),
    "number": ({"log_decay": -0.5}, TypeError, "log_decay is a float: expected a NumPy array"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misfits_are_named(misuse):
    given, kind, words = MISUSES[misuse]
    with pytest.raises(kind, match=words):
        linear_attention(**dict(zip("qkv", ROWS, strict=True)) | given)


def test_a_chunk_has_a_token():
    with pytest.raises(ValueError, match="chunk is 0: expected at least 1"):
        chunked_linear_attention(*ROWS, chunk=0)
