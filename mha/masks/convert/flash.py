"""The arguments of flash-attention, which has no mask: causal, a window, and sequences packed end to end."""

from typing import NamedTuple

import numpy as np

from mha.masks.arrays import in_numpy
from mha.masks.base import And
from mha.masks.convert.optional import library
from mha.masks.distances import Causal, Window
from mha.masks.evaluate import query_start
from mha.masks.packing import Segments
from mha.masks.padding import KeyPadding, Lengths

__all__ = ["to_flash"]

UNBOUNDED = -1
PADDED = Lengths, KeyPadding


class Sequences(NamedTuple):
    """How many queries and keys each packed sequence has, and the slots at which they end, counted in its sample."""

    n_q: np.ndarray
    n_k: np.ndarray
    q_ends: np.ndarray
    k_ends: np.ndarray
    samples: np.ndarray


def to_flash(mask, n_q, n_k, q_start=None):
    """Return {"causal": True} or {"window_size": …} and, of packed sequences, their lengths; see `Mask.to_flash`."""
    start = np.reshape(in_numpy(query_start(mask, n_q, n_k, q_start)), -1)
    samples, heads = mask._sizes_from(start)
    mask.check(n_q, n_k, samples, heads)
    terms = mask.terms() if isinstance(mask, And) else [mask]
    bounds = zip(*map(_window, terms), strict=True)
    left, right = (min((x for x in sides if x is not None), default=None) for sides in bounds)
    bounded = left is not None or right is not None
    packed = [_of_segments(term, samples) for term in terms if isinstance(term, Segments)]
    packed += [_of_lengths(x, n_q, n_k, start if bounded else None) for x in terms if isinstance(x, PADDED)]
    if len(packed) > 1:
        raise _refusal(mask, "sequences are packed by one term alone, lengths or segments")
    sequences = packed[0] if packed else None
    if bounded:
        left, right = _pinned(left, right, _shift(start, n_q, n_k, sequences))
    return _bounded(left, right) | ({} if sequences is None else _packed(sequences))


def _window(term):
    """Return how far a term lets a query see, back and ahead: None for any distance."""
    if isinstance(term, Causal):
        return None, 0
    if isinstance(term, Window):
        return term.left, term.right
    if isinstance(term, (*PADDED, Segments)):
        return None, None
    raise _refusal(term, "they know causal, window, lengths and segments, joined by &")


def _of_lengths(term, n_q, n_k, start):
    """Return the sequences of padded samples. Where positions count, queries past the last key are padding too."""
    n = in_numpy(term.valid_lengths())
    if isinstance(term, KeyPadding) and (in_numpy(term.keep).reshape(-1, n_k) != (np.arange(n_k) < n[:, None])).any():
        raise _refusal(term, "keys before or between the valid ones must be cut out of k and v by hand")
    rows = np.full(len(n), n_q) if start is None else np.clip(n - start, 0, n_q)
    return Sequences(rows, n, rows, n, np.arange(len(n)))


def _of_segments(term, samples):
    if term.samples != samples:
        raise _refusal(term, f"there are {samples} samples, and each needs its ids")
    sequences = []
    rows = (in_numpy(ids).reshape(samples, -1) for ids in (term.q_ids, term.k_ids))
    for sample, (q_ids, k_ids) in enumerate(zip(*rows, strict=True)):
        if (np.diff(q_ids) < 0).any() or (np.diff(k_ids) < 0).any():
            raise _refusal(term, "the slots of a sequence must lie together, ids in increasing order")
        ids = np.union1d(q_ids, k_ids)
        counts = [np.searchsorted(x, ids, "right") - np.searchsorted(x, ids, "left") for x in (q_ids, k_ids)]
        sequences.append(Sequences(*counts, *(x.cumsum() for x in counts), np.full(len(ids), sample)))
    return Sequences(*map(np.concatenate, zip(*sequences, strict=True)))


def _shift(start, n_q, n_k, sequences):
    """Return how far before flash-attention's own place the queries stand; it puts the last query at the last key."""
    if sequences is None:
        shifts = n_k - n_q - start
    else:
        first = start[sequences.samples] if len(start) > 1 else start
        shifts = (sequences.k_ends - sequences.q_ends - first)[sequences.n_q * sequences.n_k > 0]
    if len(np.unique(shifts)) > 1:
        raise ValueError(
            f"q_start is {start.tolist()}: flash-attention puts the last query of each sequence at its last key, "
            f"which are {np.unique(shifts).tolist()} positions ahead; one window cannot make up for it"
        )
    return int(shifts[0]) if len(shifts) else 0


def _pinned(left, right, shift):
    """Return the same window, seen from where flash-attention puts the queries."""
    left, right = (None if left is None else left + shift), (None if right is None else right - shift)
    if min(x for x in (left, right) if x is not None) < 0:
        raise ValueError(
            f"q_start is {abs(shift)} {'before' if shift > 0 else 'behind'} the place where flash-attention puts the "
            "queries, the last at the last key, and its windows hold the query's own key: make n_q or n_k fit"
        )
    return left, right


def _bounded(left, right):
    if left is None:
        return {None: {}, 0: {"causal": True}}.get(right, {"window_size": (UNBOUNDED, right)})
    return {"window_size": (left, UNBOUNDED if right is None else right)}


def _packed(sequences):
    torch = library("torch")
    counts = {"q": sequences.n_q, "k": sequences.n_k}
    ends = {f"cu_seqlens_{x}": torch.tensor([0, *n.cumsum()], dtype=torch.int32) for x, n in counts.items()}
    return ends | {f"max_seqlen_{x}": int(n.max(initial=0)) for x, n in counts.items()}


def _refusal(term, reason):
    return ValueError(f"flash-attention's arguments cannot say {term!r}: {reason}")
