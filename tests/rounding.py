"""How far two correct float64 evaluations of attention can lie apart: first-order bounds, from the sizes at hand."""

import numpy as np

EPS = 2.0**-53


def _norm(x):
    return float(np.linalg.norm(x, axis=-1).max(initial=0.0))


def _relative(q, k, scale, bias):
    """Bound the relative error of one weight.

    A score of d products errs by (d + 8) ε · |scale| ‖q‖‖k‖ (+ |bias|; a cap has slope ≤ 1), exp passes it on, the
    denominator adds that of n_k terms and as many roundings.
    """
    d, n_k = q.shape[-1], k.shape[-2]
    scale = d**-0.5 if scale is None else abs(scale)
    score = scale * _norm(q) * _norm(k) + (
        0.0 if bias is None else float(np.abs(bias[np.isfinite(bias)]).max(initial=0))
    )
    return 2 * (d + 8) * EPS * score + (n_k + 8) * EPS


def of_weights(q, k, *, scale=None, bias=None):
    """Return the bound for the weights of two evaluations."""
    return 2 * _relative(q, k, scale, bias)


def of_output(q, k, v, *, scale=None, bias=None, kept=1.0):
    """Return the bound for the outputs: n_k weighted values, weights that sum to at most 1 / kept."""
    return 2 * (_relative(q, k, scale, bias) + k.shape[-2] * EPS) * float(np.abs(v).max(initial=0.0)) / kept


def of_gradients(q, k, v, d_output, *, scale=None, bias=None, kept=1.0):
    """Return one bound for all gradients.

    A score's gradient p · (dp − Σ p dp) has terms below 2 ‖do‖‖v‖, each with four times the weight's relative error
    and a product's of e terms; the gradients of q, k, v, bias and sinks sum at most b·h·n of these, times |scale| ‖k‖,
    |scale| ‖q‖, or 1.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else abs(scale)
    terms = max(np.prod(d_output.shape[:-1]), k.shape[-2])
    relative = 4 * _relative(q, k, scale, bias) + (v.shape[-1] + terms + 8) * EPS
    factor = max(scale * _norm(k), scale * _norm(q), 1.0)
    return 2 * relative * terms * 2 * _norm(d_output) * max(_norm(v), 1.0) * factor / kept
