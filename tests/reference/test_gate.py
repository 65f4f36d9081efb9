"""A gate lets through between nothing and all, and half at the logit 0."""

import numpy as np
import pytest

from compare import assert_equal
from mha.reference import gated


def test_by_hand():
    joined, logits = np.array([[8.0, 8.0, 8.0]]), np.array([[0.0, np.log(3.0), -np.log(3.0)]])
    assert_equal(gated(joined, logits), [[4.0, 6.0, 2.0]], rtol=1e-15)


def test_far_logits_open_and_shut():
    assert_equal(gated(np.array([[7.0, 7.0]]), np.array([[1e4, -1e4]])), [[7.0, 0.0]])


def test_one_logit_a_number():
    with pytest.raises(ValueError, match=r"logits has shape \(3, 1\): expected \(3, 5\)"):
        gated(np.zeros((3, 5)), np.zeros((3, 1)))
