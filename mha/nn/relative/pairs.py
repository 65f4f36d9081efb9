"""The distance of each pair of positions, and numbers picked by it."""

import torch

from mha import shapes
from mha.nn import checks

__all__ = ["check_positions", "distances", "pick"]


def check_positions(q_positions, k_positions):
    """Raise unless there is an integer for each row of q and of k, shared or per sample."""
    for name, x in {"q_positions": q_positions, "k_positions": k_positions}.items():
        checks.integers(name, x)
        shapes.check_rank(name, x, ("positions",))


def distances(q_positions, k_positions) -> "Int[Tensor, '*b i j']":
    """Return position of the key minus position of the query."""
    check_positions(q_positions, k_positions)
    return k_positions[..., None, :].long() - q_positions[..., :, None].long()  # unsigned would wrap around


def pick(dots: "Float[Tensor, '*b h i r']", rows: "Int[Tensor, '*b i j']") -> "Float[Tensor, '*b h i j']":
    """Return of each row of dot products, one for each row of a table, those that its pairs ask for."""
    rows = rows.unsqueeze(-3)
    batch = torch.broadcast_shapes(dots.shape[:-3], rows.shape[:-3])
    rows = rows.expand(*batch, dots.shape[-3], *rows.shape[-2:])
    return dots.expand(*batch, *dots.shape[-3:]).gather(-1, rows)
