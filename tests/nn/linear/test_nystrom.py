"""`mha.nn.linear.nystrom` against the attention of transformers' Nystromformer."""

import numpy as np
import pytest
import torch
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from compare import assert_equal
from mha import nn, reference


def theirs(heads=1, *, convolved=False):
    """Return a layer with weights of standard deviation 0.3."""
    torch.manual_seed(0)
    config = NystromformerConfig(
        hidden_size=5 * heads,
        num_attention_heads=heads,
        num_landmarks=4,
        conv_kernel_size=5,
        segment_means_seq_len=12,
        inv_coeff_init_option=False,
    )
    layer = NystromformerSelfAttention(config).double().eval()
    layer.conv_kernel_size = layer.conv_kernel_size if convolved else None
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return layer


def heads(layer, x):
    """Return q, k, v of the layer."""
    made = (
        linear(x).unflatten(-1, (layer.num_attention_heads, -1)) for linear in (layer.query, layer.key, layer.value)
    )
    return [x.transpose(1, 2) for x in made]


@torch.no_grad()
def test_one_head_of_one_sample_is_theirs():
    """One matrix at a time, for theirs divides by the largest column sum of the whole batch."""
    layer, x = theirs(), torch.randn(1, 12, 5, dtype=torch.float64)
    expected = layer(x)[0]
    found = nn.Nystrom(4)(*heads(layer, x)).transpose(1, 2).flatten(2)
    assert_equal(found, expected, atol=1e-6)  # their q and k are divided by √√d each, ours by √d: rounding grows in Z
    with pytest.raises(AssertionError):
        assert_equal(nn.Nystrom(3)(*heads(layer, x)).transpose(1, 2).flatten(2), expected, atol=1e-6)


@torch.no_grad()
def test_theirs_lets_samples_depend_on_each_other():
    """With each matrix's own column sum, the option "exact" of their code, heads and samples agree with ours."""
    layer, x = theirs(heads=3), torch.randn(2, 12, 15, dtype=torch.float64)
    found = nn.Nystrom(4)(*heads(layer, x)).transpose(1, 2).flatten(2)
    with pytest.raises(AssertionError):
        assert_equal(found, layer(x)[0], atol=1e-6)
    assert_equal(found[:1], nn.Nystrom(4)(*heads(layer, x[:1])).transpose(1, 2).flatten(2), atol=1e-12)
    with pytest.raises(AssertionError):
        assert_equal(layer(x)[0][:1], layer(x[:1])[0], atol=1e-6)
    layer.init_option = "exact"
    assert_equal(found, layer(x)[0], atol=1e-6)


@torch.no_grad()
def test_the_convolution_of_the_values_is_theirs():
    layer, x = theirs(heads=3, convolved=True), torch.randn(2, 12, 15, dtype=torch.float64)
    layer.init_option = "exact"
    kernels, (q, k, v) = layer.conv.weight[:, 0, :, 0], heads(layer, x)
    found = nn.Nystrom(4)(q, k, v) + nn.convolved_values(v, kernels)
    assert_equal(found.transpose(1, 2).flatten(2), layer(x)[0], atol=1e-6)
    with pytest.raises(AssertionError):
        assert_equal(nn.convolved_values(v, kernels.flip(-1)), nn.convolved_values(v, kernels), atol=1e-6)
    expected = reference.convolved_values(v.numpy(), kernels.numpy())
    assert_equal(nn.convolved_values(v[:, None], kernels)[:, 0], expected, atol=1e-14)
    with pytest.raises(
        ValueError, match=r"kernels has shape \(3, 4\): expected \(3, size\), an odd size for each head"
    ):
        nn.convolved_values(v, kernels[:, :4])


def test_nothing_at_all():
    v = torch.zeros(1, 3, 0, 7, dtype=torch.float64)
    assert_equal(nn.convolved_values(v, torch.ones(3, 5, dtype=torch.float64)), v)
    assert_equal(nn.iterative_pseudo_inverse(torch.ones(0, 0)), reference.iterative_pseudo_inverse(np.ones((0, 0))))
