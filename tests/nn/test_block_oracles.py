"""Blocks are those of torch and of T5, weights of std 0.3; a planted fault is seen."""

import pytest
import torch
from torch import nn

from compare import assert_equal
from exact import assert_same_function
from mha import masks
from mha.nn import DecoderBlock, EncoderBlock, RelativeBias
from nn.blocks import spread
from nn.layers import draw

BATCH, N, SOURCE, D_MODEL, HEADS, D_MLP = 2, 7, 5, 12, 3, 17
X, MEMORY = draw(BATCH, N, D_MODEL), draw(BATCH, SOURCE, D_MODEL, seed=2)
HIDDEN = torch.tensor([[False] * 5, [False, True, False, False, True]])  # torch's meaning: True = hide
FUTURE = torch.ones(N, N, dtype=torch.bool).triu(1)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
OPTIONS = [(first, activation) for first in (True, False) for activation in ("relu", "gelu")]
options = pytest.mark.parametrize(("norm_first", "activation"), OPTIONS)


def torch_layer(kind, norm_first, activation, **options):
    sizes = D_MODEL, HEADS, D_MLP
    return spread(kind(*sizes, 0.0, activation, batch_first=True, norm_first=norm_first, **options))


def encoders(norm_first, activation, **options):
    theirs = torch_layer(nn.TransformerEncoderLayer, norm_first, activation, **options)
    return theirs, EncoderBlock.from_torch(theirs)


def decoders(norm_first, activation, **options):
    theirs = torch_layer(nn.TransformerDecoderLayer, norm_first, activation, **options)
    return theirs, DecoderBlock.from_torch(theirs)


def gradients(module, out, names):
    (out * draw(*out.shape, seed=7)).sum().backward()
    return {name: module.get_parameter(name).grad for name in names}


@options
def test_torch_encoder(norm_first, activation):
    theirs, ours = encoders(norm_first, activation)
    assert_equal(ours(X, mask=masks.causal), theirs(X, src_mask=FUTURE), **EXACT)
    padded = torch.arange(N) >= torch.tensor([[N], [4]])
    expected = theirs(X, src_key_padding_mask=padded)
    assert_equal(ours(X, mask=masks.lengths([N, 4])), expected, **EXACT)


@options
def test_torch_decoder(norm_first, activation):
    theirs, ours = decoders(norm_first, activation)
    expected = theirs(X, MEMORY, tgt_mask=FUTURE, memory_key_padding_mask=HIDDEN)
    assert_equal(ours(X, MEMORY, memory_mask=masks.key_padding(~HIDDEN)), expected, **EXACT)


@pytest.mark.parametrize("norm_first", [True, False])
def test_torch_gradients(norm_first):
    theirs, ours = decoders(norm_first, "gelu")
    same = {"feed_forward.up.weight": "linear1.weight", "feed_forward.down.bias": "linear2.bias",
            "attention_norm.weight": "norm1.weight", "cross_norm.bias": "norm2.bias",
            "feed_forward_norm.weight": "norm3.weight", "attention.out_proj.weight": "self_attn.out_proj.weight",
            "cross_attention.out_proj.weight": "multihead_attn.out_proj.weight"}  # fmt: skip
    found = gradients(ours, ours(X, MEMORY), same)
    expected = gradients(theirs, theirs(X, MEMORY, tgt_mask=FUTURE), same.values())
    for name, other in same.items():
        assert_equal(found[name], expected[other], rtol=1e-11, atol=1e-11, label=name)
    stacked = [getattr(ours.cross_attention, f"{name}_proj").weight.grad for name in "qkv"]
    assert_equal(torch.cat(stacked), theirs.multihead_attn.in_proj_weight.grad, rtol=1e-11, atol=1e-11)


def test_torch_without_biases_with_its_dropout():
    theirs, ours = encoders(True, "relu", bias=False, layer_norm_eps=0.1)
    assert_equal(ours(X), theirs(X), **EXACT)
    theirs = nn.TransformerDecoderLayer(D_MODEL, HEADS, D_MLP, 0.25)
    ours = DecoderBlock.from_torch(theirs)
    assert (ours.dropout, ours.feed_forward.dropout, ours.cross_attention.dropout) == (0.25, 0.25, 0.25)
    assert ours.training
    for activation in (nn.GELU("tanh"), nn.SiLU(), nn.functional.silu):
        theirs, ours = encoders(False, activation)
        assert_equal(ours(X), theirs(X), **EXACT)


FAULTS = {
    "the other order": lambda block: setattr(block, "norm_first", not block.norm_first),
    "another bend": lambda block: setattr(block.feed_forward, "activation", "gelu_tanh"),
    "another eps": lambda block: setattr(block.cross_norm, "eps", 1.1e-5),
    "norms exchanged": lambda block: swap(block, "cross_norm", "feed_forward_norm"),
    "attentions exchanged": lambda block: swap(block, "attention", "cross_attention"),
}


def swap(block, one, other):
    parts = getattr(block, one), getattr(block, other)
    setattr(block, one, parts[1]), setattr(block, other, parts[0])


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_oracle_sees(fault):
    theirs, ours = decoders(True, "gelu")
    fault(ours)
    with pytest.raises(AssertionError):
        assert_equal(ours(X, MEMORY), theirs(X, MEMORY, tgt_mask=FUTURE), **EXACT)


def t5_blocks(feed):
    """Return a decoder block of T5 and ours with its weights; `feed` is relu, or gated-gelu as in T5 1.1."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(
        d_model=D_MODEL, d_kv=5, d_ff=D_MLP, num_heads=HEADS, feed_forward_proj=feed, is_decoder=True,
        relative_attention_num_buckets=8, relative_attention_max_distance=11,
    )  # fmt: skip
    config._attn_implementation = "eager"
    theirs = spread(t5.T5Block(config, has_relative_attention_bias=True, layer_idx=0)).float()
    position = RelativeBias(HEADS, num_buckets=8, max_distance=11, bidirectional=False)
    activation = "relu" if feed == "relu" else "geglu_tanh"
    ours = DecoderBlock(D_MODEL, HEADS, D_MLP, norm="rms", norm_eps=config.layer_norm_epsilon, activation=activation,
                        bias=False, d_head=5, scale=1.0, position=position)  # fmt: skip
    ours.load_state_dict(dict(t5_names(theirs.state_dict())))
    return theirs, ours.eval()


def t5_names(state):
    attentions = {"layer.0.SelfAttention": "attention", "layer.1.EncDecAttention": "cross_attention"}
    others = {
        "layer.0.layer_norm": "attention_norm",
        "layer.1.layer_norm": "cross_norm",
        "layer.2.layer_norm": "feed_forward_norm",
        "layer.2.DenseReluDense.wi": "feed_forward.up",
        "layer.2.DenseReluDense.wi_0": "feed_forward.gate",
        "layer.2.DenseReluDense.wi_1": "feed_forward.up",
        "layer.2.DenseReluDense.wo": "feed_forward.down",
    }
    for name, tensor in state.items():
        part, last = name.removesuffix(".weight").rpartition(".")[::2]
        if last == "relative_attention_bias":
            yield "attention.position.weight", tensor
        elif part in attentions:
            yield f"{attentions[part]}.{'out' if last == 'o' else last}_proj.weight", tensor
        else:
            yield f"{others[f'{part}.{last}']}.weight", tensor


def compare_t5(theirs, ours):
    x, memory = X.float(), MEMORY.float()
    low = torch.finfo(torch.float32).min
    hide = torch.zeros(N, N).masked_fill(FUTURE, low)[None, None]
    hide_memory = torch.zeros(BATCH, 1, 1, SOURCE).masked_fill(HIDDEN[:, None, None], low)
    with torch.no_grad():
        expected = theirs(x, hide, encoder_hidden_states=memory, encoder_attention_mask=hide_memory)[0]
        given = {"memory_mask": masks.key_padding(~HIDDEN)}
        single, double = ours(x, memory, **given), ours.double()(X.float().double(), memory.double(), **given)
    assert_same_function(expected, single, double, label="T5")


@pytest.mark.parametrize("feed", ["relu", "gated-gelu"])
def test_t5(feed):
    compare_t5(*t5_blocks(feed))


T5_FAULTS = {
    "scaled scores": lambda block: setattr(block.cross_attention, "scale", None),
    "the exact gelu": lambda block: setattr(block.feed_forward, "activation", "geglu"),
    "gate and up exchanged": lambda block: swap(block.feed_forward, "gate", "up"),
    "a mean subtracted": lambda block: setattr(block, "cross_norm", layer_norm_of(block.cross_norm)),
}


def layer_norm_of(norm):
    made = nn.LayerNorm(D_MODEL, eps=norm.eps, bias=False)
    made.load_state_dict(norm.state_dict())
    return made


@pytest.mark.parametrize("fault", T5_FAULTS.values(), ids=T5_FAULTS)
def test_t5_sees(fault):
    theirs, ours = t5_blocks("gated-gelu")
    fault(ours)
    with pytest.raises(AssertionError, match="T5"):
        compare_t5(theirs, ours)


def test_other_layers_are_refused():
    with pytest.raises(TypeError, match=r"layer is a Linear: expected a torch\.nn\.TransformerEncoderLayer"):
        EncoderBlock.from_torch(nn.Linear(3, 5))
    with pytest.raises(ValueError, match=r"activation is .*: expected relu, gelu or silu"):
        EncoderBlock.from_torch(torch_layer(nn.TransformerEncoderLayer, True, torch.tanh))
