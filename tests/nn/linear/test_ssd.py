"""`mha.nn.linear.ssd` against the reference, and against the mixer of another library, weights and all."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck
from transformers import Mamba2Config
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from compare import assert_equal
from linear_calls import draw_space
from mha import reference
from mha.nn import linear_attention, selective_state_space


@pytest.mark.parametrize("n", [0, 1, 4, 13])
def test_equals_the_reference(n):
    given, D, state = draw_space(n)
    expected = reference.selective_state_space(*given, D=D, state=state)
    tensors = [torch.from_numpy(x) for x in (*given, D, state)]
    found = selective_state_space(*tensors[:5], D=tensors[5], state=tensors[6])
    for one, two in zip(found, expected, strict=True):
        assert_equal(one, two, rtol=1e-12, atol=1e-12)


def test_a_core_is_called():
    given, _, _ = draw_space(3)
    asked = []
    core = lambda *x, **options: (asked.append(sorted(options)), linear_attention(*x, **options))[1]  # noqa: E731
    selective_state_space(*map(torch.from_numpy, given), core=core)
    assert asked == [["log_decay", "state"]]


def test_gradients():
    given, D, state = draw_space(3, num_heads=2, num_groups=1, d=2, e=2)
    leaves = [torch.from_numpy(x).requires_grad_() for x in (*given, D, state)]
    assert gradcheck(lambda *x: selective_state_space(*x[:5], D=x[5], state=x[6]), leaves)


def mixer():
    """Return Mamba-2's layer with weights of size 0.3, at which a wrong factor shows."""
    sizes = {"hidden_size": 14, "num_heads": 4, "head_dim": 7, "state_size": 5, "n_groups": 2, "chunk_size": 4}
    config = Mamba2Config(**sizes, num_hidden_layers=1, vocab_size=3, expand=2)
    layer = Mamba2Mixer(config, 0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in layer.parameters():
            one.normal_(0, 0.3, generator=generator)
    return layer


def around(layer, x, space):
    """Return the layer of x with this scan in it: projection, convolution, scan, gated norm, projection."""
    groups, d, heads, e = layer.n_groups, layer.ssm_state_size, layer.num_heads, layer.head_dim
    n = x.shape[1]
    gate, mixed, dt = layer.in_proj(x).split([heads * e, layer.conv_dim, heads], -1)
    mixed = F.silu(layer.conv1d(mixed.mT)[..., :n].mT)
    value, B, C = mixed.split([heads * e, groups * d, groups * d], -1)
    value, B, C = (
        one.unflatten(-1, (count, -1)).transpose(1, 2) for one, count in ((value, heads), (B, groups), (C, groups))
    )
    dt = F.softplus(dt + layer.dt_bias).transpose(1, 2)
    y, _ = space(value, dt, -layer.A_log.exp(), B, C, D=layer.D)
    return layer.out_proj(layer.norm(y.transpose(1, 2).flatten(-2), gate))


def test_equals_the_mixer_of_mamba2():
    layer, x = mixer(), torch.from_numpy(np.random.default_rng(2).standard_normal((2, 13, 14))).float()
    with torch.no_grad():
        expected = layer(x)
        assert_equal(around(layer, x, selective_state_space), expected, atol=2e-6)
        slow = around(layer, x, lambda value, dt, A, B, C, **o: selective_state_space(value, dt, A / 2, B, C, **o))
    assert (slow - expected).abs().max() > 1e-3


def test_arrays_are_sent_to_the_reference():
    (x, *others), _, _ = draw_space(3)
    with pytest.raises(TypeError, match=r"x is a NumPy array: expected a torch tensor; mha\.reference takes arrays"):
        selective_state_space(x, *map(torch.from_numpy, others))
