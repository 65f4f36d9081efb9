"""QK-norm: the order of norm and rotation, and transformers' attention of Qwen3 and Qwen3-Next, gated too."""

import pytest
import torch
from torch import nn

from compare import assert_equal
from mha import masks
from mha.nn import AfterPosition, MultiHeadAttention, Rotary
from nn.layers import draw, layer

BATCH, N = 2, 7


def identity_layer(**options):
    """One head of width 4 whose queries and keys are x itself."""
    module = MultiHeadAttention(4, 1, bias=False, position=Rotary(), dtype=torch.float64, **options)
    for linear in (module.q_proj, module.k_proj):
        linear.weight.data = torch.eye(4, dtype=torch.float64)
    return module


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (nn.RMSNorm, [1.0806046, 0, 1.6829420, 0]),
        (AfterPosition(nn.RMSNorm), [1.0806046, 0, 3.3658839, 0]),
    ],
    ids=["norm, rotate", "rotate, norm"],
)
def test_the_order_shows_in_the_gain(make, expected):
    """nanochat#743, OLMo#806: the norm applied on the other side of the rotation."""
    module = identity_layer(qk_norm=make)
    module.q_norm.weight.data = torch.tensor([1.0, 1.0, 2.0, 1.0], dtype=torch.float64)
    x = torch.eye(4, dtype=torch.float64)[:1]
    q, k, _ = module.project(x, positions=torch.tensor([1]))
    assert_equal(q[0, 0], expected, atol=5e-8)
    assert_equal(k[0, 0], [1.0806046, 0, 1.6829420, 0], atol=5e-8, label="keys have a gain of their own")


def test_equal_gains_commute_with_the_rotation():
    x = draw(BATCH, N, 12)
    before, after = (layer(12, 3, position=Rotary(), qk_norm=make) for make in (nn.RMSNorm, AfterPosition(nn.RMSNorm)))
    for module in (before, after):
        module.q_norm.weight.data.fill_(1.3)
        module.k_norm.weight.data.fill_(0.7)
    assert_equal(before(x, mask=masks.causal), after(x, mask=masks.causal), rtol=1e-12, atol=1e-13)


def test_a_norm_bounds_the_scores():
    module, x = layer(12, 3, qk_norm=nn.RMSNorm, bias=False), draw(BATCH, N, 12)
    module.q_norm.weight.data.fill_(1.0)
    q, _, _ = module.project(1e6 * x)
    assert_equal(q.square().mean(-1), torch.ones(BATCH, 3, N), rtol=1e-13)
    assert_equal(module.weights(1e6 * x), module.weights(x), rtol=1e-12)


def test_a_layer_norm_is_a_norm_too():
    module = layer(12, 3, qk_norm=nn.LayerNorm)
    q, _, _ = module.project(draw(BATCH, N, 12))
    plain = (q - module.q_norm.bias) / module.q_norm.weight
    assert_equal(plain.mean(-1), torch.zeros(BATCH, 3, N), atol=1e-13)


def angles(config, rotary):
    cos, sin = rotary(config)(torch.zeros(1), torch.arange(N)[None])
    return cos.double(), sin.double()


# The oracles keep cos and sin in float32, off by at most 7 · 2⁻²⁴ of phase: about 1e-6 of a value of order 5.
class TestQwen3:
    def both(self, qk_norm):
        from transformers import Qwen3Config
        from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

        sizes = {"hidden_size": 15, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4}
        config = Qwen3Config(**sizes, num_hidden_layers=1, vocab_size=11)
        config._attn_implementation = "eager"
        theirs = Qwen3Attention(config, layer_idx=0).double().eval()
        ours = layer(15, 6, num_kv_heads=2, d_head=4, bias=False, position=Rotary(), qk_norm=qk_norm)
        state = ours.state_dict()
        theirs.load_state_dict({name.replace("out_proj", "o_proj"): value for name, value in state.items()})
        x, hide = draw(BATCH, N, 15), torch.full((N, N), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        expected, weights = theirs(x, position_embeddings=angles(config, Qwen3RotaryEmbedding), attention_mask=hide)
        return ours(x, mask=masks.causal), expected, ours.weights(x, mask=masks.causal), weights

    def norm(self, d_head, **options):
        return nn.RMSNorm(d_head, eps=1e-6, **options)

    def test_equal(self):
        out, expected, weights, expected_weights = self.both(self.norm)
        assert_equal(out, expected, atol=2e-5)
        assert_equal(weights, expected_weights, atol=2e-6)

    def test_the_fault_is_seen(self):
        out, expected, _, _ = self.both(AfterPosition(self.norm))
        assert (out - expected).abs().max() > 1e-2


class TestQwen3Next:
    """Gated: q_proj holds, head by head, the query and then the gate. Its norm multiplies by 1 + weight."""

    def both(self, shut=False):
        from transformers import Qwen3NextConfig
        from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention, Qwen3NextRotaryEmbedding

        sizes = {"hidden_size": 15, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4}
        config = Qwen3NextConfig(**sizes, num_hidden_layers=1, vocab_size=11, partial_rotary_factor=1.0)
        config._attn_implementation = "eager"
        theirs = Qwen3NextAttention(config, layer_idx=0).double().eval()
        base = config.rope_parameters["rope_theta"]
        options = {"num_kv_heads": 2, "d_head": 4, "position": Rotary(base), "qk_norm": TestQwen3().norm}
        ours = layer(15, 6, bias=False, gate=True, **options)
        state = ours.state_dict()
        heads = state["q_proj.weight"].view(6, 4, 15), state.pop("gate_proj.weight").view(6, 4, 15)
        state = {name.replace("out_proj", "o_proj"): value for name, value in state.items()}
        state |= {name: state[name] - 1 for name in ("q_norm.weight", "k_norm.weight")}
        state["q_proj.weight"] = torch.cat(heads, 1).flatten(0, 1)
        theirs.load_state_dict(state)
        if shut:
            ours.gate_proj.weight.data.zero_()
        x, hide = draw(BATCH, N, 15), torch.full((N, N), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        places = angles(config, Qwen3NextRotaryEmbedding)
        expected, _ = theirs(x, position_embeddings=places, attention_mask=hide)
        return ours(x, mask=masks.causal), expected

    def test_equal(self):
        assert_equal(*self.both(), atol=2e-5)

    def test_the_fault_is_seen(self):
        out, expected = self.both(shut=True)
        assert (out - expected).abs().max() > 1e-2
