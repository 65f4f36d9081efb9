"""`mha.nn.position` against the reference, against torch, and against the encodings that transformers' models hold."""

import numpy as np
import pytest
import torch
from transformers.models.bert.modeling_bert import BertConfig, BertEmbeddings
from transformers.models.dinov2.modeling_dinov2 import Dinov2Config, Dinov2Embeddings
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.vit.modeling_vit import ViTConfig, ViTEmbeddings
from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding
from transformers.models.whisper.modeling_whisper import sinusoids

from compare import assert_equal
from mha import reference
from mha.nn import (
    LearnedGrid,
    LearnedPositions,
    SinusoidalPositions,
    grid_positions,
    interpolate_grid,
    learned_positions,
    shift_matrix,
    sinusoidal,
    sinusoidal_2d,
)

F64 = {"dtype": torch.float64}
FLOAT32 = 2.0**-24


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


POSITIONS = [torch.arange(7), torch.arange(14).reshape(2, 7) * 50 - 3, torch.zeros(0, dtype=torch.int64)]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("positions", POSITIONS, ids=["(n,)", "(b, n)", "none"])
def test_equals_the_reference(layout, positions):
    options = {"base": 500.0, "layout": layout}
    expected = reference.sinusoidal(positions.numpy(), 14, **options)
    assert_equal(sinusoidal(positions, 14, **options, **F64), expected, atol=1e-12)
    for distance in (0, 3, -100):
        matrix = shift_matrix(distance, 14, **options, **F64)
        assert_equal(matrix, reference.shift_matrix(distance, 14, **options), atol=1e-12)
    places = torch.stack((positions, positions.flip(-1)), -1)
    expected = reference.sinusoidal_2d(places.numpy(), 12, **options)
    assert_equal(sinusoidal_2d(places, 12, **options, **F64), expected, atol=1e-12)


def test_tables_and_grids_equal_the_reference():
    assert_equal(grid_positions(3, 5), reference.grid_positions(3, 5))
    assert_equal(grid_positions(0, 5), reference.grid_positions(0, 5))
    table, positions = draw(11, 5), torch.tensor([[0, 10, 3], [2, 2, 1]])
    assert_equal(learned_positions(table, positions), reference.learned_positions(table.numpy(), positions.numpy()))
    grid = draw(7, 5, 3)
    for height, width in [(11, 13), (3, 2), (7, 5), (1, 1), (14, 10)]:
        expected = reference.interpolate_grid(grid.numpy(), height, width)
        assert_equal(interpolate_grid(grid, height, width), expected, atol=1e-12)


def test_half_is_marians_table():
    theirs = MarianSinusoidalPositionalEmbedding(23, 14)
    table = theirs.create_weight()
    assert_equal(sinusoidal(torch.arange(23), 14, layout="half"), table, atol=23 * FLOAT32)
    wrong = sinusoidal(torch.arange(23), 14, layout="interleaved")
    assert (wrong - table).abs().max() > 1


def test_whispers_waves_are_half_with_a_larger_base():
    """tensor2tensor divides by d/2 − 1, so that the last pair has the whole base; Whisper does too."""
    d_model = 14
    theirs = sinusoids(23, d_model)
    ours = sinusoidal(torch.arange(23), d_model, base=10000 ** (d_model / (d_model - 2)), layout="half")
    assert_equal(ours, theirs, atol=4 * 23 * FLOAT32)
    wrong = sinusoidal(torch.arange(23), d_model, layout="half")
    assert (wrong - theirs).abs().max() > 0.1


def test_two_axes_are_those_of_masked_autoencoders():
    theirs = build_2d_sinusoidal_position_embedding(5, 7, 12)
    assert_equal(sinusoidal_2d(grid_positions(5, 7), 12, layout="half"), theirs, atol=FLOAT32)
    columns_first = sinusoidal_2d(grid_positions(5, 7).flip(-1), 12, layout="half")  # as the first code of MAE had it
    assert (columns_first - theirs).abs().max() > 1


def test_learned_positions_are_berts():
    config = BertConfig(vocab_size=13, hidden_size=10, max_position_embeddings=11, type_vocab_size=2)
    theirs = BertEmbeddings(config).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    ours = LearnedPositions(11, 10, **F64)
    ours.load_state_dict({"weight": theirs.position_embeddings.weight})
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    tokens = theirs.word_embeddings(ids) + theirs.token_type_embeddings.weight[0]
    for positions in (None, torch.tensor([[0, 1, 2, 3, 4], [6, 7, 8, 9, 10]])):
        assert_equal(theirs.LayerNorm(ours(tokens, positions)), theirs(ids, position_ids=positions), atol=1e-12)
    one_off = theirs.LayerNorm(ours(tokens, torch.arange(5) + 1))
    assert (one_off - theirs(ids)).abs().max() > 0.1


@pytest.mark.parametrize(
    ("config", "embeddings"), [(ViTConfig, ViTEmbeddings), (Dinov2Config, Dinov2Embeddings)], ids=["ViT", "DINOv2"]
)
def test_grids_are_interpolated_as_vision_transformers_do(config, embeddings):
    theirs = embeddings(config(hidden_size=10, image_size=20, patch_size=4)).eval()
    torch.nn.init.normal_(theirs.position_embeddings, std=0.3, generator=torch.Generator().manual_seed(0))
    ours = LearnedGrid(5, 5, 10)
    ours.load_state_dict({"weight": theirs.position_embeddings[0, 1:].reshape(5, 5, 10)})
    for height, width in [(7, 11), (3, 5), (5, 5)]:
        patches = torch.zeros(1, height * width, 10)
        expected = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + height * width, 10), 4 * height, 4 * width)
        assert_equal(ours(patches, height, width), expected[:, 1:], atol=16 * FLOAT32)
    linear = torch.nn.functional.interpolate(ours.weight.permute(2, 0, 1)[None], (7, 11), mode="bilinear")
    assert (interpolate_grid(ours.weight, 7, 11) - linear[0].permute(1, 2, 0)).abs().max() > 0.05


MODULES = [SinusoidalPositions(6), SinusoidalPositions(6, base=100.0, layout="half"), LearnedPositions(17, 6)]


@pytest.mark.parametrize("module", MODULES, ids=repr)
@torch.no_grad()
def test_a_later_part_is_that_of_the_whole(module):
    x = draw(2, 11, 6, dtype=torch.float32)
    whole = module(x)
    assert_equal(module(x, torch.arange(11)), whole)
    assert_equal(module(x[:, 7:], torch.arange(7, 11)), whole[:, 7:], label="cached")
    assert module(x[:, :0]).shape == (2, 0, 6)
    assert whole.dtype == x.dtype


@pytest.mark.parametrize("module", MODULES, ids=repr)
@torch.no_grad()
def test_left_padding_counts_from_the_first_token(module):
    x, lengths = draw(2, 11, 6, dtype=torch.float32), torch.tensor([11, 4])
    positions = (torch.arange(11) - 11 + lengths[:, None]).clamp(min=0)
    padded = module(x, positions)
    for row, length in enumerate(lengths.tolist()):
        assert_equal(padded[row, 11 - length :], module(x[row : row + 1, 11 - length :])[0])


def test_modules_say_what_they_are():
    assert repr(MODULES[1]) == "SinusoidalPositions(6, base=100, layout='half')"
    assert repr(MODULES[2]) == "LearnedPositions(17, 6)"
    assert repr(LearnedGrid(2, 3, 6)) == "LearnedGrid(2, 3, 6)"
    assert not list(SinusoidalPositions(6).parameters())


def test_gradients():
    table = draw(5, 4).requires_grad_()
    positions = torch.tensor([[0, 2, 2], [4, 1, 2]])
    assert torch.autograd.gradcheck(lambda table: learned_positions(table, positions), table)
    grid = draw(3, 4, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda grid: interpolate_grid(grid, 5, 3), grid)
    table.grad = None
    learned_positions(table, positions).sum().backward()
    assert_equal(table.grad[:, 0], np.array([1.0, 1, 3, 0, 1]))


def test_far_positions_are_exact_in_float32():
    """A phase of a million in float32 is off by 0.03."""
    far = torch.tensor([1_000_003])
    assert_equal(sinusoidal(far, 6), reference.sinusoidal(far.numpy(), 6), atol=2 * FLOAT32)


def test_any_integers_of_any_shape():
    table = draw(7, 6)
    for dtype in (torch.uint8, torch.int16, torch.uint16, torch.uint64):
        assert_equal(learned_positions(table, torch.arange(5).to(dtype)), table[:5])
        assert_equal(sinusoidal(torch.arange(5).to(dtype), 6), sinusoidal(torch.arange(5), 6))
    assert_equal(learned_positions(table, torch.tensor(5)), table[5])
    assert_equal(sinusoidal(torch.tensor(5), 6), sinusoidal(torch.arange(6), 6)[5])


def test_half_precision():
    x = torch.zeros(1, 5, 6, dtype=torch.bfloat16)
    assert_equal(SinusoidalPositions(6)(x)[0], sinusoidal(torch.arange(5), 6).to(torch.bfloat16))
    grid = draw(3, 3, 2).to(torch.float16)
    assert_equal(interpolate_grid(grid, 5, 5), interpolate_grid(grid.float(), 5, 5).half())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: sinusoidal(torch.arange(3), 7), ValueError, "d_model is 7: expected a multiple of 2"),
        (lambda: sinusoidal(torch.ones(3), 6), TypeError, "positions has dtype torch.float32: expected integers"),
        (lambda: SinusoidalPositions(7), ValueError, "d_model is 7"),
        (lambda: SinusoidalPositions(6, layout="halves"), ValueError, "layout is 'halves'"),
        (lambda: SinusoidalPositions(6)(draw(1, 3, 8)), ValueError, r"x has shape \(1, 3, 8\): .*6\)"),
        (lambda: SinusoidalPositions(6)(draw(1, 3, 6), torch.arange(4)), ValueError, r"positions has shape \(4,\)"),
        (lambda: sinusoidal_2d(torch.zeros(5, 3, dtype=int), 8), ValueError, r"\(5, 3\): expected \(…, 2\)"),
        (lambda: LearnedPositions(3, 6)(torch.zeros(1, 4, 6)), ValueError, "positions hold 3: expected 0 to 2"),
        (lambda: learned_positions(draw(3, 6), torch.tensor([-1])), ValueError, "positions hold -1: expected 0 to 2"),
        (lambda: LearnedPositions(0, 6), ValueError, "num_positions is 0: expected at least 1"),
        (lambda: LearnedGrid(2, 3, 6)(torch.zeros(1, 5, 6)), ValueError, "x has 5 patches: expected 2 × 3 = 6"),
        (lambda: LearnedGrid(2, 3, 6)(torch.zeros(1, 8, 6), 2), ValueError, "x has 8 patches: expected 2 × 3 = 6"),
        (lambda: interpolate_grid(draw(3, 6), 5, 5), ValueError, r"grid has shape \(3, 6\)"),
        (lambda: interpolate_grid(draw(2, 3, 3, 1), 5, 5), ValueError, r"grid has shape \(2, 3, 3, 1\)"),
        (
            lambda: interpolate_grid(draw(0, 3, 2), 5, 5),
            ValueError,
            r"grid has shape \(0, 3, 2\): .* 1 or more of each",
        ),
        (lambda: sinusoidal([0, 1], 6), TypeError, "positions is a list: expected a torch tensor of integers"),
        (lambda: learned_positions(draw(3, 6), None), TypeError, "positions is a NoneType"),
        (lambda: learned_positions([[1.0]], torch.arange(1)), TypeError, "table is a list: expected a torch tensor"),
    ],
)
def test_bad_calls_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
