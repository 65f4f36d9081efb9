"""What the backward pass knows of a row: what its scores lose, and the mean of its weights' gradients."""

import math

import numpy as np
import pytest
import torch

from compare import assert_equal
from kernels.calls import normal
from mha.kernels.dot_product.row_terms import row_terms, sink_gradient, sum_of_score_gradients

NAN, INF = math.nan, math.inf


def rows(*values):
    """Return (1, 1, i, 2): each number twice."""
    return torch.tensor(values)[None, None, :, None].repeat(1, 1, 1, 2)


def test_the_mean_of_a_row_is_d_out_times_out():
    rng = np.random.default_rng(0)
    out, d_out = (normal(rng, 2, 3, 7, 5).float() for _ in range(2))
    lse, d_lse = (normal(rng, 2, 3, 7).float() for _ in range(2))
    shift, delta = row_terms(d_out, out, lse, d_lse)
    mean = (out.double() * d_out.double()).sum(-1)
    assert_equal(shift, lse)
    largest = float((out * d_out).abs().sum(-1).max() + 2 * d_lse.abs().max())
    assert_equal(delta, mean - d_lse.double() / math.log(2), atol=8 * 2**-24 * largest)


@pytest.mark.parametrize("layout", ["expanded", "positions first"])
def test_the_gradient_of_the_output_has_any_strides(layout):
    rng = np.random.default_rng(0)
    out, lse = normal(rng, 2, 3, 7, 5).float(), normal(rng, 2, 3, 7).float()
    d_out = normal(rng, 2, 1, 7, 5).float().expand(2, 3, 7, 5)
    if layout == "positions first":
        d_out = d_out.transpose(1, 2).contiguous().transpose(1, 2)
    assert_equal(row_terms(d_out, out, lse, None)[1], row_terms(d_out.contiguous(), out, lse, None)[1])


def test_what_a_score_loses_makes_its_weight():
    lse = torch.tensor([[[1.5, -INF, INF, NAN]]])
    shift, delta = row_terms(rows(1.0, 1.0, 1.0, 1.0), rows(1.0, 0.0, 1.0, 1.0), lse, None)
    assert_equal(shift, [[[1.5, INF, NAN, NAN]]])
    assert_equal(delta, [[[2.0, 0.0, 2.0, 2.0]]])


def test_a_gradient_that_is_not_finite_makes_weights_of_nan():
    shift, delta = row_terms(rows(NAN, INF, NAN), rows(1.0, 1.0, 0.0), torch.tensor([[[0.0, 0.0, -INF]]]), None)
    assert_equal(shift, [[[NAN, NAN, NAN]]])
    assert_equal(delta, [[[NAN, INF, 0.0]]])


def test_the_gradient_of_a_sink_and_of_all_scores_of_a_row():
    sinks, lse, delta = (
        torch.tensor([math.log(2)]),
        torch.tensor([[[1.0, 3.0, -INF]]]),
        torch.tensor([[[3.0, 8.0, 5.0]]]),
    )
    assert_equal(sink_gradient(sinks, lse, delta), [-(3.0 + 2.0)], rtol=1e-6)
    d_lse = torch.full((1, 1, 3), math.log(2))
    assert_equal(sum_of_score_gradients(sinks, lse, delta, None), [[[3.0, 2.0, 0.0]]], rtol=1e-6)
    assert_equal(sum_of_score_gradients(sinks, lse, delta, d_lse), [[[4.0, 3.0, 0.0]]], rtol=1e-6)
    assert_equal(sum_of_score_gradients(None, lse, delta, None), torch.zeros(1, 1, 3))
    assert_equal(sum_of_score_gradients(None, lse, delta, d_lse), [[[1.0, 1.0, 0.0]]], rtol=1e-6)
