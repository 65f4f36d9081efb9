"""The layer of Mamba-2 in NumPy: against transformers' layer at weights of size 0.3."""

import numpy as np
import pytest
import torch
from transformers import Mamba2Config
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from compare import assert_equal
from exact import redraw
from mha.reference import gated_rms_norm, mamba2_mixer, rms_norm
from space_calls import SIZES


def arguments(layer):
    named = {name: x.detach().numpy().astype(np.float64) for name, x in layer.named_parameters()}
    weights = named["in_proj.weight"].T, named["conv1d.weight"][:, 0], named["out_proj.weight"].T
    options = {name: named[name] for name in ("dt_bias", "A_log", "D")}
    return weights, options | {"b_conv": named["conv1d.bias"], "gain": named["norm.weight"], "d_state": 5}


@pytest.mark.parametrize("n", [1, 13])
def test_equals_the_mixer_of_mamba2(n):
    layer = redraw(Mamba2Mixer(Mamba2Config(**SIZES, num_hidden_layers=1, vocab_size=3), 0), seed=1)
    x = np.random.default_rng(2).standard_normal((2, n, 14))
    with torch.no_grad():
        expected = layer(torch.from_numpy(x).float())
    weights, options = arguments(layer)
    assert_equal(mamba2_mixer(x, *weights, num_groups=2, **options), expected, atol=1e-5)
    for name, wrong in {
        "the order of the gain": {"gain": options["gain"][::-1]},
        "dt_bias": {"dt_bias": 0 * options["dt_bias"]},
        "A": {"A_log": options["A_log"] + 1},
        "D": {"D": options["D"] + 1},
    }.items():
        if n > 1 or name != "A":
            found = mamba2_mixer(x, *weights, num_groups=2, **options | wrong)
            assert np.abs(found - expected.numpy()).max() > 1e-3, name


def test_length_zero():
    layer = redraw(Mamba2Mixer(Mamba2Config(**SIZES, num_hidden_layers=1, vocab_size=3), 0), seed=1)
    weights, options = arguments(layer)
    assert mamba2_mixer(np.zeros((2, 0, 14)), *weights, num_groups=2, **options).shape == (2, 0, 14)


def test_the_gate_comes_before_the_norm():
    x, gate = np.random.default_rng(0).standard_normal((2, 3, 6))
    mixed = x * gate / (1 + np.exp(-gate))
    expected = np.concatenate([rms_norm(mixed[:, :3], eps=1e-5), rms_norm(mixed[:, 3:], eps=1e-5)], -1)
    assert_equal(gated_rms_norm(x, gate, num_groups=2), expected, rtol=1e-12)
    assert np.abs(gated_rms_norm(x, gate) - expected).max() > 0.01


def test_misfits_are_named():
    x = np.zeros((2, 6))
    with pytest.raises(ValueError, match=r"gate has shape \(2, 5\): expected \(2, 6\)"):
        gated_rms_norm(x, x[:, :5])
    with pytest.raises(ValueError, match="the width of x is 6 and num_heads is 4"):
        gated_rms_norm(x, x, num_groups=4)
    layer = Mamba2Mixer(Mamba2Config(**SIZES, num_hidden_layers=1, vocab_size=3), 0)
    (w_in, *weights), options = arguments(layer)
    x = np.zeros((2, 3, 14))
    with pytest.raises(ValueError, match=r"w_in has shape \(14, 77\): expected \(14, 80\)"):
        mamba2_mixer(x, w_in[:, :-3], *weights, num_groups=2, **options)
    with pytest.raises(ValueError, match=r"dt_bias has shape \(1,\): expected \(4,\)"):
        mamba2_mixer(x, w_in, *weights, num_groups=2, **options | {"dt_bias": np.zeros(1)})
