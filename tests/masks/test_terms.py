"""Which masks a form that knows the causal rule and lengths can take, and how it names the others."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.masks.terms import causal_and_lengths


def test_the_two_rules_and_both():
    assert causal_and_lengths(None, "a form") == (False, None)
    assert causal_and_lengths(masks.causal, "a form") == (True, None)
    for mask, causal in ((masks.lengths([3, 5]), False), (masks.lengths([3, 5]) & masks.causal, True)):
        found, lengths = causal_and_lengths(mask, "a form")
        assert found is causal
        assert_equal(lengths, [3, 5])
    both = masks.causal & masks.lengths([3, 5]) & masks.lengths([4, 4])
    assert_equal(causal_and_lengths(both, "a form")[1], [3, 4])


@pytest.mark.parametrize(
    ("mask", "named"),
    [
        (masks.causal | masks.prefix(2), r"causal \| prefix\(2\)"),
        (~masks.causal, "~causal"),
        (masks.causal & masks.window(2, 0), r"window\(2, 0\)"),
        (masks.key_padding(np.ones((1, 2), bool)), "key_padding"),
        (masks.dense(np.ones((2, 2), bool)), "dense"),
    ],
    ids=["or", "not", "window", "padding", "dense"],
)
def test_what_it_refuses(mask, named):
    with pytest.raises(
        ValueError, match=rf"(?s)mask holds {named}.*: a form supports masks\.causal, masks\.lengths\(n\)"
    ):
        causal_and_lengths(mask, "a form")
