"""Our masks are values: `causal`, `window` and `lengths` become one."""

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
