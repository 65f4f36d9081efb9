"""A mask for each head: what each head would see alone."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.masks import causal, lengths, per_head, window

OWN = [causal, window(1, 1), causal & window(2, 0), window(1, 1)]


def test_each_head_sees_what_its_mask_shows():
    see = per_head(OWN).dense(5, 7)
    assert see.shape == (1, 4, 5, 7)
    for h, mask in enumerate(OWN):
        assert_equal(see[0, h], mask.dense(5, 7))
    assert_equal((per_head(OWN) & causal).dense(5, 7), see & causal.dense(5, 7))
    assert_equal((~per_head(OWN)).dense(5, 7), ~see)
    assert_equal(per_head([np.eye(5, 7) > 0, causal]).dense(5, 7)[0, 0], np.eye(5, 7) > 0)


def test_tables_of_samples_and_heads_inside():
    n, table = [2, 7, 0], np.random.default_rng(1).random((3, 2, 5, 7)) < 0.5
    see = per_head([lengths(n) & causal, masks.dense(table)]).dense(5, 7, 1)
    assert see.shape == (3, 2, 5, 7)
    for b in range(3):
        assert_equal(see[b, 0], (lengths(n) & causal).dense(5, 7, 1)[b, 0])
        assert_equal(see[b, 1], table[b, 1])


def test_attention_head_by_head():
    q, k, v = (np.random.default_rng(s).normal(size=(2, heads, 7, 5)) for s, heads in enumerate((4, 2, 2)))
    out = reference.attention(q, k, v, mask=per_head(OWN))
    of_torch = nn.attention(*map(torch.from_numpy, (q, k, v)), mask=per_head(OWN))
    for h, mask in enumerate(OWN):
        alone = reference.attention(q[:, [h]], k[:, [h // 2]], v[:, [h // 2]], mask=mask)
        assert_equal(out[:, [h]], alone)
        assert_equal(of_torch[:, [h]], alone, rtol=1e-12, atol=1e-13)


def test_values():
    assert per_head(OWN) == per_head([causal, window(1, 1), causal & window(2, 0), window(1, 1)]) != per_head(OWN[::-1])
    assert len(per_head([causal] * 8).masks) == 1
    assert repr(per_head(OWN[:2])) == "per_head([causal, window(1, 1)])"
    assert hash(per_head(OWN[:2])) == hash(per_head([causal, window(1, 1)]))
    mixed = per_head([causal & lengths([3, 5]), causal & lengths([4, 2])])
    assert masks.query_start(mixed, 1, 7).tolist() == [3, 4]  # the last key that any head counts as valid


def test_explain():
    mask = per_head(OWN)
    assert mask.explain(3, 5, h=0) == "i=3 may not see j=5: head 0: causal (5 > 3)"
    assert mask.explain(3, 4, h=3) == "i=3 may see j=4: head 3: window(1, 1) (4 − 3 = 1 ≤ 1)"
    assert mask.explain(3, 5, h=2) == "i=3 may not see j=5: head 2: causal (5 > 3); window(2, 0) would also hide it"
    with pytest.raises(ValueError, match="h is 4: expected less than 4"):
        mask.explain(0, 0, h=4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: per_head([]), ValueError, "masks is empty: expected one mask per head"),
        (lambda: per_head(causal), TypeError, "masks is a Causal: expected a list, one mask per head"),
        (lambda: per_head(["causal"]), TypeError, "mask is a str: expected a mask of mha.masks"),
        (lambda: per_head(OWN).check(3, 3, 1, 2), ValueError, "per_head has 4 masks and there are 2 heads"),
        (
            lambda: reference.attention(*[np.ones((1, 2, 3, 3))] * 3, mask=per_head([causal])),
            ValueError,
            "per_head has 1 masks and there are 2 heads",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
