"""The layer of Mamba-2 (Dao and Gu 2024): what stands where attention stood, with a state instead of a cache of rows.

Same meaning as `mha.reference`.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from mha import shapes
from mha.integers import count
from mha.nn import checks, layer_checks
from mha.nn.formula import wide
from mha.nn.heads import join_heads, split_heads
from mha.nn.linear.recurrent import linear_attention
from mha.nn.linear.ssd import selective_state_space
from mha.nn.modes import readable
from mha.nn.ssm.convolution import causal_convolution
from mha.nn.ssm.state_cache import StateCache
from mha.nn.ssm.weights import state_space_weights

__all__ = ["Mamba2", "gated_rms_norm"]

FIRST_STEPS, FIRST_DECAYS = (1e-3, 1e-1), (1.0, 16.0)  # between which dt and −A are drawn, as in the authors' code


def gated_rms_norm(
    x: "Float[Tensor, '*b m']", gate: "Float[Tensor, '*b m']", gain=None, *, num_groups=1, eps=1e-5
) -> "Float[Tensor, '*b m']":
    """Multiply x by silu(gate), bring each group of coordinates to one size, then multiply by the gain."""
    checks.tensors(x=x, gate=gate, **({} if gain is None else {"gain": gain}))
    shapes.check_shape("gate", gate, x.shape)
    shapes.check_heads(x.shape[-1], num_groups, name="the width of x")
    groups = (wide(x) * F.silu(wide(gate))).unflatten(-1, (num_groups, -1))
    normed = F.rms_norm(groups, groups.shape[-1:], eps=eps).flatten(-2).to(gate.dtype)
    if gain is None:
        return normed
    shapes.check_shape("gain", gain, x.shape[-1:])
    return normed * gain


class Mamba2(nn.Module):
    """One projection, a short convolution, a state space, a gate, and a projection back; no token sees a later one.

    `num_heads` heads of width `d_head` (2 · d_model / num_heads by default) keep a state of `d_state` rows each;
    `num_groups` groups of heads share B and C, and a group is normed alone. `core` is the linear attention that
    computes the state space.
    """

    def __init__(
        self, d_model, num_heads, d_state, *, d_head=None, num_groups=1, conv_width=4, bias=False, norm_eps=1e-5,
        core=linear_attention, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if d_head is None:
            shapes.check_heads(2 * d_model, num_heads, name="2 · d_model")
            d_head = 2 * d_model // num_heads
        sizes = {"d_model": d_model, "num_heads": num_heads, "d_state": d_state, "d_head": d_head}
        for name, size in (sizes | {"num_groups": num_groups, "conv_width": conv_width}).items():
            setattr(self, name, count(name, size, least=1))
        shapes.check_groups(num_heads, num_groups, wording="num_groups is {} and num_heads is {}")
        layer_checks.check_flags(bias=bias)
        if not callable(core):
            raise TypeError(f"core is {core!r}: expected a function with the arguments of mha.nn.linear_attention")
        self.norm_eps, self.core = checks.positive("norm_eps", norm_eps), core
        made = {"device": device, "dtype": dtype}
        inner, mixed = num_heads * d_head, num_heads * d_head + 2 * num_groups * d_state
        self.in_proj = nn.Linear(d_model, inner + mixed + num_heads, bias=bias, **made)
        self.conv_weight = nn.Parameter(torch.empty(mixed, conv_width, **made))
        self.conv_bias = nn.Parameter(torch.empty(mixed, **made))
        for name in ("dt_bias", "A_log", "D"):
            setattr(self, name, nn.Parameter(torch.empty(num_heads, **made)))
        self.norm_gain = nn.Parameter(torch.empty(inner, **made))
        self.out_proj = nn.Linear(inner, d_model, bias=bias, **made)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self):
        """Draw the projections by Glorot's rule, and steps and decays so that heads forget at different speeds."""
        for linear in (self.in_proj, self.out_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        nn.init.uniform_(self.conv_weight, -(self.conv_width**-0.5), self.conv_width**-0.5)
        nn.init.zeros_(self.conv_bias)
        nn.init.uniform_(self.dt_bias, *map(math.log, FIRST_STEPS))
        steps = self.dt_bias.exp()
        self.dt_bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # softplus of it is the step
        self.A_log.copy_(nn.init.uniform_(self.A_log, *FIRST_DECAYS).log())
        nn.init.ones_(self.D)
        nn.init.ones_(self.norm_gain)

    def forward(self, x: "Float[Tensor, 'b n m']", *, keep=None) -> "Float[Tensor, 'b n m']":
        """Return (batch, length, d_model). `keep` (batch, length) is True at real tokens, padding before or behind."""
        if keep is not None:
            checks.keep("keep", keep, x.shape[:-1])
            check_one_stretch(keep)
        return self._mixed(x, None, None, keep)[0]

    def step(self, x, cache):
        """Return the output of the next tokens of each sequence and the cache with them; start with `StateCache()`."""
        if not isinstance(cache, StateCache):
            raise TypeError(f"cache is a {type(cache).__name__}: expected mha.nn.StateCache; start with StateCache()")
        layer_checks.check_input("x", x, self.in_proj)
        samples = [len(rows) for rows in (*cache.rows, cache.lengths) if not isinstance(rows, int)]
        if any(len(x) != expected for expected in samples):
            raise ValueError(f"x has {len(x)} samples: expected {samples[0]}, those of the cache")
        padded = not isinstance(cache.lengths, int) or cache.lengths < 0
        keep = (cache.positions(x.shape[1], x.device) >= 0).expand(x.shape[:2]) if padded else None
        y, inputs, state = self._mixed(x, cache.inputs, cache.state, keep)
        return y, cache.after(x.shape[1], inputs, state)

    def weights(self, x):
        """Return what each head's output at token i takes of its input at token j: (batch, heads, i, j)."""
        _, _, dt, B, C, _ = self._projected(x, None, None)
        return state_space_weights(dt, self._decays(), B, C)

    def _mixed(self, x, inputs, state, keep):
        """Return the output, the last inputs of the convolution and the last state."""
        gate, value, dt, B, C, inputs = self._projected(x, inputs, keep)
        y, state = selective_state_space(value, dt, self._decays(), B, C, D=self.D, state=state, core=self.core)
        y = gated_rms_norm(join_heads(y), gate, self.norm_gain, num_groups=self.num_groups, eps=self.norm_eps)
        return self.out_proj(y), inputs, state

    def _projected(self, x, inputs, keep):
        """Return the gate, what the state space takes, each split into heads, and the last inputs."""
        layer_checks.check_input("x", x, self.in_proj)
        inner, shared = self.num_heads * self.d_head, self.num_groups * self.d_state
        x = x if keep is None else x.masked_fill(~keep[..., None], 0.0)
        gate, mixed, step = self.in_proj(x).split([inner, inner + 2 * shared, self.num_heads], -1)
        dt = F.softplus(wide(step) + wide(self.dt_bias)).mT
        if keep is not None:  # padding writes nothing, and nothing fades while it passes
            mixed, dt = mixed.masked_fill(~keep[..., None], 0.0), dt.masked_fill(~keep[:, None], 0.0)
        mixed, inputs = causal_convolution(mixed.mT, self.conv_weight, self.conv_bias, state=inputs)
        value, B, C = F.silu(mixed).mT.split([inner, shared, shared], -1)
        heads = split_heads(value, self.num_heads), split_heads(B, self.num_groups), split_heads(C, self.num_groups)
        return gate, heads[0], dt, *heads[1:], inputs

    def _decays(self):
        return -wide(self.A_log).exp()

    def extra_repr(self):
        names = "d_model", "num_heads", "d_state", "d_head", "num_groups", "conv_width"
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def check_one_stretch(keep):
    """Raise if real tokens do not stand side by side, where the numbers can be read: a convolution skips nothing."""
    if keep.device.type != "cpu" or not readable(keep):
        return
    holes = (keep & ~F.pad(keep, (1, 0))[:, :-1]).sum(-1) > 1
    if bool(holes.any()):
        raise ValueError(f"keep of sample {int(holes.nonzero()[0])} has a hole: expected padding before or behind")
