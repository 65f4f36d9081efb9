"""Every family converts with a receipt; a layer that computes anything else is refused."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from transformers.masking_utils import sliding_window_overlay
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

from compare import assert_equal
from mha import masks
from mha.models.huggingface import from_hf
from mha.nn import RelativeBias, Rotary, RotaryFrequencies
from models.huggingface import layers

FAMILIES = {
    "bert": layers.bert,
    "bert decoder": partial(layers.bert, causal=True),
    "bert cross": partial(layers.bert, cross=True),
    "bloom": layers.bloom,
    "bloom, six heads": partial(layers.bloom, n_head=6),
    "gpt2": layers.gpt2,
    "gpt2, scaled by layer": partial(layers.gpt2, scale_attn_by_inverse_layer_idx=True),
    "gpt2, not scaled": partial(layers.gpt2, scale_attn_weights=False),
    "llama": layers.llama,
    "llama, biased": partial(layers.llama, attention_bias=True),
    "llama, yarn": partial(layers.llama, rope_parameters=layers.YARN),
    "llama, one key head": partial(layers.llama, num_key_value_heads=1, head_dim=4),
    "llama, half turned": partial(
        layers.llama, rope_parameters={"rope_type": "proportional", "rope_theta": 1e3, "partial_rotary_factor": 0.5}
    ),
    "gpt-oss": layers.gpt_oss,
    "gpt-oss, sliding": partial(layers.gpt_oss, sliding=True),
    "gpt-oss, default rope": partial(layers.gpt_oss, rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
    "gpt-neox": layers.gpt_neox,
    "gpt-neox, no biases": partial(layers.gpt_neox, attention_bias=False),
    "vit": layers.vit,
    "vit, no biases before": partial(layers.vit, qkv_bias=False),
    "swin": layers.swin,
    "swin, no biases before": partial(layers.swin, qkv_bias=False),
    "t5 encoder": layers.t5,
    "t5 decoder": partial(layers.t5, decoder=True, causal=True),
    "t5 cross": partial(layers.t5, decoder=True, owns=False),
}
EXACT = {
    name for name in FAMILIES if name.startswith(("bert", "gpt2", "t5"))
}  # the others keep angles or softmax in float32


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_converts(family):
    layer = FAMILIES[family]()
    module, receipt = from_hf(layer)
    assert receipt.layer == type(layer).__name__
    assert receipt.shape == (2, 16 if family.startswith("swin") else 19, 18)
    assert receipt.largest > 1
    assert receipt.difference <= (1e-13 if family in EXACT else 1e-6) * receipt.largest
    assert next(module.parameters()).dtype == torch.float32
    assert not module.training
    assert from_hf(layer.train())[0].training


@pytest.mark.parametrize("make", [layers.llama, layers.gpt_neox, layers.gpt_oss])
def test_the_pairs_of_the_rotation_can_be_neighbours(make):
    """candle#2503, transformers#25199: two layouts of one function, told apart by the rows of q_proj and k_proj."""
    half, receipt = from_hf(make())
    other, _ = from_hf(make(), layout="interleaved")
    assert (half.position.layout, other.position.layout) == ("half", "interleaved")
    x = torch.randn(2, 7, 18, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert_equal(other.double()(x, mask=receipt.mask), half.double()(x, mask=receipt.mask), rtol=1e-12, atol=1e-12)
    assert_equal(other.v_proj.weight, half.v_proj.weight)
    assert (other.q_proj.weight != half.q_proj.weight).any()


def test_what_the_options_became():
    module, receipt = from_hf(layers.gpt_oss(sliding=True))
    assert module.sinks.shape == (6,)
    assert isinstance(module.position, RotaryFrequencies)
    gain = 0.1 * np.log(4.0) + 1.0  # YaRN scales queries and keys alike
    assert abs(module.position.gain - gain) < 1e-12
    n = np.arange(19)
    window = sliding_window_overlay(5)(0, 0, n[:, None], n) & (n <= n[:, None])
    assert_equal(receipt.mask.dense(19, 19), window)
    module, receipt = from_hf(layers.llama())
    assert module.position == Rotary(base=10000.0)
    assert (module.num_heads, module.num_kv_heads, module.d_head) == (6, 2, 6)
    assert receipt.mask is masks.causal
    assert from_hf(layers.bert())[1].mask is None
    assert from_hf(layers.bert(causal=True))[1].mask is masks.causal


def test_the_layers_of_t5_share_one_bias():
    first, _ = from_hf(layers.t5())
    assert isinstance(first.position, RelativeBias)
    assert first.scale == 1.0
    second, receipt = from_hf(layers.t5(owns=False), position=first.position)
    assert second.position is first.position
    assert receipt.difference <= 1e-13 * receipt.largest
    cross, _ = from_hf(layers.t5(owns=False, decoder=True))
    assert cross.position is None
    decoder, _ = from_hf(layers.t5(decoder=True, causal=True))
    assert (first.position.bidirectional, decoder.position.bidirectional) == (True, False)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"owns": False}, False, "the layer owns no bias by distance: expected position=first.position"),
        ({"owns": False, "decoder": True, "causal": True}, False, "the layer owns no bias by distance"),
        ({"owns": True}, True, "expected None, for the layer owns its bias"),
        ({"owns": False, "decoder": True}, True, "expected None, for the layer attends to a context"),
    ],
)
def test_the_bias_of_t5_is_there_just_once(options, given, words):
    position = from_hf(layers.t5())[0].position if given else None
    with pytest.raises(ValueError, match=words):
        from_hf(layers.t5(**options), position=position)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_are_refused(kind):
    """At 19 positions both would pass; behind `max_position_embeddings` their angles are others."""
    layer = layers.llama()
    layer.config.rope_parameters["rope_type"] = kind
    with pytest.raises(ValueError, match=f"rope_type is {kind}: its frequencies change with the length"):
        from_hf(layer)


@pytest.mark.parametrize("fault", [{"width": None}, {"width": 2}, {"layout": "interleaved"}], ids=str)
def test_another_width_of_the_rotation_is_seen(fault):
    """GPT-NeoX turns the first four coordinates of six, in pairs of their own."""
    module, receipt = from_hf(layers.gpt_neox())
    assert module.position == Rotary(base=10000.0, width=4)
    x = torch.randn(2, 7, 18, generator=torch.Generator().manual_seed(1))
    right = module(x, mask=receipt.mask)
    module.position = replace(module.position, **fault)
    assert (module(x, mask=receipt.mask) - right).abs().max() > 1e-2


def test_a_subclass_of_another_module_is_its_family():
    own = type("Own", (modeling_llama.LlamaAttention,), {"__module__": __name__})
    assert from_hf(layers.llama(kind=own))[1].layer == "Own"


def other_order(order):
    """Return a GPT-2 whose c_attn holds its three parts in another order, and computes with them rightly."""

    class GPT2Attention(modeling_gpt2.GPT2Attention):
        def forward(self, x, **options):
            weight, bias = (torch.cat([t.chunk(3, -1)["QKV".index(part)] for part in order], -1).clone()
                            for t in (self.c_attn.weight, self.c_attn.bias))  # fmt: skip
            kept = self.c_attn.weight, self.c_attn.bias
            self.c_attn.weight, self.c_attn.bias = nn.Parameter(weight), nn.Parameter(bias)
            out = super().forward(x, **options)
            self.c_attn.weight, self.c_attn.bias = kept
            return out

    return GPT2Attention


@pytest.mark.parametrize("order", ["KQV", "KVQ", "QVK"])
def test_another_order_of_a_fused_projection_is_refused(order):
    """transformers#21519, vllm#42803: [K, V, Q] read as [Q, K, V]."""
    with pytest.raises(ValueError, match=r"differ by .*expected at most.*columns \[Q \| K \| V\] of c_attn"):
        from_hf(layers.gpt2(kind=other_order(order)))
    from_hf(layers.gpt2(kind=other_order("QKV")))


def test_another_rotation_is_refused(monkeypatch):
    def neighbours(q, k, cos, sin, unsqueeze_dim=1):
        def turn(x):
            pairs = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
            return plain(pairs, pairs, cos, sin)[0]

        return turn(q), turn(k)

    plain = modeling_llama.apply_rotary_pos_emb
    layer = layers.llama()
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", neighbours)
    with pytest.raises(ValueError, match=r"LlamaAttention and its conversion differ.*pairs \(c, c \+ d/2\)"):
        from_hf(layer)


@pytest.mark.parametrize("name", ["bert", "t5", "vit"])
def test_another_scale_is_refused(name):
    layer = FAMILIES[{"t5": "t5 encoder"}.get(name, name)]()
    inner = layer.self if name == "bert" else layer
    inner.scaling = inner.scaling * 1.25
    with pytest.raises(ValueError, match="and its conversion differ by"):
        from_hf(layer)


def test_small_weights_hide_no_fault():
    """At std 0.02 attention is uniform, and every scale the same: the receipt draws its inputs large enough."""
    layer = layers.bert()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1 / 15)
    from_hf(layer)
    layer.self.scaling *= 1.01
    with pytest.raises(ValueError, match="and its conversion differ by"):
        from_hf(layer)


@pytest.mark.parametrize(
    ("name", "words"), [("c_proj", "gives every input the same output"), ("c_attn", "scores all keys alike")]
)
def test_a_layer_of_zeros_proves_nothing(name, words):
    """A projection that begins at zero: every order of the fused one would pass."""
    layer = layers.gpt2(kind=other_order("KQV"))
    with torch.no_grad():
        for parameter in getattr(layer, name).parameters():
            parameter.mul_(parameter.ndim == 1 and name == "c_proj")
    with pytest.raises(ValueError, match=words):
        from_hf(layer)


def test_a_large_bias_hides_no_fault():
    layer = layers.gpt2(kind=other_order("KQV"))
    with torch.no_grad():
        layer.c_proj.bias.fill_(1e7)
    with pytest.raises(ValueError, match=r"differ by .* where outputs vary by"):
        from_hf(layer)


def test_what_does_not_convert_is_named():
    with pytest.raises(TypeError, match="layer is a Linear: expected one of BertAttention, BloomAttention"):
        from_hf(nn.Linear(2, 3))
    with pytest.raises(ValueError, match="over a context: expected self-attention"):
        from_hf(layers.drawn(modeling_gpt2.GPT2Attention(layers.gpt2().config, is_cross_attention=True)))
    with pytest.raises(ValueError, match="layout is 'meta': expected 'half'"):
        from_hf(layers.llama(), layout="meta")
