"""What an approximation of attention can be asked for, and what it refuses by name. It imports no torch.

An approximation is a core, called as `attention` is. `supports` says in words which calls it serves: "causal" masks,
"padding" (masks of `lengths`, of `key_padding`, or that say the same of all queries), and "cross", as many keys as one
likes whatever the number of queries. No approximation has the scores themselves: what acts on them is refused.
"""

from typing import NamedTuple

from mha import masks, shapes

__all__ = ["Asked", "ask"]

SUPPORTS = "causal", "padding", "cross"
REFUSED = "bias", "softcap", "sinks", "dropout"


class Asked(NamedTuple):
    """A call that an approximation serves; the mask of `call` hides keys from all queries alike."""

    call: shapes.Call
    causal: bool

    def of_keys(self):
        """Return the call of one query that sees what the mask shows of the keys."""
        return self.call._replace(n_q=1, q_start=0)

    def first_keys(self):
        """Return the slot of the first valid key of each sample; None where that is 0."""
        padding = [term for term in _terms(self.call.mask) if isinstance(term, masks.KeyPadding)]
        return padding[0].first_keys() if padding else None


def ask(core, q, k, v, *, mask=None, scale=None, q_start=None, **others):
    """Raise unless `core` serves this call of `attention`; return what it is asked."""
    name = type(core).__name__
    for option, value in others.items():
        if option not in REFUSED:
            raise TypeError(f"{name} has no option {option}")
        if value is not None:
            raise ValueError(f"{option} is given: expected None, for {name} never forms the scores; attention does")
    call = shapes.check(q, k, v, mask=mask, scale=scale, q_start=q_start)
    terms = list(_terms(call.mask))
    causal = any(isinstance(term, masks.Causal) for term in terms)
    padding = [term for term in terms if not isinstance(term, masks.Causal)]
    for term in padding:
        if not _hides_keys(term):
            raise ValueError(
                f"mask is {call.mask!r}: {name} supports {_words(core)}, joined by &, and not {term!r}; attention does"
            )
    wanted = {"causal": causal, "padding": bool(padding), "cross": call.n_q != call.n_k}
    for word in SUPPORTS:
        if wanted[word] and word not in core.supports:
            what = f"{call.n_q} queries on {call.n_k} keys (cross)" if word == "cross" else f"a {word} mask"
            raise ValueError(f"{name} does not support {what}: it supports {_words(core)}; attention does")
    hiding = padding[0] if padding else None
    for term in padding[1:]:
        hiding = hiding & term
    return Asked(call._replace(mask=hiding), causal)


def _terms(mask):
    if isinstance(mask, masks.And):
        yield from (term for part in mask.parts() for term in _terms(part))
    elif mask is not None:
        yield mask


def _hides_keys(term):
    """Tell whether a mask says the same of all queries and heads."""
    if isinstance(term, masks.Dense):
        return tuple(term.table.shape[1:3]) == (1, 1)
    return isinstance(term, (masks.Lengths, masks.KeyPadding))


def _words(core):
    return ", ".join(word for word in SUPPORTS if word in core.supports) or "no masks"
