"""What a mask is made of, for forms of attention that know only two rules and refuse all others by name."""

from mha.masks.base import And
from mha.masks.distances import Causal
from mha.masks.padding import Lengths

__all__ = ["causal_and_lengths"]


def causal_and_lengths(mask, form):
    """Return whether a mask is causal, and the lengths that it sets (None for none); raise if it says anything else."""
    terms = [] if mask is None else mask.terms() if isinstance(mask, And) else [mask]
    for term in terms:
        if not isinstance(term, (Causal, Lengths)):
            raise ValueError(
                f"mask holds {term!r}: {form} supports masks.causal, masks.lengths(n) with the padding behind, "
                "and both joined by &"
            )
    return any(isinstance(term, Causal) for term in terms), None if mask is None else mask.valid_lengths()
