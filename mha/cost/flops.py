"""How many floating-point operations a layer takes, two per multiply-add. Softmax, biases and masks are not counted."""

from mha.cost.parameters import latent_weights
from mha.cost.sizes import counts, visible_pairs, widths
from mha.integers import count


def attention_flops(n, d_model, num_heads, *, n_k=None, cached=0, num_kv_heads=None, d_head=None, pairs=None):
    """Count the operations of one sequence.   Book: {eq}`attention-flops`.

    `n_k` is the length of the context, n for self-attention. `cached` positions before it have keys and values
    already, which need no projection: a step of decoding has n = 1. `pairs` is the number of visible (query, key)
    pairs of one head, all n · (cached + n_k) unless a mask skips some: `mask.pairs(n, cached + n_k)`.
    """
    d_model, d_q, d_kv = widths(d_model, num_heads, num_kv_heads, d_head)
    n, cached = count("n", n), count("cached", cached)
    n_k = n if n_k is None else count("n_k", n_k)
    projections = 2 * n * d_model * 2 * d_q + 2 * n_k * d_model * 2 * d_kv
    return projections + core_flops(visible_pairs(pairs, n, cached + n_k), 1, d_q)


def core_flops(pairs, num_heads, d_head, *, d_value=None):
    """Count the operations of scores and mix alone: 2 · d_head and 2 · d_value for each visible pair of each head."""
    d_value = d_head if d_value is None else d_value
    num_heads, d_head, d_value = counts(num_heads=num_heads, d_head=d_head, d_value=d_value)
    return 2 * count("pairs", pairs) * num_heads * (d_head + d_value)


def linear_flops(n, num_heads, d_features, d_value):
    """Count the operations of linear attention over n positions, its features taken as given.

    Each key adds to a state of d_features · (d_value + 1) numbers, with a column of ones for the denominator, and each
    query reads it.   Book: {eq}`linear-cost`.
    """
    num_heads, d_features, d_value = counts(num_heads=num_heads, d_features=d_features, d_value=d_value)
    return 4 * count("n", n) * num_heads * d_features * (d_value + 1)


def latent_flops(n, d_model, num_heads, latent, *, cached=0, pairs=None):
    """Count the operations of latent attention that makes keys and values for every head, cached positions too."""
    n, cached = count("n", n), count("cached", cached)
    pairs = visible_pairs(pairs, n, cached + n)
    outside, between = latent_weights(d_model, num_heads, latent)
    core = core_flops(pairs, num_heads, latent.d_head + latent.d_rope, d_value=latent.d_value)
    return 2 * n * outside + 2 * (cached + n) * between + core


def absorbed_flops(n, d_model, num_heads, latent, *, cached=0, pairs=None):
    """Count the operations of latent attention in its absorbed form: the heads compare and mix the latents themselves.

    A query passes the key matrix of its head before the scores, and a mixed latent the value matrix after them, so
    that a cached position costs its share of scores and mix and nothing else.
    """
    n, cached = count("n", n), count("cached", cached)
    pairs = visible_pairs(pairs, n, cached + n)
    outside, between = latent_weights(d_model, num_heads, latent)
    core = core_flops(pairs, num_heads, latent.d_latent + latent.d_rope, d_value=latent.d_latent)
    return 2 * n * (outside + between) + core
