"""Nyström attention: landmarks, the pseudo-inverse, and the limit in which it is attention."""

import numpy as np
import pytest

from approximation_calls import D, draw, left_and_right
from compare import assert_equal
from mha import reference
from mha.reference import Nystrom, convolved_values, iterative_pseudo_inverse, segment_means, softmax


def test_segments_by_hand():
    x = np.arange(7.0)[:, None]
    means, some = segment_means(x, 3)
    assert_equal(means, [[1], [3.5], [5.5]])  # 0 1 2 | 3 4 | 5 6
    assert some.all()
    shown = np.array([0, 1, 1, 0, 1, 1, 1], bool)[:, None]
    assert_equal(segment_means(x, 3, shown)[0], [[1.5], [4.5], [6]])  # 1 2 | 4 5 | 6
    means, some = segment_means(x[:2], 3)
    assert_equal(means, [[0], [1], [0]])
    assert_equal(some, [[True], [True], [False]])


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (3, 5)], ids=str)
def test_the_iteration_finds_the_pseudo_inverse(shape):
    a = softmax(np.random.default_rng(0).standard_normal((2, *shape)))
    assert_equal(iterative_pseudo_inverse(a, 30), np.linalg.pinv(a), atol=1e-9)
    a[:, 1] = 0  # a landmark that is not there
    assert_equal(iterative_pseudo_inverse(a, 30), np.linalg.pinv(a), atol=1e-9)


def test_each_matrix_converges_by_itself():
    """The authors' code divides by the largest column of the whole batch: there, samples depend on each other."""
    a = softmax(np.random.default_rng(0).standard_normal((4, 5, 5)) * [[[1]], [[1]], [[1]], [[9]]])
    assert_equal(iterative_pseudo_inverse(a)[:3], iterative_pseudo_inverse(a[:3]))


def formula(q, k, v, landmarks, iterations=6):
    """Return equations 13 to 15 of Xiong et al. (2021) for one head whose length is a multiple of the landmarks."""
    n = len(q)
    q, (q_, k_) = q / D**0.5, (x.reshape(landmarks, n // landmarks, -1).mean(1) for x in (q / D**0.5, k))
    f, a, b = (softmax(x @ y.T) for x, y in ((q, k_), (q_, k_), (q_, k)))
    z = a.T / (np.abs(a).sum(0).max() * np.abs(a).sum(1).max())
    one = np.eye(landmarks)
    for _ in range(iterations):
        z = z @ (13 * one - a @ z @ (15 * one - a @ z @ (7 * one - a @ z))) / 4
    return f @ z @ b @ v


def test_the_formula_of_the_paper():
    q, k, v = draw(12, groups=4)
    found = Nystrom(4)(q, k, v)
    for at in np.ndindex(2, 4):
        assert_equal(found[at], formula(q[at], k[at], v[at], 4), atol=1e-12)
        with pytest.raises(AssertionError):
            assert_equal(found[at], formula(q[at], k[at], v[at], 4, iterations=5), atol=1e-12)


def test_convolution_by_hand():
    v = np.array([[[1.0], [2], [4]], [[1], [2], [4]]])
    found = convolved_values(v, np.array([[1.0, 10, 100], [0, 1, 0]]))
    assert_equal(found, [[[210], [421], [42]], v[1]])
    with pytest.raises(
        ValueError, match=r"kernels has shape \(2, 2\): expected \(2, size\), an odd size for each head"
    ):
        convolved_values(v, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"kernels has shape \(3, 5\): expected \(2, size\)"):
        convolved_values(v, np.ones((3, 5)))


def test_all_landmarks_are_attention():
    assert reference.approximation_error(Nystrom(13, iterations=30), *draw(13)) < 1e-8


def test_hidden_keys_are_in_no_mean():
    rows = draw(9)
    expected = Nystrom(4)(*rows)
    for wide, padding, where in left_and_right(rows, 4):
        wide[0] = np.nan_to_num(wide[0], nan=3.0)
        assert_equal(Nystrom(4)(*wide, mask=padding)[..., where, :], expected, atol=1e-12)
