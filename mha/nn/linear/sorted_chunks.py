"""Tokens in the order of each round, cut into chunks: what meets side by side, and the way back."""

import torch
import torch.nn.functional as F

__all__ = ["SortedChunks", "after_previous"]


class SortedChunks:
    """The order (…, rounds, n) of tokens, in chunks of a size; the last chunk is filled up."""

    def __init__(self, order, size):
        n = order.shape[-1]
        self.order, self.size, self.number = order, size, max(1, -(-n // size))
        self.filling = self.number * size - n

    def numbers(self, x, fill):
        """Return one number a token and round, (…, rounds, n), as (…, rounds, chunks, size)."""
        in_order = torch.take_along_dim(x, self.order, -1)
        return F.pad(in_order, (0, self.filling), value=fill).unflatten(-1, (self.number, self.size))

    def rows(self, x):
        """Return rows (…, n, width) as (…, rounds, chunks, size, width)."""
        in_order = torch.take_along_dim(x.unsqueeze(-3), self.order[..., None], -2)
        return F.pad(in_order, (0, 0, 0, self.filling)).unflatten(-2, (self.number, self.size))

    def undone(self, x):
        """Return rows (…, rounds, chunks, size, width) in the order of the tokens: (…, rounds, n, width)."""
        n, back = self.order.shape[-1], self.order.argsort(-1)
        return torch.take_along_dim(x.flatten(-3, -2)[..., :n, :], back[..., None], -2)


def after_previous(x, fill=0.0):
    """Return each chunk of rows (…, chunks, size, width) behind the chunk before it; before the first is `fill`."""
    before = F.pad(x[..., :-1, :, :], (0, 0, 0, 0, 1, 0), value=fill)
    return torch.cat([before, x], -2)
