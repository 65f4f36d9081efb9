"""Top-k attention: each query keeps the keys of its highest scores (Zhao et al., 2019; Gupta et al., 2021)."""

import numpy as np

from mha import shapes
from mha.integers import count
from mha.reference.dot_product import attention, masked_scores


def top_keys(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    *,
    num_keys,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Bool[Array, '*b h i j']":
    """Tell which keys each query keeps: the `num_keys` visible ones of the highest scores, all where it sees fewer.

    Of equal scores the earlier key is kept, so that no query ever has more than `num_keys`.
    """
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, q_start=q_start)
    return highest(masked_scores(call, q, k, bias), num_keys)


def top_k_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b g j d']",
    v: "Float[Array, '*b g j e']",
    *,
    num_keys,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Array, '*b h i e']":
    """Attend to the `num_keys` keys of the highest scores; the softmax runs over them alone.

    The choice costs all n² scores. What it saves is behind them: a softmax and a mean of `num_keys` terms.
    """
    options = {"bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    call = shapes.check(q, k, v, mask=mask, sinks=sinks, dropout=dropout, **options)
    kept = highest(masked_scores(call, q, k, bias), num_keys)
    kept = np.broadcast_to(kept, call.weights_shape).reshape(call.batch, *call.weights_shape[-3:])
    return attention(q, k, v, mask=kept, sinks=sinks, dropout=dropout, **options)


def highest(scores, number):
    """Tell which entries of each row are among its `number` highest; −inf is never, the earlier of equals is first."""
    first = np.where(np.isnan(scores), -np.inf, -scores)  # a NaN that a query sees is kept, to be seen in its output
    order = np.argsort(first, axis=-1, kind="stable")[..., : count("num_keys", number, least=1)]
    kept = np.zeros(scores.shape, bool)
    np.put_along_axis(kept, order, True, axis=-1)
    return kept & (scores != -np.inf)
