"""A silenced head is a head whose columns of the output projection are zero, and nothing else changes."""

import copy

import pytest
import torch
from torch import nn

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.analysis import capture, without_heads
from mha.models.bert import Bert, BertConfig
from mha.models.gpt import GPT, GPTConfig
from mha.models.llama import Llama, LlamaConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.nn import Cache, MultiHeadAttention, attention
from nn.layers import draw, layer

LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
BERT = BertConfig(
    vocab_size=41, num_segments=2, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31, norm_eps=1e-12
)
GPT_SIZES = GPTConfig(vocab_size=41, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31)
SEQ2SEQ = Seq2SeqConfig(source_vocab=41, target_vocab=43, d_model=12, num_heads=3, num_layers=2, d_mlp=31)
TOKENS = torch.randint(41, (2, 11), generator=torch.Generator().manual_seed(2))
HEADS = {(0, 2), (1, 0), (1, 1)}


@pytest.fixture
def llama():
    return redraw(Llama(LLAMA), seed=13).double()


def zeroed(model, heads):
    """A copy whose output projections have zeros where these heads are read."""
    other = copy.deepcopy(model)
    layers = [part for part in other.modules() if isinstance(part, MultiHeadAttention)]
    with torch.no_grad():
        for number, head in heads:
            width = layers[number].d_head
            layers[number].out_proj.weight[:, head * width : (head + 1) * width] = 0
    return other


MODELS = [(Llama, LLAMA), (Bert, BERT), (GPT, GPT_SIZES)]


@pytest.mark.parametrize(("make", "config"), MODELS, ids=["llama", "bert", "gpt"])
def test_as_zeros_in_the_output_projection(make, config):
    model = redraw(make(config), seed=13).double()
    before = model(TOKENS)
    with without_heads(model, HEADS) as same:
        assert same is model
        ablated = model(TOKENS)
    assert_equal(ablated, zeroed(model, HEADS)(TOKENS), rtol=1e-12, atol=1e-12)
    wrong = zeroed(model, {(0, 2), (1, 0), (1, 2)})(TOKENS)
    assert (ablated - wrong).abs().max() > 1e-3, "another head would show"
    assert (ablated - before).abs().max() > 1e-3
    assert_equal(model(TOKENS), before, label="the same bits as before")


def test_a_layer_by_its_name(llama):
    with without_heads(llama, {("blocks.0.attention", 2), (1, 0), ("blocks.1.attention", 1)}):
        by_name = llama(TOKENS)
    with without_heads(llama, HEADS):
        assert_equal(by_name, llama(TOKENS))


def test_each_attention_of_a_translator():
    model = redraw(Seq2Seq(SEQ2SEQ), seed=13).double()
    source, target = TOKENS[:, :7], TOKENS[:, 7:]
    names = [name for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)]
    assert len(names) == 6
    for number, name in enumerate(names):
        with without_heads(model, {(name, 1)}):
            ablated = model(source, target)
            given = model.given(source)
            stepped, _ = given.step(target, given.caches())
        expected = zeroed(model, {(number, 1)})(source, target)
        assert_equal(ablated, expected, rtol=1e-12, atol=1e-12, label=name)
        assert_equal(stepped, expected, rtol=1e-12, atol=1e-12, label=f"{name}, with caches")
        assert (ablated - model(source, target)).abs().max() > 1e-3


def test_all_heads_of_a_layer_leave_its_bias():
    module, x = layer(12, 3), draw(2, 5, 12)
    with without_heads(module, {(0, head) for head in range(3)}):
        assert_equal(module(x), module.out_proj.bias.expand(2, 5, 12))


def test_gated_heads():
    module, x = layer(12, 3, gate=True), draw(2, 5, 12)
    with without_heads(module, {(0, 1)}):
        ablated = module(x)
    assert_equal(ablated, zeroed(module, {(0, 1)})(x), rtol=1e-12, atol=1e-12)


def test_steps_with_a_cache(llama):
    with without_heads(llama, HEADS):
        whole, caches, parts = llama(TOKENS), llama.caches(), []
        for rows in (slice(0, 4), slice(4, 5), slice(5, 11)):
            part, caches = llama.step(TOKENS[:, rows], caches)
            parts.append(part)
    assert_equal(torch.cat(parts, 1), whole, rtol=1e-12, atol=1e-12)


def test_the_weights_are_seen_and_left_alone(llama):
    state = {name: tensor.clone() for name, tensor in llama.state_dict().items()}
    with capture(llama) as plain:
        llama(TOKENS)
    with without_heads(llama, {(0, 2)}), capture(llama) as seen:
        llama(TOKENS)
    assert_equal(seen.calls[0].weights, plain.calls[0].weights, label="the head looked where it looked")
    silent = seen.calls[0].heads[:, 2]
    assert_equal(silent, torch.zeros_like(silent))
    assert (seen.calls[1].q - plain.calls[1].q).abs().max() > 1e-3
    for name, tensor in llama.state_dict().items():
        assert_equal(tensor, state[name], label=name)


def test_gradients_stop_at_a_silent_head(llama):
    with without_heads(llama, {(1, 4)}):
        llama(TOKENS).square().sum().backward()
    width = llama.blocks[1].attention.d_head
    own = slice(4 * width, 5 * width)
    part = llama.blocks[1].attention
    assert not part.q_proj.weight.grad[own].any()
    assert not part.out_proj.weight.grad[:, own].any()
    assert part.q_proj.weight.grad[: 4 * width].all()


def test_blocks_nest_and_end(llama):
    before = llama(TOKENS)
    with without_heads(llama, {(0, 2)}):
        outer = llama(TOKENS)
        with without_heads(llama, {(1, 0), (1, 1)}):
            both = llama(TOKENS)
        assert_equal(llama(TOKENS), outer)
        with pytest.raises(RuntimeError), without_heads(llama, {(1, 0)}):
            raise RuntimeError
        assert_equal(llama(TOKENS), outer)
    assert_equal(both, zeroed(llama, HEADS)(TOKENS), rtol=1e-12, atol=1e-12)
    assert_equal(llama(TOKENS), before)
    with without_heads(llama, set()):
        assert_equal(llama(TOKENS), before)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_a_compiled_model(llama):
    compiled = torch.compile(llama, backend="eager")
    before = compiled(TOKENS)
    with without_heads(llama, HEADS):
        ablated = compiled(TOKENS)
    assert_equal(ablated, zeroed(llama, HEADS)(TOKENS), rtol=1e-12, atol=1e-12)
    assert_equal(compiled(TOKENS), before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("heads", "error", "message"),
    [
        ({(3, 0)}, ValueError, r"heads names the layer 3: expected 0 … 2, or a name"),
        ({(-1, 0)}, ValueError, r"heads names the layer -1: expected 0 … 2"),
        ({("blocks.0", 0)}, ValueError, r"heads names the layer 'blocks.0': expected one of \['blocks.0.attention'"),
        ({(0, 6)}, ValueError, r"heads names head 6 of 'blocks.0.attention': expected 0 … 5"),
        ({(0, 1.0)}, TypeError, r"the head in heads is 1.0: expected an integer"),
        ((0, 1), TypeError, r"heads holds 0: expected pairs \(layer, head\)"),
    ],
)
def test_heads_that_are_not_there_are_named(llama, heads, error, message):
    with pytest.raises(error, match=message), without_heads(llama, heads):
        pass
    assert llama.blocks[0].attention.core is attention


def test_a_model_without_attention():
    none = pytest.raises(ValueError, match="model is a Linear without a MultiHeadAttention")
    with none, without_heads(nn.Linear(2, 3), {(0, 0)}):
        pass


def test_a_cache_of_a_layer():
    module, x = layer(12, 3), draw(2, 5, 12)
    with without_heads(module, {(0, 1)}):
        stepped, _ = module.step(x, Cache(), mask=masks.causal)
        assert_equal(stepped, module(x, mask=masks.causal), rtol=1e-12, atol=1e-12)
