"""Blocks are the reference's; what is cached, padded or reordered changes nothing; dropout acts where it says."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from compare import assert_equal
from mha import masks
from mha.nn import Cache, DecoderBlock, EncoderBlock, Rotary
from nn.blocks import decoder_in_reference, encoder_in_reference, spread
from nn.layers import draw

BATCH, N, SOURCE, D_MODEL, HEADS, D_MLP = 2, 7, 5, 12, 3, 17
SMALL = partial(nn.RMSNorm, eps=1e-6)
KINDS = {
    "paper": {"norm_first": False, "activation": "relu"},
    "gpt": {"activation": "gelu_tanh"},
    "bert": {"norm_first": False, "activation": "gelu", "norm_eps": 1e-12},
    "llama": {"norm": "rms", "activation": "swiglu", "bias": False, "num_kv_heads": 1, "position": Rotary()},
    "others": {"norm": "rms", "activation": "geglu", "norm_first": False, "qk_norm": SMALL, "sinks": True},
}
kinds = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
KEEP = torch.tensor([[True] * 5, [True, False, True, True, False]])


def encoder(seed=1, **options):
    return spread(EncoderBlock(D_MODEL, HEADS, D_MLP, **options), seed)


def decoder(seed=1, **options):
    return spread(DecoderBlock(D_MODEL, HEADS, D_MLP, **options), seed)


X, MEMORY = draw(BATCH, N, D_MODEL), draw(BATCH, SOURCE, D_MODEL, seed=2)


@kinds
@pytest.mark.parametrize("mask", [None, masks.causal, masks.lengths([7, 3])], ids=["all", "causal", "lengths"])
def test_the_encoder_equals_the_reference(options, mask):
    block = encoder(**options)
    assert_equal(block(X, mask=mask), encoder_in_reference(block, X, mask), **EXACT)


@kinds
@pytest.mark.parametrize("memory_mask", [None, masks.key_padding(KEEP.numpy())], ids=["all", "padding"])
def test_the_decoder_equals_the_reference(options, memory_mask):
    block = decoder(**options)
    expected = decoder_in_reference(block, X, MEMORY, masks.causal, memory_mask)
    assert_equal(block(X, MEMORY, memory_mask=memory_mask), expected, **EXACT)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("source", [0, 1])
def test_short_and_empty(n, source):
    block, x, memory = decoder(), X[:, :n], MEMORY[:, :source]
    assert_equal(block(x, memory), decoder_in_reference(block, x, memory, masks.causal, None), **EXACT)
    assert block(x[:0], memory[:0]).shape == (0, n, D_MODEL)
    assert encoder()(x[:0]).shape == (0, n, D_MODEL)


@kinds
def test_steps_of_the_encoder_are_the_whole(options):
    block, cache, parts = encoder(**options), Cache(), []
    for rows in X.split([3, 1, 0, 3], 1):
        part, cache = block.step(rows, cache, mask=masks.causal)
        parts.append(part)
    assert_equal(torch.cat(parts, 1), block(X, mask=masks.causal), **EXACT)


@kinds
@pytest.mark.parametrize("keep", [None, KEEP], ids=["whole source", "padded source"])
def test_steps_of_the_decoder_are_the_whole(options, keep):
    block, parts = decoder(**options), []
    cache = block.cache(MEMORY, keep=keep)
    for rows in X.split([3, 1, 0, 3], 1):
        part, cache = block.step(rows, cache)
        parts.append(part)
    hidden = None if keep is None else masks.key_padding(keep)
    assert_equal(torch.cat(parts, 1), block(X, MEMORY, memory_mask=hidden), **EXACT)


@kinds
def test_padding_of_the_memory_changes_nothing(options):
    block = decoder(**options)
    expected = block(X[1:], MEMORY[1:, KEEP[1]])
    assert_equal(block(X, MEMORY, memory_mask=masks.key_padding(KEEP))[1:], expected, **EXACT)


@kinds
def test_padding_in_front_of_the_rows_changes_nothing(options):
    block, padding = decoder(**options), torch.tensor([0, 3])
    out, cache = block.step(X, block.cache(MEMORY, keep=KEEP, padding=padding))
    more, _ = block.step(X[:, :2], cache)
    alone, cache = block.step(X[1:, 3:], block.cache(MEMORY[1:], keep=KEEP[1:]))
    assert_equal(out[1:, 3:], alone, **EXACT)
    assert_equal(more[1:], block.step(X[1:, :2], cache)[0], **EXACT)


@kinds
def test_beams_take_their_memory_along(options):
    block, order = decoder(**options), torch.tensor([1, 0, 1, 1])
    _, cache = block.step(X[:, :4], block.cache(MEMORY, keep=KEEP))
    found, _ = block.step(X[order, 4:], cache.reorder(order))
    whole = block(X[order], MEMORY[order], memory_mask=masks.key_padding(KEEP[order]))
    assert_equal(found, whole[:, 4:], **EXACT)


def test_a_shorter_cache_forgets_the_rows_behind():
    block = decoder()
    _, cache = block.step(X, block.cache(MEMORY))
    again, _ = block.step(X[:, 4:], cache.crop(4))
    assert_equal(again, block(X, MEMORY)[:, 4:], **EXACT)
    assert (cache.lengths, cache.crop(4).lengths) == (7, 4)
    assert_equal(cache.positions(2), [7, 8])


def test_a_position_scheme_acts_among_the_tokens_alone():
    block = decoder(position=Rotary())
    assert isinstance(block.attention.position, Rotary)
    assert block.cross_attention.position is None
    assert_equal(block(X, MEMORY.flip(1)), block(X, MEMORY), **EXACT, label="a memory is a set to it")


def test_the_memory_is_projected_once():
    block, seen = decoder(), []
    for linear in (block.cross_attention.k_proj, block.cross_attention.v_proj):
        linear.register_forward_hook(lambda *call: seen.append(call))
    cache = block.cache(MEMORY)
    for row in X.split(1, 1):
        _, cache = block.step(row, cache)
    assert len(seen) == 2


@kinds
@pytest.mark.parametrize("make", [encoder, decoder])
def test_every_parameter_learns(make, options):
    block = make(**options)
    given = (X,) if make is encoder else (X, MEMORY)
    (block(*given, mask=masks.causal) * draw(BATCH, N, D_MODEL, seed=5)).sum().backward()
    for name, parameter in block.named_parameters():
        learns = float(parameter.grad.abs().max()) > 1e-6
        cancels = name.endswith("k_proj.bias") and block.attention.k_norm is None and block.attention.position is None
        assert learns != cancels, name  # one number more in all scores of a row moves no weight


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients(norm_first):
    block = spread(DecoderBlock(4, 2, 3, norm_first=norm_first, activation="swiglu"))
    x, memory = draw(2, 3, 4, seed=3).requires_grad_(), draw(2, 2, 4, seed=4).requires_grad_()
    assert torch.autograd.gradcheck(block, (x, memory), fast_mode=True)


def constant(block):
    """Let every layer add ones, whatever it reads."""
    with torch.no_grad():
        for linear in (part for part in block.modules() if isinstance(part, nn.Linear)):
            linear.weight.zero_()
            linear.bias.fill_(1.0)
    return block


def test_dropout_acts_on_what_a_layer_adds():
    block = constant(decoder(dropout=0.5)).train()
    torch.manual_seed(0)
    added = (block(X, MEMORY) - X).detach().round(decimals=9)
    assert sorted(added.unique().tolist()) == [0.0, 2.0, 4.0, 6.0]  # three layers, each 0 or 1 / (1 − 0.5)
    share = float(added.mean()) / 3
    assert abs(share - 1) < 5 / (3 * added.numel()) ** 0.5  # five standard errors of the mean of 0 and 2
    torch.manual_seed(0)
    assert_equal(block(X, MEMORY) - X, added, atol=1e-9)
    assert_equal(block.eval()(X, MEMORY) - X, torch.full_like(X, 3.0), atol=1e-12)


def test_dropout_acts_before_the_norm_behind():
    block = constant(encoder(dropout=0.5, norm_first=False)).train()
    found = block(X)
    for norm in (block.attention_norm, block.feed_forward_norm):
        nn.init.ones_(norm.weight), nn.init.zeros_(norm.bias)
    assert_equal(block(X).mean(-1), torch.zeros(BATCH, N), atol=1e-12, label="a norm has the last word")
    assert found.shape == X.shape


def test_dropout_of_attention():
    block = decoder(attention_dropout=0.25)
    assert (block.attention.dropout, block.cross_attention.dropout, block.dropout) == (0.25, 0.25, 0.0)
    assert block.feed_forward.dropout == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@kinds
def test_half_precision(options, dtype):
    block = decoder(**options)
    half = copy.deepcopy(block).to(dtype)
    out, expected = half(X.to(dtype), MEMORY.to(dtype)).detach(), block(X, MEMORY).detach()
    assert out.dtype is dtype
    spacing = torch.finfo(dtype).eps  # each of about ten roundings moves the stream by half of it, relative to its size
    assert_equal(out.double(), expected, atol=20 * spacing * float(expected.abs().max()))


def test_copies_and_state():
    block = decoder(num_kv_heads=1)
    other = decoder(seed=9, num_kv_heads=1)
    other.load_state_dict(block.state_dict())
    for same in (copy.deepcopy(block), other):
        assert_equal(same(X, MEMORY), block(X, MEMORY))
    parts = {name.split(".")[0] for name in block.state_dict()}
    assert parts == {
        "attention",
        "attention_norm",
        "cross_attention",
        "cross_norm",
        "feed_forward",
        "feed_forward_norm",
    }


@kinds
def test_meta_device(options):
    block = DecoderBlock(D_MODEL, HEADS, D_MLP, device="meta", **options)
    assert {parameter.device.type for parameter in block.parameters()} == {"meta"}
    assert block(X.float().to("meta"), MEMORY.float().to("meta")).shape == X.shape


@pytest.mark.parametrize("options", [KINDS["paper"], KINDS["llama"]], ids=["paper", "llama"])
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_one_graph(options):
    block = decoder(**options)
    whole = torch.compile(block, fullgraph=True, backend="eager")
    with torch.no_grad():
        assert_equal(whole(X, MEMORY), block(X, MEMORY), **EXACT)


def test_export():
    block = decoder(norm_first=False, activation="relu")
    program = torch.export.export(block, (X, MEMORY))
    assert_equal(program.module()(X, MEMORY), block(X, MEMORY), **EXACT)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: EncoderBlock(12, 5, 17), ValueError, r"d_model is 12 .*5|12.*5 heads"),
        (lambda: EncoderBlock(12, 3, 17, norm="batch"), ValueError, "norm is 'batch': expected one of 'layer', 'rms'"),
        (lambda: EncoderBlock(12, 3, 17, norm_first=1), TypeError, "norm_first is 1: expected True or False"),
        (lambda: EncoderBlock(12, 3, 17, norm_eps=0), ValueError, "norm_eps is 0: expected a positive number"),
        (lambda: EncoderBlock(12, 3, 17, dropout=-0.1), ValueError, "dropout is -0.1: expected 0 ≤ dropout < 1"),
        (lambda: EncoderBlock(12, 3, 17, attention_dropout=1), ValueError, "attention_dropout is 1: expected 0"),
        (lambda: decoder()(X, MEMORY[..., :11]), ValueError, r"context has shape \(2, 5, 11\): expected"),
        (lambda: decoder()(X, None), TypeError, "memory is None: expected a torch tensor"),
        (lambda: decoder().step(X, Cache()), TypeError, r"cache is a Cache: expected a DecoderCache, as from"),
        (lambda: decoder().cache(MEMORY, keep=KEEP[:1]), ValueError, r"keep has shape \(1, 5\): expected \(2, 5\)"),
        (lambda: decoder().cache(MEMORY, keep=KEEP.long()), TypeError, "keep has dtype torch.int64: expected a bool"),
        (lambda: decoder().step(X[:1], decoder().cache(MEMORY)), ValueError, r"x has shape \(1, 7, 12\): expected 2 s"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
