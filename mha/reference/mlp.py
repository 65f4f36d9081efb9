"""The feed-forward layer of a Transformer: each token alone, through a wider layer and back (Vaswani et al. 2017)."""

import math

import numpy as np

from mha import shapes
from mha.reference.heads import project


def relu(x):
    """Return x where it is positive, else 0."""
    return np.maximum(x, 0)


def silu(x):
    """Return x · sigmoid(x) (Elfwing et al. 2018)."""
    return x * np.exp(-np.logaddexp(0, -x))  # 1 / (1 + e^−x) without an overflow


def gelu(x):
    """Return x · Φ(x), Φ the distribution function of a normal variable (Hendrycks and Gimpel, 2016)."""
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    """Return the approximation of `gelu` by a tanh that GPT-2 was trained with: within 5e-4 of it."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


PLAIN = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
GATED = {"swiglu": silu, "geglu": gelu, "geglu_tanh": gelu_tanh}


def feed_forward(
    x: "Float[Array, '*b n m']",
    w_up: "Float[Array, 'm f']",
    w_down: "Float[Array, 'f m']",
    *,
    w_gate: "Float[Array, 'm f'] | None" = None,
    activation="relu",
    biases=(None, None, None),
) -> "Float[Array, '*b n m']":
    """Widen each vector, bend it, and bring it back: activation(x W_up) W_down.   Book: {eq}`feed-forward`.

    The gated activations multiply x W_up by silu(x W_gate), "swiglu", or by its gelu, "geglu" (Shazeer 2020).
    `biases` are those of up, down and gate.
    """
    _check_activation(activation, w_gate)
    shapes.check_biases(biases, ("up", "down", "the gate"))
    b_up, b_down, b_gate = biases
    up = project("x", x, "w_up", w_up, b_up)
    if activation in GATED:
        hidden = GATED[activation](project("x", x, "w_gate", w_gate, b_gate)) * up
    else:
        hidden = PLAIN[activation](up)
    return project("the hidden numbers", hidden, "w_down", w_down, b_down)


def _check_activation(activation, w_gate):
    if activation not in PLAIN | GATED:
        known = ", ".join(map(repr, PLAIN | GATED))
        raise ValueError(f"activation is {activation!r}: expected one of {known}")
    if (activation in GATED) != (w_gate is not None):
        expected = "a matrix, for this activation is gated" if w_gate is None else "None, for no gate is in it"
        raise ValueError(f"w_gate is {'None' if w_gate is None else 'given'} and activation is {activation!r}: "
                         f"expected {expected}")  # fmt: skip
