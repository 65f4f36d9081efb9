"""What all chunked forms share: the call checked and cut, the states between chunks, and the rows joined again."""

import torch
import torch.nn.functional as F

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.formula import alike, wide

__all__ = ["carry", "chunks", "cut", "joined"]

FORGETS_ALL = {torch.float32: -104.0, torch.float64: -746.0}  # e^x is 0: with less a sum would lose the other digits


def cut(q, k, v, state, chunk, **by_token):
    """Return q, k and v in chunks (…, c, s, width), the first state, and what each token has besides, or None.

    All are checked and have at least float32; a logarithm is bounded by one that forgets everything.
    """
    given = {"state": state} | by_token
    checks.tensors(q=q, k=k, v=v, **{name: x for name, x in given.items() if x is not None})
    lead = shapes.check_linear(q, k, v, **given)
    sizes, chunk = shapes.linear_sizes(q, v), count("chunk", chunk, least=1)
    q, k, v = (wide(x) for x in alike(q, k, v))
    state = (q.new_zeros(()) if state is None else state.to(q.dtype)).expand(*lead, *sizes["state"])
    besides = [in_chunks(name, x, sizes[name], chunk, q.dtype) for name, x in by_token.items()]
    return *(chunks(x, chunk) for x in (q, k, v)), state, *besides


def in_chunks(name, x, size, chunk, dtype):
    if x is None:
        return None
    x = x.to(dtype)
    x = x.clamp(min=FORGETS_ALL[dtype]) if name.startswith("log_") else x
    x = x.expand(*x.shape[: -len(size)], *size)
    return chunks(x, chunk) if len(size) == 2 else chunks(x[..., None], chunk)[..., 0]


def carry(state, added, kept=None):
    """Return the states before each chunk (…, c, d, e) and the one after the last."""
    before = []
    for c in range(added.shape[-3]):
        before.append(state)
        state = (state if kept is None else kept[..., c, :, :] * state) + added[..., c, :, :]
    return torch.stack(before, -3), state


def chunks(x, size):
    """Cut rows (…, n, width) into (…, c, s, width), at least one chunk, the last one filled up with zeros."""
    n = x.shape[-2]
    size = max(1, min(size, n))
    number = max(1, -(-n // size))
    return F.pad(x, (0, 0, 0, number * size - n)).unflatten(-2, (number, size))


def joined(output, q, *_):
    """Return the rows of all chunks without those that filled up the last one, in the length and dtype of q."""
    return output.flatten(-3, -2)[..., : q.shape[-2], :].to(q.dtype)
