"""How much a row that a model computed depends on each row that it was given."""

import torch

__all__ = ["influence"]


def influence(output, inputs, *, draws=8, generator=None):
    """Return by row j the length ‖∂output / ∂inputs[…, j, :]‖ of the derivative, averaged.   Book: {eq}`influence`.

    `output` (d,) was computed from `inputs` (…, length, m), a tensor that asks for gradients; the result is (…,
    length). The length is the root of the sum of squares over all pairs of components. It is estimated from
    `draws` random directions, whose mean square it is; with draws=None it is exact, at the price of a backward pass
    for each component.
    """
    if output.ndim != 1:
        raise ValueError(f"output has shape {tuple(output.shape)}: expected (d,), one row")
    if draws is not None and draws < 1:
        raise ValueError(f"draws is {draws}: expected at least 1, or None for the exact length")
    if draws is None:
        directions = torch.eye(len(output), dtype=output.dtype, device=output.device)
    else:
        scale = draws**-0.5
        directions = scale * torch.randn(draws, len(output), dtype=output.dtype, generator=generator).to(output.device)
    squares = torch.zeros(inputs.shape[:-1], dtype=output.dtype, device=output.device)
    for direction in directions:
        (gradient,) = torch.autograd.grad(output, inputs, direction, retain_graph=True)
        squares += gradient.square().sum(-1)
    return squares.sqrt()
