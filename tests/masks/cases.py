"""Calls drawn at random: a mask composed of several, its lengths, and where the queries start."""

import numpy as np
from hypothesis import strategies as st

from mha.masks import causal, dense, lengths, window

BATCH, HEADS = 2, 3


def a_table(draw, n_q, n_k):
    """A dense mask with any of its axes told apart, in patches, so that some tiles are full and some empty."""
    told = draw(st.tuples(*[st.booleans()] * 4))
    shape = [size if this else 1 for this, size in zip(told, (BATCH, HEADS, n_q, n_k), strict=True)]
    patch = draw(st.sampled_from([1, 4, 11]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    coarse = rng.random((shape[0], shape[1], shape[2] // patch + 1, shape[3] // patch + 1)) < 0.5
    return dense(coarse.repeat(patch, 2).repeat(patch, 3)[:, :, : shape[2], : shape[3]])


@st.composite
def cases(draw):
    """A mask, the lengths that it serves and where its queries start."""
    n_q, n_k = draw(st.sampled_from([(0, 0), (0, 5), (5, 0), (1, 1), (1, 23), (23, 1), (19, 19), (13, 37), (41, 17)]))
    sample = st.lists(st.integers(0, n_k), min_size=BATCH, max_size=BATCH)
    leaves = st.one_of(
        st.just(causal),
        st.builds(window, st.integers(0, 20), st.integers(0, 20)),
        st.builds(lengths, sample),
        st.builds(a_table, st.just(draw), st.just(n_q), st.just(n_k)),
    )
    compositions = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=6,
    )
    starts = st.one_of(st.none(), st.integers(-9, 40), st.lists(st.integers(-9, 40), min_size=BATCH, max_size=BATCH))
    return draw(compositions), n_q, n_k, draw(starts)
