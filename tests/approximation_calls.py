"""Calls of the approximations of attention: inputs, and the masks that some of them serve."""

import numpy as np
import torch

from mha import masks

D, E = 5, 7
LENGTHS = [(13, 13), (3, 13), (13, 3), (1, 1), (0, 5), (5, 0)]
MASKS = ["none", "causal", "lengths", "padding", "causal padding", "array"]


def draw(n_q, n_k=None, *, heads=4, groups=2, seed=0):
    """Return q, k, v of two samples."""
    n_k = n_q if n_k is None else n_k
    rng = np.random.default_rng((seed, n_q, n_k))
    shapes = (heads, n_q, D), (groups, n_k, D), (groups, n_k, E)
    return [rng.standard_normal((2, *shape)) for shape in shapes]


def shared(n, **sizes):
    """Return q, q, v: queries that are the keys."""
    q, _, v = draw(n, heads=2, **sizes)
    return q, q, v


def mask(name, n_k):
    """Return the options of a call with this mask; nothing for none."""
    keep = np.random.default_rng(n_k).random((2, n_k)) > 0.3
    found = {
        "causal": lambda: masks.causal,
        "lengths": lambda: masks.lengths([n_k, n_k // 2]),
        "padding": lambda: masks.key_padding(keep),
        "causal padding": lambda: masks.causal & masks.key_padding(keep) & masks.lengths([n_k, n_k // 2]),
        "array": lambda: keep[:, None, None],
    }
    return {} if name == "none" else {"mask": found[name]()}


def serves(core, name, n_q, n_k):
    """Tell whether a core declares that it serves these sizes with this mask."""
    wanted = {"causal": "causal" in name, "padding": name not in ("none", "causal"), "cross": n_q != n_k}
    return all(word in core.supports for word, needed in wanted.items() if needed)


def tensors(*arrays):
    return [torch.from_numpy(x) for x in arrays]


def left_and_right(rows, extra):
    """Return rows with rows of NaN in front of them and behind them, and the padding masks that say so."""
    n = rows[0].shape[-2]
    for first in (extra, 0):
        wide = [np.full((*x.shape[:-2], n + extra, x.shape[-1]), np.nan) for x in rows]
        for one, x in zip(wide, rows, strict=True):
            one[..., first : first + n, :] = x
        slots = np.arange(n + extra)
        keep = np.broadcast_to((slots >= first) & (slots < first + n), (2, n + extra))
        yield wide, masks.key_padding(keep), slice(first, first + n)
