"""`mha.nn.linear.performer`: the running stabiliser is exact, where a common one would look ahead or vanish."""

import numpy as np
import torch

from approximation_calls import D, draw, left_and_right, tensors
from compare import assert_equal
from mha import masks, nn, reference


def test_features_are_those_of_the_reference():
    q, _, _ = draw(5)
    for orthogonal in (True, False):
        one, two = (floor.Performer(7, D, seed=3, orthogonal=orthogonal) for floor in (reference, nn))
        assert_equal(two.directions, one.directions)
        found = nn.positive_features(torch.from_numpy(q), torch.from_numpy(two.directions))
        assert_equal(found, reference.positive_features(q, one.directions), rtol=1e-14)


def test_growing_keys_leave_the_first_rows_their_digits():
    """In float32 features of the first keys, divided by the largest of all, would be 0, and with them their rows."""
    q, k, v = draw(130, groups=4)
    k *= np.linspace(0.1, 25, 130)[:, None]
    expected = reference.Performer(32, D)(q, k, v, mask=masks.causal)
    core, (q, k, v) = nn.Performer(32, D), (x.float() for x in tensors(q, k, v))
    assert_equal(core(q, k, v, mask=masks.causal), expected, atol=2e-3)  # exponents up to 500: e^x errs by 500 ε
    features = k * D**-0.25 @ torch.from_numpy(core.directions).float().T
    features = features - (k * D**-0.25).square().sum(-1, keepdim=True) / 2
    assert (features - features.amax((-2, -1), keepdim=True)).exp().amax(-1).min() == 0


def test_padding_is_outside_of_the_denominator():
    rows, core = draw(9), nn.Performer(7, D)
    for options in ({}, {"mask": masks.causal}):
        expected = core(*tensors(*rows), **options)
        for wide, padding, where in left_and_right(rows, 4):
            mask = padding & options["mask"] if options else padding
            assert_equal(core(*tensors(*wide), mask=mask)[..., where, :], expected, atol=1e-14)
