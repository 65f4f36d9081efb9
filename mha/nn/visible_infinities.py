"""A NaN or an infinity in a key or value acts on the rows that see it as arithmetic says, and on no other row.

The formulas of `mha.reference` on whole tensors: a visible key of score −inf weighs exactly 0; a score of +inf or NaN
makes the row NaN; an infinite value gives its column ±inf, or NaN where its weight is 0. What does so is added to the
output or put in the place of a score without a graph, so the other rows' gradients stay what they were.
"""

import math

import torch

from mha.nn import formula

__all__ = ["mix", "scores"]


def scores(q, k, see, **options):
    """Return the scores with a key's NaN or infinity at work, and what poisons the rows that it makes NaN."""
    with torch.no_grad():
        bad = ~k.isfinite().all(-1)
        raw = formula.scores(q, k, see, **options)
        lost = ~(raw < math.inf)
        poison = torch.where(lost.any(-1, keepdim=True), math.nan, 0.0).to(q.dtype)
        bad_pair = bad.repeat_interleave(q.shape[-3] // k.shape[-3], -2)[..., None, :] & ~lost
    s = formula.scores(q, torch.where(bad[..., None], 0.0, k), see, **options)
    return torch.where(bad_pair, raw, s), poison


def mix(p, v, s):
    """Average the values that a row sees: those with a score above −inf."""
    with torch.no_grad():
        p_, see = p.detach(), s.detach() != -math.inf

        def meets(pairs, entries):
            return formula.mix(pairs.to(p.dtype), entries.to(v.dtype)) > 0

        terms = {
            math.inf: meets(p_ > 0, v == math.inf),
            -math.inf: meets(p_ > 0, v == -math.inf),
            math.nan: meets(see, v.isnan()) | meets(see & ~(p_ > 0), v.isinf()),
        }
        poison = sum(torch.where(met, value, 0.0) for value, met in terms.items())
    return formula.mix(p, torch.where(v.isfinite(), v, 0.0)) + poison
