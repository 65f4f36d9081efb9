"""FAVOR+: what the features promise, the formula of the paper, and a stabiliser that does not look ahead."""

import numpy as np
import pytest

from approximation_calls import D, draw, left_and_right
from compare import assert_equal
from mha import masks, reference
from mha.random_matrices import gaussian
from mha.reference import Performer, positive_features


def test_the_features_by_hand():
    """{eq}`favor`: e^(w·x − |x|²/2) / √m, with w = (1, 0) and (0, 2), x = (1, 1)."""
    directions = np.array([[1.0, 0], [0, 2]])
    assert_equal(positive_features(np.ones((1, 2)), directions), [[1 / 2**0.5, np.e / 2**0.5]], rtol=1e-15)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_products_of_features_estimate_the_kernel(orthogonal):
    """Choromanski et al. (2021), lemma 1, with vectors of norm 1: within 5 standard errors over 300 seeds."""
    rng = np.random.default_rng(0)
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in rng.standard_normal((2, 3, D)))
    estimates = []
    for seed in range(300):
        directions = Performer(16, D, seed=seed, orthogonal=orthogonal).directions
        estimates.append(positive_features(q, directions) @ positive_features(k, directions).T)
    error = np.std(estimates, 0) / 300**0.5
    assert (np.abs(np.mean(estimates, 0) - np.exp(q @ k.T)) < 5 * error).all()
    trigonometric = gaussian(0, 300, 16, D)  # planted: without −|x|²/2 the mean is e^(|q + k|²/2)
    planted = np.exp(trigonometric @ q[0]) * np.exp(trigonometric @ k[0])
    assert abs(planted.mean() - np.exp(q[0] @ k[0])) > 5 * planted.std() / planted.size**0.5


def test_orthogonal_directions_estimate_better():
    """Theorem 2 of the paper: the mean square error is less, for m ≤ d, with vectors of norm 1."""
    rng = np.random.default_rng(1)
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in rng.standard_normal((2, 16, 16)))
    errors = {}
    for orthogonal in (True, False):
        draws = [Performer(16, 16, seed=seed, orthogonal=orthogonal).directions for seed in range(100)]
        found = [(positive_features(q, w) * positive_features(k, w)).sum(-1) for w in draws]
        errors[orthogonal] = np.mean((found - np.exp((q * k).sum(-1))) ** 2)
    assert errors[True] < errors[False]


def formula(q, k, v, directions, see):
    """Return D̂⁻¹ (Q′ K′ᵀ) V with Q′ and K′ as in section 2.3 of the paper, nothing divided by anything."""
    q_, k_ = (np.exp(x @ directions.T - (x**2).sum(-1, keepdims=True) / 2) for x in (q, k))
    weights = q_ @ np.swapaxes(k_, -1, -2) * see
    return weights @ v / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
def test_the_formula_of_the_paper(causal):
    q, k, v = draw(11, groups=4)
    core, options = Performer(13, D, seed=2), {"mask": masks.causal} if causal else {}
    see = np.tri(11) if causal else 1.0
    expected = formula(q * D**-0.25, k * D**-0.25, v, core.directions, see)
    assert_equal(core(q, k, v, **options), expected, atol=1e-12)
    with pytest.raises(AssertionError):  # planted: the queries alone are scaled, by the root
        assert_equal(core(q, k, v, **options), formula(q * D**-0.25, k, v, core.directions, see), atol=1e-12)
    planted = formula(q * D**-0.25, k * D**-0.25, v, core.directions, np.tri(11) + 1)
    with pytest.raises(AssertionError):  # planted: the future counts too, with half the weight
        assert_equal(core(q, k, v, **options), planted, atol=1e-12)


@pytest.mark.parametrize("scale", [0.7, -0.7, 0.0])
def test_any_scale(scale):
    q, k, v = draw(5, groups=4)
    core = Performer(13, D)
    root = abs(scale) ** 0.5
    expected = formula(q * root * np.sign(scale), k * root, v, core.directions, 1.0)
    assert_equal(core(q, k, v, scale=scale), expected, atol=1e-12)


def test_many_features_are_attention():
    """With vectors of norm 1/2 the weights vary little: 2¹⁴ features leave an error below 1 %."""
    q, k, v = draw(11)
    q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) / 2 for x in (q, k))
    for mask in (None, masks.causal):
        assert reference.approximation_error(Performer(2**14, D), q, k, v, mask=mask, scale=1) < 0.01


def test_the_future_changes_no_bit():
    q, k, v = draw(13)
    core, changed = Performer(7, D), k.copy()
    changed[..., 9:, :] *= 30
    before, after = (core(q, x, v, mask=masks.causal)[..., :9, :] for x in (k, changed))
    assert_equal(after, before)


def test_large_vectors_stay_finite():
    """e^(w·x) alone overflows from 709 on."""
    q, k, v = draw(7)
    for mask in (None, masks.causal):
        assert np.isfinite(Performer(16, D)(300 * q, k, v, mask=mask)).all()
        assert np.isfinite(Performer(16, D)(q, 300 * k, v, mask=mask)).all()


def test_padding_is_outside_of_the_denominator():
    rows, core = draw(9), Performer(7, D)
    for options in ({}, {"mask": masks.causal}):
        expected = core(*rows, **options)
        for wide, padding, where in left_and_right(rows, 4):
            mask = padding & options["mask"] if options else padding
            assert_equal(core(*wide, mask=mask)[..., where, :], expected, atol=1e-14)


def test_widths_are_named():
    with pytest.raises(ValueError, match="q has width 5 and the directions have 4: expected equal widths"):
        Performer(3, 4)(*draw(3))
    with pytest.raises(ValueError, match="num_features is 0: expected at least 1"):
        Performer(0, 4)
    assert repr(Performer(3, 4)) == "Performer(num_features=3, d_head=4, seed=0, orthogonal=True)"
    assert Performer(3, 4) == Performer(3, 4) != Performer(3, 4, seed=1)
