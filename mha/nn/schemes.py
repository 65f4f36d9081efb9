"""Where queries and keys stand: answered once a call, for the mask and for the position scheme alike."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from mha import masks, shapes
from mha.nn import checks
from mha.nn.modes import readable

__all__ = ["Places", "SchemeHeads", "biased", "core_biased", "places", "turned"]


class Places(NamedTuple):
    """The position of each query and of each key, (n,) or one row per sample, and `q_start` for the mask."""

    queries: torch.Tensor
    keys: torch.Tensor
    q_start: Any


class SchemeHeads(NamedTuple):
    """The heads of a position scheme that a layer reads, where the scheme has more: layers may share a whole one."""

    total: int
    heads: tuple[int, ...]

    def chosen(self, added: "Float[Tensor, '*b whole i j']") -> "Float[Tensor, '*b h i j']":
        """Return what the scheme adds to the scores of these heads."""
        return added if added.ndim < 3 or added.shape[-3] == 1 else added[..., self.heads, :, :]

    def spread(self, x: "Float[Tensor, '*b h n d']") -> "Float[Tensor, '*b whole n d']":
        """Return queries or keys of these heads at their places among all, with zeros for the others."""
        x = x if x.shape[-3] == len(self.heads) else x.repeat_interleave(len(self.heads) // x.shape[-3], -3)
        whole = x.new_zeros(*x.shape[:-3], self.total, *x.shape[-2:])
        return whole.index_copy(-3, torch.tensor(self.heads, device=x.device), x)


def places(mask, q, k, positions=None, context_positions=None, *, same=False):
    """Return the `Places` of the rows of q and k, which are (…, heads, length, width).

    A mask counts key slots from 0, and places the first query among them: at its position minus that of the first
    key. Where positions restart at each document of `segments`, the last query is at the last key.
    Without positions, keys stand at their slots and the last query at the last (valid) key. If the queries
    and the keys are the `same` rows, their positions are too.
    """
    mask = None if mask is None else masks.as_mask(mask)
    batch, n_q, n_k = shapes.broadcast(q.shape[:-3], k.shape[:-3]), q.shape[-2], k.shape[-2]
    given = positions is not None or context_positions is not None
    positions = _checked("positions", positions, q)
    keys = _checked("context_positions", context_positions, k)
    if keys is None:
        keys = positions if same and given else torch.arange(n_k, device=k.device)
    if positions is None:
        start = masks.query_start(mask, n_q, n_k)
        if isinstance(start, np.ndarray | torch.Tensor):  # else one number, symbolic where torch exports
            mask.check(n_q, n_k, math.prod(batch), q.shape[-3])
            start = start if isinstance(start, torch.Tensor) else torch.from_numpy(np.array(start))
            start = start.to(q.device).reshape(*batch, 1)
        first = 0 if context_positions is None else _first("context_positions", keys)
        positions = first + start + torch.arange(n_q, device=q.device)
    if not given or mask is None or not mask.compares_positions() or 0 in (n_q, n_k):
        return Places(positions, keys, None)
    if _restart(positions, keys, mask.breaks()):
        return Places(positions, keys, None)  # the mask hides one document from another, and goes by slot in each
    q_start = (_first("positions", positions) - _first("context_positions", keys))[..., 0]
    if q_start.ndim == 0 and q_start.device.type == "cpu" and readable(q_start):
        return Places(positions, keys, int(q_start))
    return Places(positions, keys, q_start.expand(batch).reshape(-1))


def turned(position, q, k, q_positions, k_positions):
    """Return q and k as a position scheme turns them, if it does."""
    if not hasattr(position, "rotate"):
        return q, k
    q, k = _for_each(q_positions, q), _for_each(k_positions, k)
    if q_positions is k_positions and q.shape[:-3] == k.shape[:-3]:
        return position.rotate(torch.cat((q, k), -3), q_positions).split((q.shape[-3], k.shape[-3]), -3)
    return position.rotate(q, q_positions), position.rotate(k, k_positions)


def _for_each(positions, x):
    """Return x with a sample for each row of positions: one x may stand in several places."""
    if positions.ndim == 1:
        return x
    batch = shapes.broadcast(x.shape[:-3], positions.shape[:-1])
    return x if batch is None else x.expand(*batch, *x.shape[-3:])


def biased(position, bias, q, k, stand, scale, heads=None):
    """Return the bias with what a position scheme adds to the scores of q and k, if it does.

    A scheme may look at positions alone, `bias`, or at what stands there too, `content_bias`; its terms are in units
    of scores, the scale of the layer applied. `heads` are the `SchemeHeads` of q, where the scheme has more.
    """
    terms = [] if bias is None else [bias]
    if hasattr(position, "bias"):
        added = position.bias(stand.queries, stand.keys)
        added = shapes.check_scheme_bias(position, added if heads is None else heads.chosen(added), q)
        terms.append(_like_scores(added, q))
    if hasattr(position, "content_bias"):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        contents = _finite(q), _finite(k)
        contents = contents if heads is None else map(heads.spread, contents)
        added = position.content_bias(*contents, stand.queries, stand.keys, scale)
        terms.append(added if heads is None else heads.chosen(added))
    return sum(terms[1:], terms[0]) if terms else None


def _finite(x):
    """Return x with zeros in rows that hold a NaN or an infinity: q·k spoils who sees one, no weight of a term need."""
    return torch.where(x.isfinite().all(-1, keepdim=True), x, 0.0)


def core_biased(core, position, stand, heads=None):
    """Return a core that adds the terms of a position scheme; of use where it alone sees all keys, behind a cache."""
    if not (hasattr(position, "bias") or hasattr(position, "content_bias")):
        return core

    def attend(q, k, v, *, bias, scale, **options):
        bias = biased(position, bias, q, k, stand, scale, heads)
        return core(q, k, v, bias=bias, scale=scale, **options)

    return attend


def _like_scores(bias, q):
    """Return a bias in the precision of the scores: a scheme without parameters works in float64."""
    return bias.to(torch.promote_types(q.dtype, torch.float32)) if bias.dtype is torch.float64 else bias


def _restart(positions, keys, breaks):
    """Tell whether positions jump, and only where a document begins."""
    if breaks is None or not all(x.device.type == "cpu" and readable(x) for x in (positions, keys)):
        return False
    restarts = False
    for x, begins in zip((positions, keys), breaks, strict=True):
        jumps = (x.diff(dim=-1) != 1)[None].flatten(0, -2)
        begins = torch.as_tensor(begins if isinstance(begins, torch.Tensor) else np.array(begins))
        if begins.shape[-1] != jumps.shape[-1] or bool((jumps & ~begins).any()):
            return False  # what is wrong is said where it is checked
        restarts = restarts or bool(jumps.any())
    return restarts


def _checked(name, positions, x):
    if positions is None:
        return None
    checks.positions(name, positions, (*x.shape[:-3], x.shape[-2]))
    return positions.to(x.device, torch.int64)  # a difference of unsigned integers would wrap around


def _first(name, positions):
    """Return the first position of each row, with the axis of length 1 (0 if there is none)."""
    if positions.device.type == "cpu" and readable(positions):
        checks.consecutive(name, positions)
    return positions[..., :1] if positions.shape[-1] else positions.new_zeros(1)
