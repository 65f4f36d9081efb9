"""Attention in listed blocks against the reference with the mask that the blocks spell out, gradients too."""

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from mha import kernels, masks, reference
from mha.kernels.dot_product import problem
from mha.kernels.tile_sizes import TileSize

N_Q, N_K, BATCH, HEADS = 37, 43, 2, 2
SINGLE = 2.0**-24 / rounding.EPS  # from a bound for float64 to one for float32


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(problem, "tile_size", lambda *_, **__: TileSize(16, 16, 4, 1))


def draw(n_q=N_Q, n_k=N_K, *, batch=BATCH, heads=HEADS, d=8, e=5):
    rng = np.random.default_rng(3)
    sizes = (batch, heads, n_q, d), (batch, 1, n_k, d), (batch, 1, n_k, e), (batch, heads, n_q, e)
    return [rng.standard_normal(size).astype(np.float32) for size in sizes]


def spread(blocks, size, n_q, n_k):
    return blocks.repeat(size[0], -2)[..., :n_q, :].repeat(size[1], -1)[..., :n_k]


def check(see, tiles, *, arrays=None, **options):
    """Raise unless sparse attention is the reference's with the boolean array `see`."""
    *arrays, d_out = draw() if arrays is None else arrays
    leaves = [torch.from_numpy(x).requires_grad_() for x in arrays]
    out = kernels.sparse_attention(*leaves, tiles, **options)
    exact = [x.astype(np.float64) for x in arrays]
    assert_equal(out, reference.attention(*exact, mask=see), atol=SINGLE * rounding.of_output(*exact))
    found = torch.autograd.grad(out, leaves, torch.from_numpy(d_out))
    expected = reference.attention_backward(*exact, d_out.astype(np.float64), mask=see)
    atol = SINGLE * rounding.of_gradients(*exact, d_out)
    for name, one in zip("qkv", found, strict=True):
        assert_equal(one, getattr(expected, name), atol=atol, label=f"d_{name}")


def blocks_of(size, *groups):
    """Return blocks drawn by chance, a whole row and a whole column of them empty."""
    shape = *groups, -(-N_Q // size[0]), -(-N_K // size[1])
    blocks = np.random.default_rng(7).random(shape) < 0.5
    blocks[..., -1, :] = blocks[..., 0] = False
    return blocks


@pytest.mark.parametrize("size", [(16, 16), (32, 32), (8, 8), (16, 32), (5, 7), (1, 1)], ids=str)
def test_blocks_of_any_size(size):
    """Equal to a tile of the kernel (16 × 16), several of them, parts of one, and across its edges."""
    blocks = blocks_of(size)
    check(spread(blocks, size, N_Q, N_K), blocks, size=size)


@pytest.mark.parametrize("groups", [(BATCH, HEADS), (1, HEADS), (BATCH, 1)], ids=str)
def test_samples_and_heads_have_blocks_of_their_own(groups):
    blocks = torch.from_numpy(blocks_of((16, 16), *groups))
    check(spread(blocks.numpy(), (16, 16), N_Q, N_K), blocks, size=16)


GRID = 6, 7  # 42 positions of a picture
PATTERNS = {
    "Longformer": masks.window(4, 4) | masks.global_tokens([0, 20]),
    "BigBird": masks.window(3, 3) | masks.global_tokens([1]) | masks.random_blocks(5, 42, block=8, number=1),
    "Swin": masks.shifted_window2d(GRID, (3, 4), (1, 2)),
}


@pytest.mark.parametrize(
    ("name", "size"), [("Longformer", (16, 16)), ("BigBird", (8, 32)), ("Swin", (32, 16))], ids=str
)
def test_tiles_of_published_patterns(name, size):
    mask = PATTERNS[name]
    tiles = mask.tiles(42, 42, size=size, refine=True)
    check(mask.dense(42, 42), tiles, arrays=draw(42, 42, batch=1, heads=1), mask=mask)


def test_without_a_mask_all_pairs_of_a_listed_tile_are_seen():
    tiles = PATTERNS["Swin"].tiles(42, 42, size=(16, 32), refine=True)
    assert not tiles.visible.all()
    check(spread(tiles.visible, (16, 32), 42, 42), tiles, arrays=draw(42, 42, batch=1, heads=1))


def test_hidden_tiles_are_not_read():
    """Keys of blocks that are not listed hold NaN, and no row shows it."""
    blocks = np.zeros((3, 3), bool)
    blocks[:, 1] = True
    q, k, v, _ = draw(48, 48)
    clean = [torch.from_numpy(x) for x in (q, k, v)]
    dirty = [x.clone() for x in clean]
    for x in dirty[1:]:
        x[:, :, :16] = x[:, :, 32:] = torch.nan
    assert_equal(*(kernels.sparse_attention(*given, blocks, size=16) for given in (dirty, clean)))


def test_the_options_are_those_of_attention():
    q, k, v, _ = (torch.from_numpy(x) for x in draw())
    blocks = blocks_of((16, 16))
    options = {"scale": 0.3, "softcap": 2.0, "sinks": torch.tensor([0.5, -1.0]), "q_start": torch.tensor([3, 9])}
    found = kernels.sparse_attention(q, k, v, blocks, size=16, mask=masks.causal, **options)
    mask = masks.in_blocks(blocks, 16) & masks.causal
    assert_equal(found, kernels.attention(q, k, v, mask=mask, **options))
    with pytest.raises(TypeError, match=r"sparse_attention has no option is_causal: mask=masks\.causal"):
        kernels.sparse_attention(q, k, v, blocks, size=16, is_causal=True)


@pytest.mark.slow
def test_in_one_graph():
    q, k, v, d_out = (torch.from_numpy(x).requires_grad_() for x in draw())
    listed = masks.in_blocks(PATTERNS["Longformer"].tiles(N_Q, N_K, size=(16, 16)))

    def call(q, k, v):
        return kernels.sparse_attention(q, k, v, listed, mask=masks.causal)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for form in (call, compiled):
        out = form(q, k, v)
        found = out, *torch.autograd.grad(out, (q, k, v), d_out)
        if form is call:
            expected = found
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


def test_misfits_are_named():
    q, k, v, _ = (torch.from_numpy(x) for x in draw())
    with pytest.raises(ValueError, match=r"lists blocks of shape \(1, 1, 3, 3\): expected \(2, 2, 5, 6\)"):
        kernels.sparse_attention(q, k, v, blocks_of((16, 16)), size=8)
    with pytest.raises(TypeError, match=r"size is None: expected \(query rows, key columns\) of a block"):
        kernels.sparse_attention(q, k, v, blocks_of((16, 16)))
    with pytest.raises(ValueError, match=r"size is 8: expected None, tiles have a size of their own, \(16, 16\)"):
        kernels.sparse_attention(q, k, v, masks.in_blocks(blocks_of((16, 16)), 16), size=8)
    with pytest.raises(TypeError, match="blocks is causal: expected a boolean array or tiles"):
        kernels.sparse_attention(q, k, v, masks.causal)
