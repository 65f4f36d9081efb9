"""Attention by features: the running denominator, equality with the recurrent form, and what is outside of it."""

import numpy as np
import pytest

from approximation_calls import draw, left_and_right
from compare import assert_equal
from mha import masks, reference
from mha.reference import FeatureAttention
from mha.reference.linear import elu_plus_one, relu, softmax_features, squared_relu

MAPS = [elu_plus_one, squared_relu, softmax_features]


def test_the_denominator_runs():
    """performer-pytorch #40 and #21: with equal weights the outputs are running means, not means over all."""
    nothing, v = np.zeros((1, 1, 3, 2)), np.array([[[[1.0], [2], [3]]]])
    assert_equal(FeatureAttention()(nothing, nothing, v, mask=masks.causal), [[[[1], [1.5], [2]]]], rtol=1e-15)
    assert_equal(FeatureAttention()(nothing, nothing, v), np.full((1, 1, 3, 1), 2.0), rtol=1e-15)


def test_maps_by_hand():
    x = np.array([[-2.0, 0.0, 3.0]])
    assert_equal(elu_plus_one(x), [[np.exp(-2), 1, 4]], rtol=1e-15)
    assert_equal(relu(x), [[0, 0, 3]])
    assert_equal(squared_relu(x), [[0, 0, 9]])
    e = np.exp(x[0])
    assert_equal(softmax_features(x), [[*e / e.sum(), *1 / e / (1 / e).sum()]], rtol=1e-15)
    assert_equal(elu_plus_one(np.array([[800.0, -800.0]])), [[801, 0]])


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda f: f.__name__)
def test_causal_is_the_recurrent_average(feature_map):
    q, k, v = draw(13, groups=4)
    expected, _ = reference.linear_average(feature_map(q), feature_map(k), v)
    assert_equal(FeatureAttention(feature_map)(q, k, v, mask=masks.causal), expected, atol=1e-13)


def test_the_other_bracket():
    """Katharopoulos et al. (2020), equation 5: φ(q) Σ φ(k) vᵀ / φ(q) Σ φ(k).   {eq}`linear-attention`"""
    q, k, v = draw(5, 13, groups=4)
    q_, k_ = elu_plus_one(q), elu_plus_one(k)
    sums = np.einsum("bhjm,bhje->bhme", k_, v)
    expected = np.einsum("bhim,bhme->bhie", q_, sums) / np.einsum("bhim,bhm->bhi", q_, k_.sum(-2))[..., None]
    assert_equal(FeatureAttention()(q, k, v), expected, atol=1e-13)
    planted = np.einsum("bhim,bhme->bhie", q_, sums)  # without the denominator
    with pytest.raises(AssertionError):
        assert_equal(planted, expected, atol=1e-13)


def test_padding_is_outside_of_the_denominator():
    rows = draw(9)
    for options in ({}, {"mask": masks.causal}):
        expected = FeatureAttention()(*rows, **options)
        for wide, padding, where in left_and_right(rows, 4):
            mask = padding & options["mask"] if options else padding
            assert_equal(FeatureAttention()(*wide, mask=mask)[..., where, :], expected, atol=1e-14)


def test_a_query_without_weights_gets_zero():
    q, k, v = draw(5)
    q[..., 2, :] = -1
    assert_equal(FeatureAttention(relu)(q, k, v)[..., 2, :], np.zeros((2, 4, 7)))
    assert_equal(FeatureAttention()(q, k, v, mask=masks.lengths([0, 5]))[0], np.zeros((4, 5, 7)))


def test_it_has_no_scale():
    with pytest.raises(ValueError, match=r"scale is 0\.5: expected None, for the weights are φ\(q\)·φ\(k\)"):
        FeatureAttention()(*draw(3), scale=0.5)
