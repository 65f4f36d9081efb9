"""Transformer-XL's terms as one product of matrices, against the reference that goes distance by distance."""

import pytest
import torch

from compare import assert_equal
from mha import reference
from mha.nn import TransformerXLBias, transformer_xl_bias
from nn.layers import draw

B, H, G, D, M = 2, 6, 3, 4, 10


def arguments(dtype=torch.float64):
    shapes = (B, H, 5, D), (B, G, 7, D), (H, D), (H, D), (M, H * D)
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"base": 100.0}], ids=str)
def test_any_positions(options):
    places = torch.tensor([[4, 900, -7, 1, 1], [0, 1, 2, 3, 4]]), torch.tensor([5, 2, 2, 90, -3, 0, 1])
    given = [*arguments(), *places]
    expected = reference.transformer_xl_bias(*(x.numpy() for x in given), **options)
    assert_equal(transformer_xl_bias(*given, **options), expected, rtol=1e-11, atol=1e-12)


def test_float32_a_million_rows_on():
    """Sines of far positions are taken in float64: what is rounded is as large there as at the start."""
    q_positions, k_positions = torch.arange(5), torch.arange(7)
    expected = transformer_xl_bias(*arguments(), q_positions, k_positions)
    given = [x.float() for x in arguments()]
    largest = float(expected.abs().max())
    for moved in (0, 10**6):
        found = transformer_xl_bias(*given, q_positions + moved, k_positions + moved)
        assert_equal(found.double(), expected, atol=2.0**-24 * 4 * M * largest, label=f"{moved}")


def test_sizes():
    scheme = TransformerXLBias(M, H, d_head=D)
    assert scheme.r_proj.weight.shape == (H * D, M)
    assert scheme.u.shape == scheme.v.shape == (H, D)
    for options, words in (
        ({"d_model": 9}, "d_model is 9: expected a multiple of 2"),
        ({"base": 0}, "base is 0: expected a positive number"),
        ({"d_head": None}, "d_model is 10 and num_heads is 6, remainder 4"),
    ):
        with pytest.raises(ValueError, match=words):
            TransformerXLBias(**{"d_model": M, "num_heads": H, "d_head": D} | options)
