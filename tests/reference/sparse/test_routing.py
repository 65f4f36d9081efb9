"""Routing attention against a loop over queries and clusters."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, cluster_members, moved_centroids, routing_attention


def draw(n=11, num_clusters=3, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n, 5)), make((2, 3, n, 5)), make((2, 3, n, 2)), make((6, num_clusters, 5))


def cosine(one, two):
    return one @ two / np.sqrt((one @ one) * (two @ two))


def members(x, centroid, size):
    return sorted(range(len(x)), key=lambda t: (-cosine(x[t], centroid), t))[:size]


def in_loops(q, k, v, centroids, size, causal, same=False):
    """Return the definition: among the members of each cluster a softmax; the mean of what the clusters say."""
    output = np.zeros((*q.shape[:-1], v.shape[-1]))
    for b, h in np.ndindex(q.shape[:2]):
        answers = [[] for _ in range(q.shape[2])]
        for centroid in centroids[h]:
            asked = members(k[b, h // 2], centroid, size)
            for i in members(q[b, h], centroid, size):
                seen = [j for j in asked if j <= i or not causal]
                weights = np.exp([q[b, h, i] @ k[b, h // 2, j] / 5**0.5 for j in seen])
                if seen:
                    answers[i].append(weights @ v[b, h // 2, seen] / weights.sum())
        for i, found in enumerate(answers):
            output[b, h, i] = np.mean(found, axis=0) if found else 0
    return output


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("n", [0, 1, 11])
def test_is_the_loop(n, size, causal):
    q, k, v, centroids = draw(n)
    mask = masks.causal if causal else None
    found = routing_attention(q, k, v, centroids, cluster_size=size, mask=mask)
    assert_equal(found, in_loops(q, k, v, centroids, size, causal), atol=1e-13)


def test_one_cluster_of_all_is_attention():
    q, k, v, centroids = draw(num_clusters=1)
    for mask in (None, masks.causal, masks.lengths([3, 11]) & masks.causal):
        found = routing_attention(q, k, v, centroids, cluster_size=11, mask=mask)
        real = np.arange(11)[:, None] < ([[[[3]]], [[[11]]]] if mask not in (None, masks.causal) else 11)
        assert_equal(found, np.where(real, attention(q, k, v, mask=mask), 0), atol=1e-14)


def test_queries_and_keys_of_one_tensor_share_their_clusters():
    q, _, _, centroids = draw()
    inside = cluster_members(q, centroids, cluster_size=4)
    assert_equal(inside.sum(-1), np.full((2, 6, 3), 4))
    turned = cluster_members(q * 3.7, centroids * 0.1, cluster_size=4)
    assert_equal(inside, turned, label="only directions count")


def test_padding_takes_no_place():
    q, k, v, centroids = draw()
    q[1, :, 7:], k[1, :, 7:], v[1, :, 7:] = np.nan, np.nan, np.nan
    for causal in (False, True):
        mask = masks.lengths([11, 7]) & masks.causal if causal else masks.lengths([11, 7])
        padded = routing_attention(q, k, v, centroids, cluster_size=4, mask=mask)
        alone = routing_attention(
            q[1:, :, :7], k[1:, :, :7], v[1:, :, :7], centroids, cluster_size=4, mask=masks.causal if causal else None
        )
        assert_equal(padded[1:, :, :7], alone, atol=1e-14)
        assert_equal(padded[1, :, 7:], np.zeros((6, 4, 2)))


def test_a_later_token_can_take_a_place():
    """What the docstring warns of: causal inside the cluster is not causal in the choice of its members."""
    q, k, v, centroids = draw()
    before = routing_attention(q, k, v, centroids, cluster_size=4, mask=masks.causal)
    q, k = q.copy(), k.copy()
    q[:, :, -1], k[:, :, -1] = q[:, :, 0], k[:, :, 0] + 0.1
    after = routing_attention(q, k, v, centroids, cluster_size=4, mask=masks.causal)
    assert np.abs(after - before)[:, :, :-1].max() > 0.1


def test_centroids_find_the_directions():
    """Two bundles of directions, one centroid begun in each half: they end in the middle of the bundles."""
    rng = np.random.default_rng(1)
    middles = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    x = (middles[:, None] + 0.05 * rng.standard_normal((2, 40, 3))).reshape(1, 1, 80, 3) * rng.uniform(1, 9, (80, 1))
    centroids = np.array([[[1.0, 0.4, 0.5], [0.2, 1.0, -0.6], [-1.0, -1.0, -1.0]]])
    for _ in range(60):
        centroids = moved_centroids(centroids, x, decay=0.8)
    assert_equal(np.linalg.norm(centroids, axis=-1), np.ones((1, 3)), atol=1e-15)
    assert_equal(centroids[0, :2], middles, atol=0.05)
    assert_equal(centroids[0, 2], -np.ones(3) / 3**0.5, atol=1e-12, label="nearest to no token")


def test_a_step_is_the_moving_average():
    q, k, _, centroids = draw()
    k = np.repeat(k, 2, axis=1)
    moved = moved_centroids(centroids, q, k, decay=0.7, lengths=[11, 4])
    for h, c in np.ndindex(6, 3):
        near = [
            x[b, h, t] / np.linalg.norm(x[b, h, t])
            for x in (q, k)
            for b, n in ((0, 11), (1, 4))
            for t in range(n)
            if np.argmax([cosine(x[b, h, t], other) for other in centroids[h]]) == c
        ]
        expected = 0.7 * centroids[h, c] / np.linalg.norm(centroids[h, c]) + 0.3 * np.mean(near, axis=0)
        assert_equal(moved[h, c], expected / np.linalg.norm(expected), atol=1e-14)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mask": masks.window(2, 0)}, r"mask holds window\(2, 0\): routing_attention supports masks\.causal"),
        ({"cluster_size": 0}, "cluster_size is 0: expected at least 1"),
        ({"centroids": np.zeros((5, 3, 5))}, r"centroids has shape \(5, 3, 5\): expected \(6, clusters, 5\)"),
        ({"q": np.zeros((2, 6, 7, 5))}, "k has length 11 and q has length 7: expected the tokens of one sequence"),
    ],
    ids=["mask", "size", "centroids", "cross"],
)
def test_what_it_refuses(change, words):
    q, k, v, centroids = draw()
    call = {"q": q, "k": k, "v": v, "centroids": centroids, "cluster_size": 4} | change
    with pytest.raises(ValueError, match=words):
        routing_attention(**call)
