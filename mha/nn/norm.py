"""QK-norm: queries and keys brought to one size before they meet, each by a norm of its own (Henry et al. 2020)."""

from dataclasses import dataclass
from typing import Any

from torch import nn

__all__ = ["AfterPosition", "normed", "pair"]


@dataclass(frozen=True)
class AfterPosition:
    """The norm of `MultiHeadAttention(qk_norm=...)`, acting after the rotation instead of before it.

    The two orders differ in the learned gain only: a rotation keeps the length of a vector.
    """

    norm: Any

    def __call__(self, d_head, **options):
        return self.norm(d_head, **options)


def pair(make, d_head, device=None, dtype=None):
    """Return the norm of the queries and the norm of the keys that `make` gives, or (None, None) without it."""
    if make is None:
        return None, None
    if not callable(make) or isinstance(make, nn.Module):
        raise TypeError(f"qk_norm is {make!r}: expected what makes a norm, such as torch.nn.RMSNorm, not a norm")
    made = tuple(make(d_head, device=device, dtype=dtype) for _ in range(2))
    for one in made:
        if not isinstance(one, nn.Module):
            raise TypeError(
                f"qk_norm made a {type(one).__name__}: expected a torch.nn.Module, such as torch.nn.RMSNorm"
            )
    return made


def normed(norm, x):
    """Return x normalised in the precision of the norm itself, for autocast hands over less."""
    own = next(norm.parameters(), x).dtype
    return norm(x.to(own)).to(x.dtype)
