"""Attention in fewer bits: float64 where nothing is rounded, torch where it does the same, and each stage in turn."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.reference.precision import BFLOAT16, FLOAT8_E4M3, FLOAT16, FLOAT32, round_to
from mha.reference.rounded import Stages, rounded_attention


def arrays(spread=1.0, n_q=7, n_k=11, heads=4, groups=2):
    rng = np.random.default_rng(3)
    return spread * rng.standard_normal((2, heads, n_q, 5)), *rng.standard_normal((2, 2, groups, n_k, 5))


@pytest.mark.parametrize("mask", [None, masks.causal, masks.window(2, 0)], ids=str)
def test_without_rounding_it_is_attention(mask):
    q, k, v = arrays()
    expected = reference.attention(q, k, v, mask=mask, scale=0.3)
    for first in (False, True):
        found = rounded_attention(q, k, v, Stages(), mask=mask, scale=0.3, scale_first=first)
        assert_equal(found, expected, atol=1e-14)


def test_a_row_without_a_key_is_zero():
    q, k, v = arrays()
    found = rounded_attention(q, k, v, Stages.mixed(FLOAT16), mask=masks.causal, q_start=-3)
    assert not found[..., :3, :].any()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("format", [FLOAT16, BFLOAT16], ids=lambda format: format.name)
def test_plain_stages_are_operations_of_torch(format):
    """The same operations one by one; torch adds in float32 in its own order, so single results differ by a step."""
    q, k, v = (round_to(x, format) for x in arrays(groups=4))
    a, b, c = (torch.from_numpy(x).to(getattr(torch, format.name)) for x in (q, k, v))
    theirs = ((a @ b.mT) * 5**-0.5).softmax(-1) @ c
    exact = reference.attention(q, k, v)
    ours = rounded_attention(q, k, v, Stages.plain(format))
    for found in (ours, theirs.double().numpy()):
        assert 0.2 * format.roundoff < np.abs(found - exact).max() < 8 * format.roundoff


def by_loops(q, k, v, scale, half, wide):
    """Attention of one head, number by number, in NumPy's own types: `half` for inputs, `wide` for scores."""
    output = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(half(q)):
        scores = [wide(scale * float(wide(added(zip(query, key, strict=True))))) for key in half(k)]
        powers = [wide(np.exp(float(wide(float(score) - float(max(scores)))))) for score in scores]
        total = wide(added((power, 1.0) for power in powers))
        weights = [half(wide(float(power) / float(total))) for power in powers]
        for e, column in enumerate(half(v).T):
            output[i, e] = half(added(zip(weights, column, strict=True)))
    return output


def added(pairs):
    """Sum products that are exact in float64, each addition rounded to float32."""
    total = np.float32(0)
    for a, b in pairs:
        total = np.float32(float(total) + float(a) * float(b))
    return float(total)


@pytest.mark.parametrize(("way", "wide"), [("plain", np.float16), ("mixed", np.float32)])
def test_same_bits_as_loops_in_the_types_of_numpy(way, wide):
    q, k, v = (x[0, 0] for x in arrays(spread=3.0, n_q=5, n_k=23, groups=4))
    found = rounded_attention(q[None], k[None], v[None], getattr(Stages, way)(FLOAT16), scale=0.37)
    assert_equal(found[0], by_loops(q, k, v, 0.37, np.float16, wide))


@pytest.mark.parametrize("stage", Stages._fields)
def test_each_stage_alone_errs_by_its_format(stage):
    q, k, v = arrays()
    exact = reference.attention(q, k, v)
    errors = [
        np.abs(rounded_attention(q, k, v, Stages(**{stage: format})) - exact).max()
        for format in (FLOAT8_E4M3, BFLOAT16, FLOAT16, FLOAT32)
    ]
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 10**4 * errors[3] > 0


def test_weights_are_numbers_of_the_format_of_scores():
    q, k, _ = arrays(n_k=7)
    weights = rounded_attention(q, k, np.broadcast_to(np.eye(7), (2, 2, 7, 7)), Stages(scores=BFLOAT16))
    assert_equal(round_to(weights, BFLOAT16), weights)


def test_the_kernel_way_errs_less_where_scores_are_large():
    q, k, v = (round_to(x, BFLOAT16) for x in arrays(spread=8.0))
    exact = reference.attention(q, k, v)
    ours, theirs = (
        np.abs(rounded_attention(q, k, v, way(BFLOAT16)) - exact).max() for way in (Stages.mixed, Stages.plain)
    )
    assert ours < theirs / 2


def test_products_overflow_and_scaling_first_saves_them():
    q, k, v = arrays()
    q = 65504 / 2 * q / np.abs(q).max()
    options = {"scale": 1e-4}
    assert np.isnan(rounded_attention(q, k, v, Stages.plain(FLOAT16), **options)).any()
    assert np.isfinite(rounded_attention(q, k, v, Stages.plain(FLOAT16), scale_first=True, **options)).all()
    assert np.isfinite(rounded_attention(q, k, v, Stages.mixed(FLOAT16), **options)).all()


def test_a_sum_of_ones_stops_where_a_step_is_two():
    """Equal scores over 300 keys, summed in bfloat16: 256 + 1 is 256, so the weights are 1/256, not 1/300."""
    zeros, ones = np.zeros((1, 1, 5)), np.zeros((1, 300, 5))
    weights_total = rounded_attention(zeros, ones, np.ones((1, 300, 1)), Stages(sums=BFLOAT16))
    assert_equal(weights_total, [[[1.0]]], label="the second sum stops at 256 as well")
    found = rounded_attention(zeros, ones, np.eye(300)[None], Stages(sums=BFLOAT16))
    assert_equal(found, np.full((1, 1, 300), 1 / 256))
