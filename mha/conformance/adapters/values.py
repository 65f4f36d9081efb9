"""What our floors have in common: masks are values, `causal`, `window` and `lengths` become one; functions by name."""

import functools

from mha import masks


def with_masks(function):
    """Return the function with the options causal, window and lengths, which it gets as one mask."""

    @functools.wraps(function)
    def call(*inputs, mask=None, causal=False, window=None, lengths=None, **options):
        given = [masks.causal] if causal else []
        given += [] if window is None else [masks.window(*window)]
        given += [] if lengths is None else [masks.lengths(lengths)]
        if not given:
            return function(*inputs, **options) if mask is None else function(*inputs, mask=mask, **options)
        given += [] if mask is None else [masks.dense(mask)]
        return function(*inputs, mask=functools.reduce(lambda a, b: a & b, given), **options)

    return call


def parts(floor):
    """Return the functions of a floor beside attention, as the kit names and calls them."""
    return {
        "alibi-slopes": floor.alibi_slopes,
        "distance-buckets": lambda distances, num_buckets, max_distance, bidirectional: floor.relative_buckets(
            distances, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional
        ),
        "disentangled": functools.partial(floor.disentangled_bias, scale=1.0),
        "linear-attention": floor.linear_attention,
        "linear-average": lambda q, k, v: floor.linear_average(q, k, v)[0],
        "delta-rule": floor.delta_rule,
    }
