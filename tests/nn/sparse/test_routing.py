"""Routing attention against the reference; no more pairs than meet; a layer whose centroids move."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, reference
from mha.nn import Routing, cluster_members, moved_centroids, routing_attention
from nn.layers import draw, layer
from nn.sparse.largest import largest_tensor

MASKS = {
    "nothing": None,
    "causal": masks.causal,
    "lengths": masks.lengths([7, 0]),
    "both": masks.lengths([11, 3]) & masks.causal,
}


def tensors(n=11, groups=3):
    return draw(2, 6, n, 5), draw(2, groups, n, 5, seed=1), draw(2, groups, n, 2, seed=2), draw(6, 4, 5, seed=3)


@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_reference(name, size):
    given, options = tensors(), {"cluster_size": size, "mask": MASKS[name]}
    expected = reference.routing_attention(*(x.numpy() for x in given), **options)
    assert_equal(routing_attention(*given, **options), expected, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1])
def test_short_sequences(n):
    given = tensors(n)
    expected = reference.routing_attention(*(x.numpy() for x in given), cluster_size=4)
    assert_equal(routing_attention(*given, cluster_size=4), expected, atol=1e-14)


def test_leading_axes_and_scale():
    q, k, v, centroids = tensors()
    options = {"cluster_size": 4, "scale": 0.3}
    found = routing_attention(q[None].expand(3, -1, -1, -1, -1), k, v, centroids, **options)
    assert_equal(found[2], routing_attention(q, k, v, centroids, **options), atol=1e-14)


def test_members_and_steps_are_those_of_the_reference():
    q, k, _, centroids = tensors(groups=6)
    q[1, :, 7:] = torch.nan
    options = {"cluster_size": 4, "lengths": np.array([11, 7])}
    found = cluster_members(q, centroids, **options)
    assert_equal(found, reference.cluster_members(q.numpy(), centroids.numpy(), **options))
    given = [x.numpy() for x in (centroids, q, k)]
    expected = reference.moved_centroids(*given, decay=0.7, lengths=[11, 7])
    assert_equal(moved_centroids(centroids, q, k, decay=0.7, lengths=[11, 7]), expected, atol=1e-14)


def test_gradients():
    """The choice is piecewise constant: differences do not meet its jumps, and the gradient passes the rest."""
    q, k, v, centroids = (x[:1] if i < 3 else x for i, x in enumerate(tensors(5, groups=6)))
    given = [x.detach().requires_grad_() for x in (q[:, :2], k[:, :2], v[:, :2])]

    def call(*tokens):
        return routing_attention(*tokens, centroids[:2], cluster_size=3, mask=masks.causal)

    assert gradcheck(call, given)


def test_no_tensor_of_all_pairs():
    """64 clusters of 64 tokens of 4096: 64 · 64² pairs, and the cosines of 64 · 4096."""
    n = 4096
    q, k, v = (torch.randn(1, 1, n, 8) for _ in range(3))
    found = largest_tensor(
        lambda: routing_attention(q, k, v, torch.randn(1, 64, 8), cluster_size=64, mask=masks.causal)
    )
    assert 64 * 64**2 <= found <= 2 * 64 * n < n * n // 16


def test_a_layer_moves_its_centroids_while_it_trains():
    core = Routing(6, 4, num_clusters=3, cluster_size=4, decay=0.9).double()
    module, x = layer(13, 6, d_head=4, core=core), draw(2, 11, 13)
    begun = core.centroids.clone()
    module.eval()(x)
    assert_equal(core.centroids, begun)
    q, k, v = module.project(x)
    module.train()
    found = module.per_head(x, mask=masks.causal)
    assert_equal(found, routing_attention(q, k, v, begun, cluster_size=4, mask=masks.causal))
    assert_equal(core.centroids, moved_centroids(begun, q, k, decay=0.9))
    assert float((core.centroids - begun).abs().max()) > 1e-3
    assert "core.centroids" in module.state_dict()


def test_the_layer_names_what_it_lacks():
    core = Routing(6, 4, num_clusters=3, cluster_size=4).double()
    module, x = layer(13, 6, d_head=4, core=core, softcap=2.0), draw(2, 11, 13)
    with pytest.raises(ValueError, match="softcap is given: routing attention has no softcap"):
        module(x)
    with pytest.raises(ValueError, match=r"decay is 1\.5: expected a share from 0 to 1"):
        Routing(6, 4, num_clusters=3, cluster_size=4, decay=1.5)
    with pytest.raises(TypeError, match="seed is None: expected an integer"):
        Routing(6, 4, num_clusters=3, cluster_size=4, seed=None)
    with pytest.raises(ValueError, match=r"centroids has shape \(5, 3, 4\): expected \(6, clusters, 4\)"):
        layer(13, 6, d_head=4, core=Routing(5, 4, num_clusters=3, cluster_size=4).double())(x)
