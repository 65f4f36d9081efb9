"""Attention in windows against the reference and transformers' Swin."""

from types import SimpleNamespace

import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import GridBias, WindowAttention, attention, window_attention, window_slots
from nn.layers import draw

GRIDS = [(1, 1), (3, 5), (7, 4), (6, 6)]
CUTS = [(2, 0), (3, 1), ((2, 3), (1, 0)), ((1, 4), (0, 2))]
by_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)
by_cut = pytest.mark.parametrize(("window", "shift"), CUTS, ids=str)


def tensors(grid, batch=(2,), heads=3):
    return [draw(*batch, heads, grid[0] * grid[1], width, seed=width) for width in (5, 5, 7)]


@by_grid
@by_cut
def test_the_reference(grid, window, shift):
    cut = {"grid": grid, "window": window, "shift": shift}
    assert_equal(window_slots(**cut), reference.window_slots(**cut))
    for batch in ((), (2,), (2, 3)):
        given = tensors(grid, batch)
        expected = reference.window_attention(*(x.numpy() for x in given), **cut)
        assert_equal(window_attention(*given, **cut), expected, atol=1e-13)
        assert_equal(attention(*given, mask=masks.shifted_window2d(**cut)), expected, atol=1e-13)


def test_gradients():
    given = [x.requires_grad_() for x in tensors((2, 3), (), heads=1)]
    bias = draw(1, 4, 4).requires_grad_()

    def call(q, k, v, bias):
        return window_attention(q, k, v, grid=(2, 3), window=2, shift=1, bias=bias)

    assert torch.autograd.gradcheck(call, [*given, bias])


def test_pairs_of_a_window_alone_are_scored(monkeypatch):
    counted = []

    def counting(q, k, v, **options):
        counted.append(q[..., 0].numel() * k.shape[-2])
        return attention(q, k, v, **options)

    monkeypatch.setattr("mha.nn.sparse.windows.attention", counting)
    for side in (14, 28, 56):
        window_attention(*tensors((side, side), heads=1), grid=(side, side), window=7, shift=3)
    assert counted == [2 * side**2 * 7**2 for side in (14, 28, 56)]


def swin(grid, shift, window=3, d_model=12, num_heads=3):
    """Return a layer of transformers, its norms and its feed-forward part taken out, what it makes of x, and ours."""
    pytest.importorskip("transformers")
    from transformers import SwinConfig
    from transformers.models.swin.modeling_swin import SwinLayer

    class Nothing(torch.nn.Module):
        def forward(self, x):
            return 0 * x

    config = SwinConfig(window_size=window, attn_implementation="sdpa")
    theirs = SwinLayer(config, d_model, grid, num_heads, shift_size=shift).double().eval()
    theirs.layernorm_before, theirs.layernorm_after, theirs.mlp = torch.nn.Identity(), torch.nn.Identity(), Nothing()
    make = torch.Generator().manual_seed(1)
    for parameter in theirs.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    inner = theirs.attention
    position = GridBias(num_heads, window=(window, window), dtype=torch.float64)
    position.weight.data.copy_(inner.relative_position_bias.relative_position_bias_table)
    ours = WindowAttention(d_model, num_heads, window=window, shift=shift, position=position, dtype=torch.float64)
    for name, other in {"q": "q", "k": "k", "v": "v", "out": "o"}.items():
        getattr(ours, f"{name}_proj").load_state_dict(getattr(inner, f"{other}_proj").state_dict())
    x = draw(2, grid[0] * grid[1], d_model)
    with torch.no_grad():
        return SimpleNamespace(ours=ours, x=x, out=theirs(x, grid)[0] - x)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("grid", [(6, 9), (9, 6), (6, 6)], ids=str)
def test_transformers(grid, shift):
    pair = swin(grid, shift)
    assert_equal(pair.ours(pair.x, grid), pair.out, atol=1e-12)


def test_transformers_lets_patches_see_the_padding():
    """On a grid that no whole windows fill, theirs scores the filling too; away from it both agree."""
    grid = 7, 6
    pair = swin(grid, 0)
    found = pair.ours(pair.x, grid)
    assert_equal(found[:, :36], pair.out[:, :36], atol=1e-12)
    with pytest.raises(AssertionError):
        assert_equal(found[:, 36:], pair.out[:, 36:], atol=1e-3)


@pytest.mark.parametrize("fault", ["no shift", "shifted ahead", "no table", "table transposed"])
def test_a_planted_fault_is_seen(fault):
    pair = swin((6, 9), 1)
    ours = pair.ours
    if fault == "no shift":
        ours.shift = 0
    if fault == "shifted ahead":
        ours.shift = 2
    if fault == "no table":
        ours.position = None
    if fault == "table transposed":
        ours.position.weight.data = ours.position.weight.flip(0)
    with pytest.raises(AssertionError):
        assert_equal(ours(pair.x, (6, 9)), pair.out, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position": 3}, r"position is 3: expected an object with bias\(q_positions, k_positions\)"),
        ({"shift": 2}, r"shift is \(2, 2\) and window is \(2, 2\): expected a shift below the window"),
    ],
)
def test_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        WindowAttention(12, 3, window=2, **options)(draw(1, 4, 12).float(), (2, 2))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((3,), r"grid has 1 entries: expected \(rows, columns\)"),
        (12, r"grid is 12: expected \(rows, columns\)"),
        ((0, 12), r"grid\[0\] is 0: expected at least 1"),
        ((3, 5), "q has length 12: expected 3 × 5 = 15, a row a patch"),
    ],
    ids=str,
)
def test_no_grid_of_these_rows(grid, message):
    with pytest.raises((TypeError, ValueError), match=message):
        window_attention(*tensors((3, 4)), grid=grid, window=2)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@by_cut
def test_no_number_is_asked_for(window, shift):
    """The cut says which windows are whole: a graph is one piece, and meta tensors have shapes."""
    layer, x = WindowAttention(6, 3, window=window, shift=shift, dtype=torch.float64), draw(2, 12, 6)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False, backend="eager")
    for grid in ((3, 4), (6, 2)):
        assert_equal(compiled(x, grid), layer(x, grid))
    assert layer.to("meta")(x.to("meta"), (3, 4)).shape == x.shape
