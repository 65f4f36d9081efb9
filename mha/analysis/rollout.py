"""What of the input is left in a token after several layers, if maps were all that happens.

Both methods join the maps of all layers with the skip connections around them, and neither knows values, norms or
feed-forward layers: Abnar and Zuidema (2020). `weights` holds one map a layer, so merge heads first:
`maps.mean(-3)`.
"""

from collections import deque

import numpy as np

from mha.integers import integer

__all__ = ["attention_flow", "attention_rollout"]


def attention_rollout(weights: "Float[Array, 'L *b i j']", *, residual=0.5) -> "Float[Array, 'L *b i j']":
    """Return how much of input token j is in token i after each layer: R_l = Ã_l R_{l−1}.   Book: {eq}`rollout`

    Ã = ρ I + (1 − ρ) A, with ρ = `residual` for the share of a token that stays by the skip connection, and each row
    of A divided by its sum. A row that sees no key keeps its token whole.
    """
    mixed = _with_residual(weights, residual)
    found = [mixed[0]]
    for layer in mixed[1:]:
        found.append(layer @ found[-1])
    return np.stack(found)


def attention_flow(weights: "Float[Array, 'L i j']", query, *, residual=0.5) -> "Float[Array, ' j']":
    """Return the largest flow from token `query` of the last layer to each input token.   Book: {eq}`attention-flow`

    The edges from a layer to the one below are pipes as wide as their weights Ã, those of `attention_rollout`. A flow
    to one token may use them all, so the flows do not add up to 1: each is at most 1, and at least what rollout gives.
    """
    mixed = _with_residual(weights, residual)
    if mixed.ndim != 3:
        raise ValueError(f"weights has shape {mixed.shape}: expected (layers, i, j), one map a layer")
    query, n = integer("query", query), mixed.shape[-1]
    if not -n <= query < n:
        raise ValueError(f"query is {query}: expected a token from {-n} to {n - 1}")
    top = len(mixed) * n
    capacity = np.zeros((top + n, top + n))
    for layer, widths in enumerate(mixed):
        capacity[(layer + 1) * n : (layer + 2) * n, layer * n : (layer + 1) * n] = widths
    return np.array([_max_flow(capacity.copy(), top + query % n, token) for token in range(n)])


def _with_residual(weights, residual):
    weights = np.asarray(weights, np.float64)
    if weights.ndim < 3 or len(weights) == 0 or weights.shape[-1] != weights.shape[-2]:
        raise ValueError(f"weights has shape {weights.shape}: expected (layers, …, n, n), a layer and a token at least")
    if not (weights >= 0).all():
        raise ValueError("weights holds negative numbers or NaN: expected attention weights, 0 or more")
    if not 0 <= residual <= 1:
        raise ValueError(f"residual is {residual}: expected a share from 0 to 1")
    total, own = weights.sum(-1, keepdims=True), np.eye(weights.shape[-1])
    rows = np.where(total == 0, own, weights / np.where(total == 0, 1.0, total))
    return residual * own + (1 - residual) * rows


def _max_flow(free, source, sink, tolerance=1e-12):
    """Return the largest flow by shortest augmenting paths (Edmonds and Karp 1972); `free` is used up."""
    flow = 0.0
    while path := _shortest_path(free > tolerance, source, sink):
        pipes = path[:-1], path[1:]
        width = free[pipes].min()
        free[pipes] -= width
        free[pipes[::-1]] += width
        flow += width
    return flow


def _shortest_path(open_pipes, source, sink):
    """Return the nodes of a shortest path through the open pipes; nothing where there is none."""
    before, waiting = {source: None}, deque([source])
    while waiting and sink not in before:
        node = waiting.popleft()
        for other in map(int, np.flatnonzero(open_pipes[node])):
            if other not in before:
                before[other] = node
                waiting.append(other)
    path, node = [], sink if sink in before else None
    while node is not None:
        path.append(node)
        node = before[node]
    return path[::-1]
