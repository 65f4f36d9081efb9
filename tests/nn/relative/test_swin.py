"""A layer with Swin's table of offsets against transformers', windows plain and shifted."""

import pytest
import torch
import transformers
from transformers.models.swin.modeling_swin import SwinAttention, SwinLayer, window_partition

from compare import assert_equal
from exact import redraw
from mha import reference
from mha.nn import GridBias, MultiHeadAttention, grid_bias
from nn.layers import draw

HEADS, WIDTH, WINDOW, ROWS, COLUMNS = 2, 6, 3, 6, 9


def ours(theirs):
    position = GridBias(HEADS, window=(WINDOW, WINDOW), dtype=torch.float64)
    module = MultiHeadAttention(WIDTH, HEADS, position=position, dtype=torch.float64)
    pairs = [(getattr(module, name), getattr(theirs, name)) for name in ("q_proj", "k_proj", "v_proj")]
    for linear, given in [*pairs, (module.out_proj, theirs.o_proj)]:
        linear.load_state_dict(given.state_dict())
    position.weight.data.copy_(theirs.relative_position_bias.relative_position_bias_table)
    return module


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_equals_swin(shift):
    config = transformers.SwinConfig(
        embed_dim=WIDTH, num_heads=[HEADS], depths=[1], window_size=WINDOW, attn_implementation="eager"
    )
    theirs = redraw(SwinAttention(config, WIDTH, HEADS, WINDOW), seed=3).double()
    around = SwinLayer(config, WIDTH, (ROWS, COLUMNS), HEADS, shift_size=shift)
    moved = around.cyclic_shift(draw(2, ROWS, COLUMNS, WIDTH))
    windows = window_partition(moved, WINDOW).flatten(1, 2)
    hide = around.get_attn_mask(ROWS, COLUMNS, dtype=torch.float64, device="cpu")
    expected = theirs(windows, None if hide is None else hide * 1e5)[0]
    see = None if hide is None else (hide == 0).repeat(2, 1, 1)[:, None]
    module = ours(theirs)
    assert_equal(module(windows, mask=see), expected, rtol=1e-6, atol=1e-6)  # their softmax is in float32
    module.position.weight.data.copy_(module.position.weight.flip(0))
    assert (module(windows, mask=see) - expected).abs().max() > 1e-2


def test_any_places_of_the_window():
    table, at_q, at_k = draw(35, 2), torch.tensor([[11, 0], [5, 6]], dtype=torch.uint8), torch.tensor([3, 9, 2])
    expected = reference.grid_bias(*(x.numpy() for x in (table, at_q, at_k)), window=(3, 4))
    assert_equal(grid_bias(table, at_q, at_k, window=(3, 4)), expected)
    with pytest.raises(ValueError, match="k_positions reach from 0 to 12: expected 0 to 11"):
        grid_bias(table, at_q, torch.arange(13), window=(3, 4))
    with pytest.raises(ValueError, match=r"table has shape \(35, 2\): expected \(49, 2\)"):
        grid_bias(table, at_q, at_k, window=(4, 4))


@pytest.mark.parametrize("window", [3, (3,), (1, 2, 3), None], ids=str)
def test_what_is_no_window(window):
    table, places = draw(9, 2), torch.arange(3)
    for call in (
        lambda: GridBias(2, window=window),
        lambda: grid_bias(table, places, places, window=window),
        lambda: reference.grid_bias(table.numpy(), places.numpy(), places.numpy(), window=window),
    ):
        with pytest.raises(ValueError, match=r"window is .*: expected \(rows, columns\)"):
            call()
    with pytest.raises(TypeError, match=r"window\[0\] is 2.0: expected an integer"):
        grid_bias(table, places, places, window=(2.0, 2))
