"""Attention tile by tile: no row of scores is ever whole, neither forward nor backward.

A tile is a few queries against a few keys; `tile` is (queries, keys), or one number for both. The letters are those of
`dot_product`.
"""

from typing import NamedTuple

import numpy as np

from mha import shapes
from mha.integers import count
from mha.reference.dot_product import mix, repeat_heads
from mha.reference.gradients import Gradients, sum_groups, summed_to


class Running(NamedTuple):
    """What the keys so far amount to for each query: enough to take in more of them, and to finish."""

    top: np.ndarray  # (…, i): the largest score, −inf before the first visible key
    total: np.ndarray  # (…, i): the sum of exp(score − top)
    mixed: np.ndarray  # (…, i, e): the sum of exp(score − top) · value


def start(rows: "tuple[int, ...]", width: int) -> Running:
    """Return the state of rows of queries that have met no key, for values of `width` columns."""
    return Running(np.full(rows, -np.inf), np.zeros(rows), np.zeros((*rows, width)))


def rescaled(state: Running, top: "Float[Array, '*b i']") -> Running:
    """Return the state written with another `top`, at least as large as its own.   Book: {eq}`rescaling`."""
    factor = np.exp(state.top - _finite(top))
    return Running(top, state.total * factor, state.mixed * factor[..., None])


def online_softmax(
    state: Running, scores: "Float[Array, '*b i j']", values: "Float[Array, '*b j e']", *, see=True
) -> Running:
    """Take in one more tile of keys: its scores and its values.   Book: {eq}`online-softmax`.

    `see` says which pairs are visible; their scores and values alone enter the state.
    """
    see = np.broadcast_to(see, scores.shape)
    scores = np.where(see, shapes.float64("scores", scores), -np.inf)
    top = np.maximum(state.top, scores.max(-1, initial=-np.inf))
    old, exponentials = rescaled(state, top), np.exp(scores - _finite(top)[..., None])
    mixed = mix(exponentials, shapes.float64("values", values), see)
    return Running(top, old.total + exponentials.sum(-1), old.mixed + mixed)


def finish(state: Running) -> "tuple[Float[Array, '*b i e'], Float[Array, '*b i']]":
    """Return the output and the log-sum-exp of rows that have met all their keys; 0 and −inf where there was none."""
    with np.errstate(divide="ignore"):  # log 0 = −inf is meant
        lse = _finite(state.top) + np.log(state.total)
    return state.mixed / np.where(state.total == 0, 1.0, state.total)[..., None], lse


def flash_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    *,
    mask=None,
    scale=None,
    q_start=None,
    tile=(16, 16),
) -> "tuple[Float[Array, '*b h i e'], Float[Array, '*b h i']]":
    """Return what `attention` does, and the lse of each row, from one tile of scores at a time.

    Tiles in which no query sees a key are skipped.
    """
    call = shapes.check(q, k, v, mask=mask, scale=scale, q_start=q_start)
    q, k, v = shapes.float64("q", q), repeat_heads(k, call), repeat_heads(v, call)
    lse = np.zeros(call.weights_shape[:-1])
    output = np.zeros((*lse.shape, v.shape[-1]))
    for rows, tiles in _visible_tiles(call, tile):
        state = start(lse[..., rows].shape, v.shape[-1])
        for keys, see in tiles:
            scores = _scores(call, q[..., rows, :], k[..., keys, :])
            state = online_softmax(state, scores, v[..., keys, :], see=see)
        output[..., rows, :], lse[..., rows] = finish(state)
    return output, lse


def flash_backward(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    output: "Float[Array, '*b h i e']",
    lse: "Float[Array, '*b h i']",
    d_output: "Float[Array, '*b h i e']",
    *,
    mask=None,
    scale=None,
    q_start=None,
    tile=(16, 16),
) -> Gradients:
    """Return the gradients of the sum of output · d_output, tile by tile.   Book: {eq}`flash-backward`.

    `output` and `lse` are what `flash_attention` returned for these arguments.
    """
    call = shapes.check(q, k, v, mask=mask, scale=scale, q_start=q_start)
    shapes.check_shape("lse", lse, call.weights_shape[:-1])
    shapes.check_shape("d_output", d_output, output.shape)
    all_q, all_k, all_v = shapes.float64("q", q), repeat_heads(k, call), repeat_heads(v, call)
    delta, lse = (d_output * output).sum(-1, keepdims=True), _finite(lse)[..., None]
    d_q, d_k, d_v = (np.zeros((*call.batch_shape, *x.shape[-3:])) for x in (all_q, all_k, all_v))
    for rows, tiles in _visible_tiles(call, tile):
        q_tile, d_tile = all_q[..., rows, :], d_output[..., rows, :]
        for keys, see in tiles:
            k_tile, v_tile = all_k[..., keys, :], all_v[..., keys, :]
            scores = _scores(call, q_tile, k_tile) - lse[..., rows, :]
            weights = np.exp(np.where(see, scores, -np.inf))
            d_weights = np.einsum("...ie,...je->...ij", d_tile, v_tile)
            d_dots = call.scale * weights * np.where(see, d_weights - delta[..., rows, :], 0.0)
            d_q[..., rows, :] += mix(d_dots, k_tile, see)
            d_k[..., keys, :] += mix(_transposed(d_dots), q_tile, _transposed(see))
            d_v[..., keys, :] += mix(_transposed(weights), d_tile, _transposed(see))
    d_k, d_v = sum_groups(d_k, call), sum_groups(d_v, call)
    d_q, d_k, d_v = (summed_to(x.shape, dx) for x, dx in ((q, d_q), (k, d_k), (v, d_v)))
    return Gradients(d_q, d_k, d_v, bias=None, sinks=None)


def _visible_tiles(call, tile):
    """Return each slice of queries with the slices of keys that it sees something of, and which pairs it sees."""
    see = np.broadcast_to(True if call.mask is None else shapes.visible(call), call.weights_shape)
    rows, keys = tile if isinstance(tile, tuple) and len(tile) == 2 else (tile, tile)
    all_rows, all_keys = _slices(call.n_q, rows), _slices(call.n_k, keys)
    seen = ((rows, [(keys, see[..., rows, keys]) for keys in all_keys]) for rows in all_rows)
    return [(rows, [(keys, see) for keys, see in tiles if see.any()]) for rows, tiles in seen]


def _slices(n, size):
    size = count("tile", size, least=1)
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def _scores(call, q, k):
    with np.errstate(invalid="ignore", over="ignore"):  # a hidden key may hold anything
        return call.scale * np.einsum("...id,...jd->...ij", q, k)


def _finite(x):
    """Return 0 in place of −inf: what may be subtracted from it."""
    return np.where(x == -np.inf, 0.0, x)


def _transposed(x):
    return np.swapaxes(x, -1, -2)
