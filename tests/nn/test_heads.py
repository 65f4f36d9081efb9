"""`mha.nn.MultiHeadAttention` against the reference and against independent implementations."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import MultiHeadAttention, Rotary, attention, join_heads, split_heads

BATCH, N, D_MODEL, HEADS = 2, 7, 15, 3


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def spread(module, seed=1):
    """Draw all weights at 0.3: at the usual 0.02 attention is nearly uniform, and a fault hides in the tolerance."""
    make = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    return module


def ours(d_model=D_MODEL, num_heads=HEADS, **options):
    return spread(MultiHeadAttention(d_model, num_heads, dtype=torch.float64, **options))


def in_numpy(module):
    """Return the weights in the convention of the papers, X W."""
    linears = {"q": module.q_proj, "k": module.k_proj, "v": module.v_proj, "o": module.out_proj}
    return {name: linear.weight.detach().numpy().T for name, linear in linears.items()}


def largest(difference):
    return float(difference.detach().abs().max())


def test_split_and_join():
    x = torch.arange(8.0).reshape(2, 4)  # annotated-transformer#17: a view without a transpose mixes heads and time
    assert_equal(split_heads(x, 2)[0], [[0, 1], [4, 5]])
    assert_equal(join_heads(split_heads(x, 2)), x)
    assert_equal(split_heads(x[None], 2), reference.split_heads(x[None].numpy(), 2))


@pytest.mark.parametrize("num_kv_heads", [None, 1, 3])
def test_equals_the_reference(num_kv_heads):
    module = ours(18, 6, num_kv_heads=num_kv_heads, bias=False)
    x, w = draw(BATCH, N, 18), in_numpy(module)
    expected = reference.multi_head_attention(
        x.numpy(), w["q"], w["k"], w["v"], w["o"], num_heads=6, num_kv_heads=num_kv_heads, mask=masks.causal
    )
    assert_equal(module(x, mask=masks.causal), expected, rtol=1e-12, atol=1e-12)


def test_the_output_is_the_sum_of_what_each_head_writes():
    module, x = ours(), draw(BATCH, N, D_MODEL)
    strips = module.out_proj.weight.reshape(D_MODEL, HEADS, -1)
    written = torch.einsum("bhnd,mhd->bnm", module.per_head(x), strips) + module.out_proj.bias
    assert_equal(module(x), written, rtol=1e-12, atol=1e-13)


def test_weights_explain_the_output_and_do_not_change_it():
    module, x = ours(d_head=4, position=Rotary()), draw(BATCH, N, D_MODEL)
    before = module(x, mask=masks.causal)
    weights, (_, _, v) = module.weights(x, mask=masks.causal), module.project(x)
    assert_equal(weights @ v, module.per_head(x, mask=masks.causal), rtol=1e-12, atol=1e-13)
    assert_equal(weights.sum(-1), torch.ones(BATCH, HEADS, N), rtol=1e-12)
    assert_equal(module(x, mask=masks.causal), before, label="the same bits")


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 11, "vdim": 13}, {"batch_first": False}], ids=str)
def test_torch_round_trip_values_and_gradients(options):
    theirs = torch.nn.MultiheadAttention(D_MODEL, HEADS, **{"batch_first": True} | options, dtype=torch.float64)
    module = MultiHeadAttention.from_torch(spread(theirs))
    x = draw(BATCH, N, D_MODEL, seed=2).requires_grad_()
    keys = draw(BATCH, 5, options.get("kdim", D_MODEL), seed=3)
    values = draw(BATCH, 5, options.get("vdim", D_MODEL), seed=4)
    see = torch.rand(N, 5, generator=torch.Generator().manual_seed(5)) > 0.3
    see[:, 0] = True
    d_out = draw(BATCH, N, D_MODEL, seed=6)

    swap = (lambda t: t.transpose(0, 1)) if not theirs.batch_first else (lambda t: t)
    expected, expected_weights = theirs(*map(swap, (x, keys, values)), attn_mask=~see, average_attn_weights=False)
    expected = swap(expected)
    (d_expected,) = torch.autograd.grad(expected, x, d_out, retain_graph=True)
    expected.backward(d_out)
    out = module(x, (keys, values), mask=see)
    assert_equal(out, expected, rtol=1e-12, atol=1e-12)
    assert_equal(module.weights(x, (keys, values), mask=see), expected_weights, rtol=1e-12, atol=1e-13)
    assert_equal(torch.autograd.grad(out, x, d_out, retain_graph=True)[0], d_expected, rtol=1e-11, atol=1e-12)
    out.backward(d_out)
    assert_equal(module.out_proj.weight.grad, theirs.out_proj.weight.grad, rtol=1e-11, atol=1e-12)
    k_grad = theirs.in_proj_weight.grad.chunk(3)[1] if theirs.in_proj_weight is not None else theirs.k_proj_weight.grad
    assert_equal(module.k_proj.weight.grad, k_grad, rtol=1e-11, atol=1e-12)

    back = module.to_torch(batch_first=theirs.batch_first)
    assert back.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert_equal(back.state_dict()[name], value, label=name)
    assert (back.dropout, back.batch_first, back.training) == (theirs.dropout, theirs.batch_first, theirs.training)


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_from_torch_refuses_by_name(option):
    with pytest.raises(ValueError, match=option):
        MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(6, 2, **{option: True}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("num_kv_heads", {"num_kv_heads": 1}),
        ("d_head", {"d_head": 7}),
        ("position", {"position": Rotary(), "d_head": 6}),
        ("scale", {"scale": 1.0}),
        ("softcap", {"softcap": 2.0}),
        ("core", {"core": lambda q, k, v, **options: v}),
    ],
)
def test_to_torch_refuses_by_name(name, options):
    with pytest.raises(ValueError, match=f"no {name}"):
        MultiHeadAttention(D_MODEL, HEADS, **options).to_torch()


def test_causal_and_mask_both_hold():
    """pytorch#99282: there `is_causal` overrides a mask, or is ignored beside one, as weights are asked or not."""
    module, x = ours(), draw(BATCH, N, D_MODEL)
    nothing_hidden = masks.dense(np.ones((N, N), bool))
    assert_equal(module(x, mask=nothing_hidden & masks.causal), module(x, mask=masks.causal), rtol=1e-12, atol=1e-13)


def test_batch_first_always():
    """AEMatter#3: batch_first=False eats (B, L, D) silently; with B = L nothing tells."""
    module, x = ours(), draw(N, N, D_MODEL)
    changed = x.clone()
    changed[1] += 1
    assert_equal(module(changed)[0], module(x)[0])


def test_dropout_acts_in_training_only_and_follows_the_seed():
    """pytorch#124464: attention dropout that stays on in evaluation."""
    module, x = ours(dropout=0.5), draw(BATCH, N, D_MODEL)
    plain = ours()(x)
    module.eval()
    assert_equal(module(x), plain)
    module.train()
    torch.manual_seed(3)
    first, second = module(x), module(x)
    assert largest(first - second) > 1e-3, "two passes draw two seeds"
    torch.manual_seed(3)
    assert_equal(module(x), first, label="the same generator state, the same output")
    assert_equal(module.weights(x).sum(-1), torch.ones(BATCH, HEADS, N), rtol=1e-12, label="weights: before dropout")
    with pytest.raises(ValueError, match=r"dropout is 1\.0: expected 0 ≤ dropout < 1"):
        MultiHeadAttention(6, 2, dropout=1.0)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_a_layer_compiles_and_exports_whole():
    """Dropout draws its seed inside the graph: two passes differ, and the eager layer draws the same."""
    module, x = ours(12, 2, dropout=0.3, position=Rotary()), draw(BATCH, N, 12)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.manual_seed(5)
    first, second = compiled(x, mask=masks.causal), compiled(x, mask=masks.causal)
    torch.manual_seed(5)
    assert_equal(first, module(x, mask=masks.causal), rtol=1e-12, atol=1e-13)
    assert largest(first - second) > 1e-3
    first.sum().backward()
    see = torch.ones(N, N, dtype=torch.bool).tril()
    exported = torch.export.export(module.eval(), (x,), {"mask": see}).module()
    assert_equal(exported(x, mask=see), module(x, mask=see), rtol=1e-12, atol=1e-13)


def test_positions_shift_together():
    """transformers#22161: left padding moves every position, and must not move the answer."""
    module, x = ours(12, 2, position=Rotary()), draw(BATCH, N, 12)
    later = torch.arange(100, 100 + N)
    expected = module(x, mask=masks.causal)
    assert_equal(module(x, mask=masks.causal, positions=later), expected, rtol=1e-11, atol=1e-12)
    last = module(x[:, -2:], x, mask=masks.causal)
    assert_equal(last, expected[:, -2:], rtol=1e-11, atol=1e-12, label="the last queries stand at the last keys")
    padded = torch.cat([draw(BATCH, 3, 12, seed=9), x], 1)
    hidden = masks.dense(torch.arange(N + 3)[None] >= 3)
    assert_equal(module(padded, mask=masks.causal & hidden)[:, 3:], expected, rtol=1e-11, atol=1e-12)
    order_matters = module(x.flip(1)).flip(1) - module(x)
    assert largest(order_matters) > 1e-2


def test_a_core_is_called_with_everything():
    """transformers#45811: a backend that is registered without masks drops them silently."""
    seen = {}

    def core(q, k, v, **options):
        seen.update(options)
        return attention(q, k, v, **options)

    module, bias = ours(core=core, scale=0.3, softcap=2.0), draw(HEADS, N, N)
    out = module(draw(BATCH, N, D_MODEL), mask=masks.causal, bias=bias)
    assert seen["mask"] is masks.causal
    assert seen["bias"] is bias
    assert (seen["scale"], seen["softcap"], seen["dropout"]) == (0.3, 2.0, None)
    assert out.shape == (BATCH, N, D_MODEL)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MultiHeadAttention(10, 3), r"d_model is 10 and num_heads is 3, remainder 1"),
        (lambda: MultiHeadAttention(12, 6, num_kv_heads=4), r"num_kv_heads is 4 and num_heads is 6"),
        (lambda: split_heads(torch.zeros(2, 10), 3), r"the width of x is 10 and num_heads is 3"),
        (lambda: ours()(draw(BATCH, N, 14)), r"x has shape \(2, 7, 14\): expected \(batch, length, 15\)"),
        (lambda: ours()(draw(BATCH, N, 15), draw(BATCH, N, 14)), r"context has shape \(2, 7, 14\)"),
        (lambda: ours()(torch.zeros(BATCH, N, 15, dtype=torch.long)), r"x has dtype torch.int64"),
        (lambda: ours()(draw(BATCH, N, 15), mask=torch.ones(N, N)), r"mask has dtype torch.float32"),
        (lambda: ours()(draw(BATCH, N, 15), mask=torch.ones(BATCH, 5, dtype=torch.bool)), r"mask has shape \(2, 5\)"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


class TestBert:
    """transformers' BertSelfAttention and BertSelfOutput.dense."""

    def pair(self):
        from transformers import BertConfig, BertModel

        config = BertConfig(
            hidden_size=15, num_attention_heads=3, num_hidden_layers=1, intermediate_size=7, vocab_size=11
        )
        config._attn_implementation = "eager"
        theirs = spread(BertModel(config).double().eval()).encoder.layer[0].attention
        module = ours()
        pairs = [
            (module.q_proj, theirs.self.query),
            (module.k_proj, theirs.self.key),
            (module.v_proj, theirs.self.value),
            (module.out_proj, theirs.output.dense),
        ]
        for mine, his in pairs:
            mine.load_state_dict(his.state_dict())
        return module, theirs

    def both(self, mask):
        module, theirs = self.pair()
        x, see = draw(BATCH, N, 15), torch.arange(N) < torch.tensor([[N], [4]])
        bias = torch.zeros(BATCH, 1, 1, N, dtype=torch.float64).masked_fill(~see[:, None, None], -torch.inf)
        found, weights = theirs.self(x, attention_mask=bias, output_attentions=True)[:2]
        return module(x, mask=mask), theirs.output.dense(found), module.weights(x, mask=mask), weights

    def test_equal(self):
        out, expected, weights, expected_weights = self.both(masks.lengths(np.array([N, 4])))
        assert_equal(out, expected, rtol=1e-12, atol=1e-12)
        assert_equal(weights, expected_weights, rtol=1e-12, atol=1e-13)

    def test_the_fault_is_seen(self):
        out, expected, _, _ = self.both(None)
        assert largest((out - expected)[1]) > 1e-2, "padding left visible"


class TestLlama:
    """transformers' LlamaAttention: grouped heads, rotary positions, causal."""

    def both(self, position):
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

        config = LlamaConfig(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=4, vocab_size=11)
        config._attn_implementation = "eager"
        theirs = spread(LlamaAttention(config, layer_idx=0).double().eval())
        module = ours(24, 6, num_kv_heads=2, bias=False, position=position)
        for mine, his in zip(
            (module.q_proj, module.k_proj, module.v_proj, module.out_proj),
            (theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.o_proj),
            strict=True,
        ):
            mine.load_state_dict(his.state_dict())
        x = draw(BATCH, N, 24)
        hide = torch.full((N, N), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        cos, sin = LlamaRotaryEmbedding(config)(x.float(), torch.arange(N)[None])
        expected, weights = theirs(x, position_embeddings=(cos.double(), sin.double()), attention_mask=hide)
        return module(x, mask=masks.causal), expected, module.weights(x, mask=masks.causal), weights

    # The oracle keeps cos and sin in float32, off by 2⁻²⁴ or 7 · 2⁻²⁴ of phase: about 1e-6 of a value of order 5.
    def test_equal(self):
        out, expected, weights, expected_weights = self.both(Rotary())
        assert_equal(out, expected, rtol=0, atol=2e-5)
        assert_equal(weights, expected_weights, rtol=0, atol=2e-6)

    @pytest.mark.parametrize("fault", [None, Rotary(layout="interleaved"), Rotary(base=1000.0)], ids=str)
    def test_the_fault_is_seen(self, fault):
        out, expected, _, _ = self.both(fault)
        assert largest(out - expected) > 1e-2
