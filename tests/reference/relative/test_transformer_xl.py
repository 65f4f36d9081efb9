"""Transformer-XL's terms: as the paper writes them, and against XLNet's attention with its relative shift."""

import numpy as np
import pytest
import torch
import transformers
from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.reference import attention, join_heads, sinusoidal, transformer_xl_bias

B, H, D, M = 2, 3, 4, 12


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def xlnet(n, memory, causal):
    """Return q, k, v, u, v_r and w_r of a layer, and what its heads find with `memory` rows before the n."""
    config = transformers.XLNetConfig(d_model=M, n_head=H, d_inner=7, vocab_size=11, n_layer=1, dropout=0.0)
    config.attn_type = "uni" if causal else "bi"
    layer = redraw(XLNetRelativeAttention(config), seed=3).double()
    layer.post_attention = lambda h, found: found
    rows = torch.from_numpy(draw(0, memory + n, B, M))
    hide = torch.ones(n, memory + n).triu(memory + 1)[:, :, None, None].double() if causal else None
    with torch.no_grad():
        r = XLNetModel(config).relative_positional_encoding(n, memory + n, bsz=B).double()
        options = {"g": None, "attn_mask_h": hide, "attn_mask_g": None, "r": r, "seg_mat": None}
        found = layer(rows[memory:], mems=rows[:memory] if memory else None, **options)[0]
    q, k, v = (
        np.einsum("nbm,mhd->bhnd", rows.numpy(), getattr(layer, name).detach().numpy()) for name in ("q", "k", "v")
    )
    biases = layer.r_w_bias.detach().numpy(), layer.r_r_bias.detach().numpy()
    return q[:, :, memory:], k, v, *biases, layer.r.detach().numpy().reshape(M, H * D), found.numpy()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "memory"), [(7, 0), (5, 6), (1, 4)])
def test_equals_xlnet(n, memory, causal):
    q, k, v, *parts, expected = xlnet(n, memory, causal)
    at_q, at_k = memory + np.arange(n), np.arange(memory + n)
    mask = masks.causal if causal else None
    found = attention(q, k, v, bias=transformer_xl_bias(q, k, *parts, at_q, at_k), mask=mask)
    expected = expected.transpose(1, 2, 0, 3)
    assert_equal(found, expected, rtol=1e-6, atol=1e-6)  # their sinusoids are in float32
    if memory + n < 7:
        return
    u, v_r, w_r = parts
    for wrong in (
        transformer_xl_bias(q, k, *parts, -at_q, -at_k),
        transformer_xl_bias(q, k, v_r, u, w_r, at_q, at_k),
        transformer_xl_bias(q, k, *parts, at_q - memory - 1, at_k),
    ):
        assert np.abs(attention(q, k, v, bias=wrong, mask=mask) - expected).max() > 1e-2


def test_the_four_terms_of_the_paper():
    """Dai et al., section 3.3: (a) q·k, (b) q·r, (c) u·k, (d) v·r, key heads shared by groups."""
    q, k, u, v, w_r = draw(1, B, 4, 5, D), draw(2, B, 2, 7, D), draw(3, 4, D), draw(4, 4, D), draw(5, 6, 4 * D)
    at_q, at_k = np.array([3, 9, 4, 1, 0]), np.arange(7)
    bias = transformer_xl_bias(q, k, u, v, w_r, at_q, at_k, scale=0.3)
    for b, h, i, j in np.ndindex(bias.shape):
        r = sinusoidal(np.array(at_q[i] - at_k[j]), 6, layout="half") @ w_r[:, h * D : (h + 1) * D]
        key = k[b, h // 2, j]
        assert_equal(bias[b, h, i, j], 0.3 * (q[b, h, i] @ r + u[h] @ key + v[h] @ r), rtol=1e-11, atol=1e-12)


def test_without_a_query_u_asks_keys_and_v_asks_distances():
    q, k, w_r = np.zeros((H, 5, D)), draw(2, H, 5, D), draw(5, M, H * D)
    places = np.arange(5)
    only_u = transformer_xl_bias(q, k, draw(6, H, D), np.zeros((H, D)), w_r, places, places)
    assert_equal(only_u, np.broadcast_to(only_u[:, :1], only_u.shape), label="the same for every query")
    only_v = transformer_xl_bias(q, k, np.zeros((H, D)), draw(7, H, D), w_r, places, places)
    for offset in range(-4, 5):
        diagonal = np.diagonal(only_v, offset, -2, -1)
        assert_equal(diagonal, np.broadcast_to(diagonal[:, :1], diagonal.shape), label=f"the same at {offset}")
    assert join_heads(only_v).shape == (5, H * 5)
