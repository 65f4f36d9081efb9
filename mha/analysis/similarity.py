"""How alike heads are: in where they look, and in what they find.

Heads are the leading axis. Each number says little alone: compare it with what `shuffled_keys` or other weights give.
"""

import numpy as np

from mha.analysis.patterns import _maps

__all__ = ["js_distance", "linear_cka", "output_similarities", "pattern_distances", "shuffled_keys"]


def js_distance(
    a: "Float[Array, '*b i j']", b: "Float[Array, '*b i j']", *, visible: "Bool[Array, 'i j'] | None" = None
) -> "Float[Array, '*b']":
    """Return how differently two heads look, 0 … 1, averaged over queries.   Book: {eq}`js-distance`

    The distance of two rows is the square root of their Jensen–Shannon divergence in bits: 0 for the same weights, 1 if
    no key has weight in both. It is a metric (Endres and Schindelin 2003), and so is its mean. Each row is divided by
    its sum first. `visible` says which keys a query may see, all unless given; a query with one visible key or none has
    no choice and is left out. Two rows without weight are at 0, one is at 1 from any other. Of the heads of BERT,
    without the root: Clark et al. (2019).
    """
    rows = _choosing(visible, _same_pairs(a=a, b=b))
    a, b = _rows(a), _rows(b)
    return _to_each(a[..., rows, :], b[..., rows, :])


def pattern_distances(
    weights: "Float[Array, 'h i j']", others: "Float[Array, 'g i j'] | None" = None, *, visible=None
) -> "Float[Array, 'h g']":
    """Return `js_distance` of each head to each of `others`, to the same heads unless given."""
    if others is None:
        rows = _choosing(visible, _same_pairs(weights=weights))
        weights = _heads("weights", weights)[:, rows]
        half = [_to_each(head, weights[n:]) for n, head in enumerate(weights)]
        found = np.stack([np.pad(row, (len(weights) - len(row), 0)) for row in half])
        return np.maximum(found, found.T)
    rows = _choosing(visible, _same_pairs(weights=weights, others=others))
    others = _heads("others", others)[:, rows]
    return np.stack([_to_each(head, others) for head in _heads("weights", weights)[:, rows]])


def shuffled_keys(weights: "Float[Array, '*b i j']", rng, *, visible=None) -> "Float[Array, '*b i j']":
    """Return maps whose rows have the same weights on other keys, drawn anew for each row among the visible ones.

    What two heads still share is how sharp they are: the baseline for `pattern_distances`.
    """
    weights = _maps(weights).copy()
    visible = _seen(visible, weights.shape[-2:])
    for i, keys in enumerate(visible):
        keys = np.flatnonzero(keys)
        row = weights[..., i, keys]
        weights[..., i, keys] = rng.permuted(row, axis=-1)
    return weights


def linear_cka(x: "Float[Array, 'n d']", y: "Float[Array, 'n e']") -> float:
    """Return how alike two sets of vectors of the same n tokens are, 0 … 1.   Book: {eq}`linear-cka`

    1 if they agree up to a rotation, a factor and a shift of all. Few tokens make any two sets look alike: n is to be
    far above the widths. Centred kernel alignment, linear: Kornblith et al. (2019).
    """
    x, y = (_vectors(name, value, 2) for name, value in (("x", x), ("y", y)))
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} vectors and y {len(y)}: expected those of the same tokens")
    x, y = map(_centred, (x, y))
    sizes = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(x.T @ y) ** 2 / sizes) if sizes > 0 else 0.0


def output_similarities(
    outputs: "Float[Array, 'h n d']", others: "Float[Array, 'g n e'] | None" = None
) -> "Float[Array, 'h g']":
    """Return `linear_cka` of what each head found, or added, for n tokens, with each of `others`; by default the same.

    A head that says the same of every token has similarity 0 with all, itself too.
    """
    outputs = _kernels("outputs", outputs)
    others = outputs if others is None else _kernels("others", others)
    if outputs.shape[1] != others.shape[1]:
        raise ValueError("outputs and others are of different numbers of tokens: expected those of the same tokens")
    return outputs @ others.T


def _rows(weights):
    """Return rows that add up to 1, with one more column: nothing, where a row has no weight at all."""
    weights = _maps(weights)
    total = weights.sum(-1, keepdims=True)
    return np.concatenate([weights / np.where(total == 0, 1.0, total), total == 0], axis=-1)


def _heads(name, weights):
    weights = _rows(weights)
    if weights.ndim != 3:
        raise ValueError(f"{name} has {weights.ndim} axes: expected (heads, i, j)")
    return weights


def _same_pairs(**maps):
    """Return the shape of a map, or raise unless all have the same."""
    shapes = {name: np.shape(map_) for name, map_ in maps.items()}
    if len({shape[-2:] for shape in shapes.values()}) > 1:
        told = " and ".join(f"{name} has shape {shape}" for name, shape in shapes.items())
        raise ValueError(f"{told}: expected maps of the same queries and keys")
    return next(iter(shapes.values()))[-2:]


def _seen(visible, shape):
    visible = np.ones(shape, bool) if visible is None else np.asarray(visible)
    if visible.dtype != bool or visible.shape != shape:
        raise ValueError(
            f"visible is {visible.dtype} {visible.shape}: expected bool {shape}, queries down, keys across"
        )
    return visible


def _choosing(visible, shape):
    rows = _seen(visible, shape).sum(-1) >= 2
    if not rows.any():
        raise ValueError("visible leaves no query a choice of keys: expected a row with two keys or more")
    return rows


def _entropies(p):
    return -(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum(-1)


def _to_each(a, b):
    """Return the mean distance of the rows of a, (…, i, j), and of b."""
    divergence = _entropies((a + b) / 2) - (_entropies(a) + _entropies(b)) / 2
    return np.sqrt(np.clip(divergence, 0.0, 1.0)).mean(-1)


def _vectors(name, value, ndim):
    value = np.asarray(value, np.float64)
    if value.ndim != ndim or value.shape[-2] < 2:
        form = ("heads", "tokens", "width")[-ndim:]
        raise ValueError(f"{name} has shape {value.shape}: expected ({', '.join(form)}), of at least 2 tokens")
    return value


def _centred(x):
    """Return vectors without their mean; what is left of equal ones is rounding, and counts as nothing."""
    centred = x - x.mean(0)
    return centred * (np.linalg.norm(centred) > 1e-12 * np.linalg.norm(x))


def _kernels(name, outputs):
    """Return the centred products of the vectors of each head, as one vector of length 1: (heads, n · n)."""
    outputs = _vectors(name, outputs, 3)
    outputs = np.stack([_centred(head) for head in outputs])
    kernels = (outputs @ outputs.mT).reshape(len(outputs), -1)
    sizes = np.linalg.norm(kernels, axis=-1, keepdims=True)
    return kernels / np.where(sizes == 0, 1.0, sizes)
