"""The feed-forward layer of a Transformer: each token alone, through a wider layer and back (Vaswani et al. 2017).

Same meaning as `mha.reference.mlp`.
"""

from collections.abc import Callable
from functools import partial

from torch import nn
from torch.nn import functional

from mha.integers import count
from mha.nn import layer_checks

__all__ = ["ACTIVATIONS", "GATED", "FeedForward"]

ACTIVATIONS: dict[str, Callable] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}  # what acts on the gate (Shazeer 2020)


class FeedForward(nn.Module):
    """Two linear layers with a bend between them, for each token alone: down(activation(up x)).

    "relu", "gelu", "gelu_tanh" and "silu" bend the hidden numbers; "swiglu", "geglu" and "geglu_tanh" multiply them
    by a gate: down(silu(gate x) · up x) (Shazeer 2020). Dropout acts on the hidden numbers, in training mode only.
    """

    def __init__(self, d_model, d_mlp, *, activation="relu", bias=True, dropout=0.0, device=None, dtype=None):
        super().__init__()
        for name, size in {"d_model": d_model, "d_mlp": d_mlp}.items():
            count(name, size, least=1)
        layer_checks.check_choice("activation", activation, [*ACTIVATIONS, *GATED])
        layer_checks.check_flags(bias=bias)
        layer_checks.check_probability("dropout", dropout)
        self.activation, self.dropout = activation, dropout
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.up = nn.Linear(d_model, d_mlp, **options)
        self.gate = nn.Linear(d_model, d_mlp, **options) if activation in GATED else None
        self.down = nn.Linear(d_mlp, d_model, **options)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights by Glorot's rule and set the biases to zero."""
        for linear in filter(None, (self.up, self.gate, self.down)):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: "Float[Tensor, '*b n m']") -> "Float[Tensor, '*b n m']":
        """Return (batch, length, d_model); no token sees another."""
        layer_checks.check_input("x", x, self.up)
        bend = ACTIVATIONS[GATED.get(self.activation, self.activation)]
        hidden = bend(self.up(x)) if self.gate is None else bend(self.gate(x)) * self.up(x)
        return self.down(functional.dropout(hidden, self.dropout, self.training))

    def extra_repr(self):
        return f"activation={self.activation!r}, dropout={self.dropout}"
