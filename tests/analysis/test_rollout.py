"""Rollout and flow where they can be said without them: uniform maps, single layers, a maximum flow of networkx."""

import itertools

import networkx
import numpy as np
import pytest

from compare import assert_equal
from mha import masks, reference
from mha.analysis.rollout import attention_flow, attention_rollout


def maps(layers, n, seed=0, *, mask=masks.causal, batch=()):
    q, k = np.random.default_rng(seed).normal(0, 2, (2, layers, *batch, n, 5))
    return reference.attention_weights(q, k, mask=mask)


def by_paths(weights, residual):
    """Rollout from its meaning: the sum over all paths of the products of their weights."""
    layers, n = len(weights), weights.shape[-1]
    mixed = residual * np.eye(n) + (1 - residual) * weights
    found = np.zeros((n, n))
    for path in itertools.product(range(n), repeat=layers + 1):  # from the top down
        steps = zip(mixed[::-1], path[:-1], path[1:], strict=True)
        found[path[0], path[-1]] += np.prod([layer[i, j] for layer, i, j in steps])
    return found


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_rollout_sums_over_all_paths(residual):
    weights = maps(3, 5)
    found = attention_rollout(weights, residual=residual)
    assert_equal(found[-1], by_paths(weights, residual), rtol=1e-12, atol=1e-15)
    assert_equal(found[1], by_paths(weights[:2], residual), rtol=1e-12, atol=1e-15)
    if 0 < residual < 1:
        assert np.abs(found[-1] - by_paths(weights[::-1], residual)).max() > 0.01, "the order of the layers shows"


def test_uniform_maps_stay_uniform_without_the_skip():
    uniform = np.full((4, 7, 7), 1 / 7)
    assert_equal(attention_rollout(uniform, residual=0.0), uniform, rtol=1e-12)


def test_uniform_maps_with_the_skip_by_hand():
    """Ã = ρ I + (1 − ρ) U with U² = U, so after L layers the token keeps ρ^L of itself and U has the rest."""
    n, layers, share = 7, 5, 0.5
    found = attention_rollout(np.full((layers, n, n), 1 / n), residual=share)
    for depth in range(layers):
        own = share ** (depth + 1)
        assert_equal(found[depth], own * np.eye(n) + (1 - own) / n, rtol=1e-12)


def test_rows_add_up_to_one_with_sinks_batches_and_empty_rows():
    weights = 0.6 * maps(3, 7, batch=(2, 3))  # a sink took the rest
    weights[1, 0, 0, 2] = 0
    found = attention_rollout(weights)
    assert found.shape == (3, 2, 3, 7, 7)
    assert_equal(found.sum(-1), np.ones((3, 2, 3, 7)), rtol=1e-12)
    assert_equal(found[:, 1, 2], attention_rollout(weights[:, 1, 2]), rtol=0)
    assert_equal(found[1, 0, 0, 2], found[0, 0, 0, 2], rtol=0, label="a row that sees nothing keeps its token")


def flow_by_networkx(weights, query, residual):
    n = weights.shape[-1]
    graph = networkx.DiGraph()
    for depth, layer in enumerate(residual * np.eye(n) + (1 - residual) * weights):
        for i, j in itertools.product(range(n), repeat=2):
            graph.add_edge((depth + 1, i), (depth, j), capacity=layer[i, j])
    return [networkx.maximum_flow_value(graph, (len(weights), query), (0, j)) for j in range(n)]


@pytest.mark.parametrize(("layers", "n", "query"), [(1, 5, 4), (2, 5, 3), (5, 7, 6), (3, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("residual", [0.0, 0.5])
def test_flow_equals_networkx(layers, n, query, residual):
    for seed, mask in ((1, masks.causal), (2, None)):
        weights = maps(layers, n, seed, mask=mask)
        found = attention_flow(weights, query, residual=residual)
        assert_equal(found, flow_by_networkx(weights, query, residual), rtol=1e-9, atol=1e-9)


def test_flow_is_at_least_rollout_and_at_most_every_cut():
    weights = maps(4, 7, 3)
    flow = attention_flow(weights, -1)
    mixed = 0.5 * np.eye(7) + 0.5 * weights
    assert (flow >= attention_rollout(weights)[-1, -1] - 1e-12).all()
    assert (flow <= 1 + 1e-12).all()
    assert (flow <= mixed[0].sum(0) + 1e-12).all()
    assert flow.sum() > 1.1, "the flows to different tokens share pipes"


def test_flow_through_one_layer_is_the_map():
    weights = maps(1, 7, 4)
    assert_equal(attention_flow(weights, 5, residual=0.0), weights[0, 5], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_rollout(np.ones((3, 4))), r"weights has shape \(3, 4\): expected \(layers, …, n, n\)"),
        (lambda: attention_rollout(np.ones((2, 3, 4))), r"weights has shape \(2, 3, 4\)"),
        (lambda: attention_rollout(np.ones((0, 3, 3))), r"weights has shape \(0, 3, 3\)"),
        (lambda: attention_rollout(-np.ones((1, 3, 3))), "weights holds negative numbers or NaN"),
        (lambda: attention_rollout(maps(1, 3), residual=1.5), "residual is 1.5: expected a share from 0 to 1"),
        (lambda: attention_flow(maps(1, 3), 3), "query is 3: expected a token from -3 to 2"),
        (lambda: attention_flow(maps(1, 3, batch=(2,)), 1), r"expected \(layers, i, j\), one map a layer"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
