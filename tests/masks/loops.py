"""A rule asked one pair at a time, in Python."""

import numpy as np

LENGTHS = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (7, 7), (7, 2), (2, 7), (11, 13)]


def by_pairs(rule, n_q, n_k, first):
    """Return the array (i, j) of `rule(i, j)`, the first query at position `first`."""
    return np.array([[rule(first + row, j) for j in range(n_k)] for row in range(n_q)], bool).reshape(n_q, n_k)
