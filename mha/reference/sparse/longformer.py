"""Longformer's attention: most tokens look around, a few look everywhere and are seen from everywhere."""

import numpy as np

from mha import masks, shapes
from mha.reference.dot_product import attention


def longformer_attention(
    q: "Float[Array, '*b h i d']",
    k: "Float[Array, '*b h j d']",
    v: "Float[Array, '*b h j e']",
    q_global: "Float[Array, '*b h i d']",
    k_global: "Float[Array, '*b h j d']",
    v_global: "Float[Array, '*b h j e']",
    is_global: "Bool[Array, '... j']",
    *,
    local,
    mask=None,
    scale=None,
    q_start=None,
) -> "Float[Array, '*b h i e']":
    """Let global tokens attend to all keys, the others to their `local` mask and to the global keys (Beltagy et al.,
    2020).   Book: {eq}`longformer`.

    The two kinds of query have projections of their own: q_global meets k_global and v_global. `is_global` tells of
    each token, by slot, whether it is global: (j,) or one row per sample. `mask` restricts both kinds, as padding and
    `causal` do. The queries are the tokens from slot `q_start` on, by default the last ones.
    """
    n_q, n_k = np.shape(q)[-2], np.shape(k)[-2]
    shapes.check_is_global(is_global, np.shape(k)[:-3], n_k)
    shapes.check_global(q, k, v, q_global, k_global, v_global)
    first = shapes.check_rows(n_q, n_k, q_start)
    options = {"scale": scale, "q_start": first}
    see = local | masks.dense(is_global.reshape(int(np.prod(is_global.shape[:-1])), 1, 1, n_k))
    around = attention(q, k, v, mask=see if mask is None else see & masks.as_mask(mask), **options)
    everywhere = attention(q_global, k_global, v_global, mask=mask, **options)
    return np.where(is_global[..., None, first : first + n_q, None], everywhere, around)
