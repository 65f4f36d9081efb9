"""Padding on the left, on the right and none mean the same, whatever else the mask says."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.masks import causal, key_padding, lengths, padding_positions, shifted

N = 11
VALID = [7, 11, 1, 0]
# Each rule is told how to count from the first key; masks of distances need not be.
RULES = {
    "causal": lambda counted: causal,
    "window": lambda counted: masks.window(2, 1),
    "strided": lambda counted: causal & (masks.window(2, 0) | masks.strided(3)),
    "dilated": lambda counted: masks.dilated(2, 1, 2),
    "log_strided": lambda counted: masks.log_strided,
    "prefix": lambda counted: causal | counted(masks.prefix(3)),
    "global": lambda counted: masks.window(1, 1) | counted(masks.global_tokens([0, 5])),
    "fixed": lambda counted: causal & counted(masks.fixed(3)),
    "random": lambda counted: counted(masks.random_blocks(2, N, block=2, number=2)),
    "grid": lambda counted: counted(masks.window2d((4, 3), 1)),
    "shifted": lambda counted: counted(masks.shifted_window2d((4, 3), 2, 1)),
    "heads": lambda counted: counted(masks.per_head([causal, masks.prefix(2) | ~causal])),
    "not": lambda counted: ~counted(masks.prefix(2)),
}


def kept(side):
    slots = np.arange(N)
    return np.stack([slots >= N - n if side == "left" else slots < n for n in VALID])


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n_q", [1, 3, N])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_equals_unpadded(name, n_q, side):
    """The last n queries of each sample see the valid keys as they do where there is no padding."""
    padding = key_padding(kept(side))
    see = (RULES[name](lambda mask: shifted(mask, padding.first_keys())) & padding).dense(n_q, N)
    for b, n in enumerate(VALID):
        rows = min(n_q, n)
        first_key = N - n if side == "left" else 0
        last = n_q if side == "left" or n >= n_q else n
        alone = RULES[name](lambda mask: mask).dense(rows, n)
        found = see[b, :, last - rows : last, first_key : first_key + n]
        assert_equal(found, np.broadcast_to(alone if alone.ndim == 2 else alone[0], found.shape), label=f"{n} keys")
        assert see[b].sum() == see[b, :, :, first_key : first_key + n].sum()


def test_padding_on_the_right_is_lengths():
    mask, same = key_padding(kept("right")), lengths(VALID)
    for n_q in (1, 5, N, 13):
        assert masks.query_start(mask, n_q, N).tolist() == masks.query_start(same, n_q, N).tolist()
        assert_equal((causal & mask).dense(n_q, N), (causal & same).dense(n_q, N))


def test_where_keys_begin_and_end():
    mask = key_padding(np.zeros((3, 6)) < [[0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    assert mask.first_keys().tolist() == [2, 0, 0]
    assert mask.valid_lengths().tolist() == [5, 6, 0]
    assert (mask | lengths([1, 2, 3])).valid_lengths().tolist() == [5, 6, 3]
    assert (mask & lengths([1, 2, 3])).valid_lengths().tolist() == [1, 2, 0]
    assert key_padding(np.ones((2, 0), bool)).valid_lengths().tolist() == [0, 0]
    assert key_padding(np.ones((2, 0), bool)).first_keys().tolist() == [0, 0]


def test_torch_tables():
    for side in ("left", "right"):
        keep = torch.from_numpy(kept(side))
        mask, same = key_padding(keep), key_padding(kept(side))
        assert mask == same
        assert isinstance(mask.first_keys(), torch.Tensor)
        assert mask.first_keys().tolist() == same.first_keys().tolist()
        assert mask.valid_lengths().tolist() == same.valid_lengths().tolist()


def test_positions_of_keys():
    expected = np.arange(N) - np.array([[N - 7], [0], [N - 1], [0]])
    assert_equal(padding_positions(kept("left")), expected)
    tensor = padding_positions(torch.from_numpy(kept("left")))
    assert tensor.dtype == torch.int64
    assert_equal(tensor, expected)


@pytest.mark.parametrize("side", ["left", "right"])
def test_holes_hide_and_move_nothing(side):
    keep = kept(side)
    keep[1, 4] = False
    see = (causal & key_padding(keep)).dense(N, N)
    expected = (causal & key_padding(kept(side))).dense(N, N)
    expected[1, :, :, 4] = False
    assert_equal(see, expected)


def test_a_layer_does_not_notice_padding():
    """A prefix mask and rotary positions: the padded batch gives what each sample gives alone."""
    layer = nn.MultiHeadAttention(12, 2, position=nn.Rotary(), dtype=torch.float64).eval()
    for n, parameter in enumerate(layer.parameters()):
        generator = torch.Generator().manual_seed(n)
        parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    samples = [torch.randn(1, n, 12, dtype=torch.float64) for n in VALID]
    keep = kept("left")
    x = torch.full((len(VALID), N, 12), 7.0, dtype=torch.float64)
    for b, n in enumerate(VALID):
        x[b, N - n :] = samples[b]
    padding = key_padding(torch.from_numpy(keep))
    mask = (causal | shifted(masks.prefix(3), padding.first_keys())) & padding
    alone = [layer(sample, mask=causal | masks.prefix(3))[0] for sample in samples]
    for positions in (None, padding_positions(torch.from_numpy(keep))):
        out = layer(x, mask=mask, positions=positions)
        for b, n in enumerate(VALID):
            assert_equal(
                out[b, N - n :],
                alone[b],
                rtol=1e-11,
                atol=1e-12,
                label=f"{n}",
            )


def test_hidden_keys_may_hold_anything():
    q, k, v = (np.random.default_rng(s).normal(size=(4, 2, N, 5)) for s in range(3))
    mask = causal & key_padding(kept("left"))
    clean = reference.attention(q, k, v, mask=mask)
    hidden = ~kept("left")[:, None, :, None]
    k, v = (np.where(hidden, np.nan, x) for x in (k, v))
    assert_equal(reference.attention(q, k, v, mask=mask), clean)
    assert_equal(nn.attention(*map(torch.from_numpy, (q, k, v)), mask=mask), clean, rtol=1e-12, atol=1e-13)


def test_explain():
    mask = key_padding([[False, True, True], [True, True, False]])
    assert mask.explain(2, 0) == f"i=2 may not see j=0: {mask!r} (sample 0: key 0 is padding)"
    assert mask.explain(2, 0, b=1) == f"i=2 may see j=0: {mask!r} (sample 1: key 0 is kept)"
    both = mask & shifted(masks.prefix(1), mask.first_keys())
    assert both.explain(2, 2) == "i=2 may not see j=2: shifted(prefix(1), [1, 0]) (1 ≥ 1, counted from 1)"
    reasons = f"{mask!r} (sample 0: key 1 is kept) and shifted(prefix(1), [1, 0]) (0 < 1, counted from 1)"
    assert both.explain(2, 1) == f"i=2 may see j=1: {reasons}"
    with pytest.raises(ValueError, match="j is 3: expected 0 to 2, the keys of key_padding"):
        mask.explain(0, 3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: key_padding([[1, 0]]), TypeError, "keep has dtype int64: expected booleans, True = a key that counts"),
        (lambda: key_padding([[1.0]]), TypeError, "keep has dtype float64: expected booleans"),
        (lambda: key_padding([True]), ValueError, r"keep has shape \(1,\): expected \(b, j\)"),
        (lambda: key_padding([[True], [True, True]]), ValueError, "keep is ragged: expected rows of equal lengths"),
        (lambda: key_padding([[True]]).dense(1, 2), ValueError, r"shape \(1, 1\): expected \(b, j\) = \(1, 2\)"),
        (lambda: key_padding([[True]] * 2).check(1, 1, 3, 1), ValueError, r"expected \(b, j\) = \(3, 1\)"),
        (lambda: padding_positions([[0, 1]]), TypeError, "keep has dtype int64: expected booleans"),
        (
            lambda: (key_padding([[True]]) & lengths([1, 1])).dense(1, 1),
            ValueError,
            "its terms are for 1 and 2 samples: expected one number",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
