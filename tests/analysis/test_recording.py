"""Looking into a pass changes nothing in it, and shows what happened."""

import copy

import pytest
import torch
from torch import nn

from compare import assert_equal
from exact import redraw
from mha import masks, reference
from mha.analysis import capture
from mha.models.bert import Bert, BertConfig
from mha.models.llama import Llama, LlamaConfig
from mha.nn import Cache, MultiHeadAttention, Rotary, attention, attention_stats, join_heads
from nn.layers import draw, layer

N, D_MODEL = 7, 13
OPTIONS = {"num_kv_heads": 2, "d_head": 4, "position": Rotary(), "qk_norm": nn.RMSNorm, "sinks": True, "softcap": 3.0}
LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
BERT = BertConfig(
    vocab_size=41, num_segments=2, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31, norm_eps=1e-12
)
TOKENS = torch.randint(41, (2, 11), generator=torch.Generator().manual_seed(2))


def test_a_call_is_what_attention_saw_and_answered():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL)
    bias = draw(6, N, N, seed=1)
    before = module(x, mask=masks.causal, bias=bias)
    with capture(module) as seen:
        during = module(x, mask=masks.causal, bias=bias)
    assert_equal(during, before, label="the same bits")
    call = seen[module]
    assert_equal(module.out_proj(join_heads(call.heads)), before)
    options = {"mask": masks.causal, "bias": bias.numpy(), "softcap": 3.0, "sinks": module.sinks.detach().numpy()}
    q, k, v = (t.detach().numpy() for t in (call.q, call.k, call.v))
    output, stats = reference.attention_stats(q, k, v, **options)
    assert_equal(call.heads, output, rtol=1e-12, atol=1e-13)
    assert_equal(call.weights, reference.attention_weights(q, k, **options), rtol=1e-12, atol=1e-14)
    for name, expected in stats._asdict().items():
        assert_equal(getattr(call.stats, name), expected, rtol=1e-12, atol=1e-12, label=name)
    see = torch.ones(N, N, dtype=torch.bool).tril()
    assert ((call.scores == -torch.inf) == ~see).all()
    sinks = module.sinks[:, None, None].expand(2, 6, N, 1)
    with_sinks = torch.cat([call.scores, sinks], -1).softmax(-1)[..., :-1]
    assert_equal(call.weights, with_sinks, rtol=1e-12, atol=1e-14)


def test_the_pass_that_ran_dropout_included():
    module, x = layer(D_MODEL, 6, **OPTIONS, dropout=0.5), draw(2, N, D_MODEL)
    with capture(module) as seen:
        out = module(x)
    call = seen[module]
    assert call.options["dropout"].p == 0.5
    assert_equal(module.out_proj(join_heads(call.heads)), out)
    assert_equal(attention(call.q, call.k, call.v, **call.options), call.heads, label="the same drops")


@pytest.mark.parametrize(("make", "config"), [(Llama, LLAMA), (Bert, BERT)], ids=["llama", "bert"])
def test_every_layer_of_a_model(make, config):
    model = redraw(make(config), seed=13)
    before = model(TOKENS)
    with capture(model) as seen, torch.no_grad():
        assert_equal(model(TOKENS), before, label="the same bits")
    assert list(seen) == [f"blocks.{n}.attention" for n in range(config.num_layers)]
    maps = model.attention_maps(TOKENS)
    for n, block in enumerate(model.blocks):
        call = seen[f"blocks.{n}.attention"]
        assert call is seen[block.attention] is seen.calls[n]
        assert_equal(call.weights, maps[n])
        assert_equal(attention_stats(call.q, call.k, call.v, **call.options)[0], call.heads)


def fail_inside(module, x):
    with capture(module) as seen:
        module(x)
        with pytest.raises(ValueError, match="x has shape"):
            module(x[..., :5])
    with pytest.raises(RuntimeError), capture(module):
        raise RuntimeError
    return seen


def test_nothing_is_left_behind():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL)
    state, inside = list(module.__dict__), module.core
    seen = fail_inside(module, x)
    assert len(seen.calls) == 1, "the call that was refused left nothing"
    assert (list(module.__dict__), module.core) == (state, inside)
    module(x)
    assert len(seen.calls) == 1, "what runs later is not recorded"


def test_a_copy_made_inside_records_nothing_later():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL)
    with capture(module) as seen:
        other = copy.deepcopy(module)
    assert_equal(other(x), module(x))
    assert seen.calls == []


def test_captures_nest():
    model = redraw(Llama(LLAMA), seed=13)
    first = model.blocks[0].attention
    with capture(model) as outer:
        with capture(first) as inner:
            model(TOKENS)
        model(TOKENS)
    assert [call.name for call in inner.calls] == [""]
    assert len(outer.calls) == 6
    assert_equal(outer.calls[0].weights, inner[first].weights)
    assert first.core is attention


class Scaled(nn.Module):
    """A core with parameters of its own."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, q, k, v, **options):
        return self.factor * attention(q, k, v, **options)


def test_a_core_that_is_a_module():
    module, x = layer(D_MODEL, 1, core=Scaled()), draw(2, N, D_MODEL)
    names, core = list(module.state_dict()), module.core
    with capture(module) as seen:
        module(x)
        assert list(module.state_dict()) == names
    assert module.core is core
    assert_equal(seen[module].heads, core.factor * (seen[module].weights @ seen[module].v), rtol=1e-12, atol=1e-13)


def test_a_layer_that_runs_twice():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL)
    with capture(nn.ModuleDict({"shared": module})) as seen:
        module(module(x))
    first, second = seen.calls
    assert seen["shared"] is second
    assert len(seen) == 1
    assert_equal(first.q, module.project(x)[0])


def test_the_graph_of_the_pass_unless_detached():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL).requires_grad_()
    bias = draw(N, N, seed=1).requires_grad_()
    with capture(module) as seen:
        module(x, bias=bias)
    call = seen[module]
    loss = call.stats.entropy.sum()
    again = attention_stats(*module.project(x), bias=bias, softcap=3.0, sinks=module.sinks)[1].entropy.sum()
    expected = torch.autograd.grad(again, x)[0]
    assert_equal(torch.autograd.grad(loss, x)[0], expected, rtol=1e-12, atol=1e-13)
    with capture(module, detach=True) as seen:
        module(x, bias=bias).sum().backward()
    call = seen[module]
    assert not any(t.requires_grad for t in (call.q, call.k, call.v, call.heads, call.weights, call.scores))
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_a_compiled_layer_is_recorded_too():
    module, x = layer(D_MODEL, 6, **OPTIONS).eval(), draw(2, N, D_MODEL)
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    before = compiled(x)
    with capture(module) as seen:
        compiled(x)
    assert_equal(seen[module].q, module.project(x)[0], rtol=1e-12, atol=1e-13)
    assert_equal(compiled(x), before)
    assert len(seen.calls) == 1


def test_what_is_not_there_is_named():
    module, other = layer(D_MODEL, 6, **OPTIONS), MultiHeadAttention(6, 2)
    with capture(module) as seen:
        module(draw(2, N, D_MODEL))
    with pytest.raises(KeyError, match=r"did not run: expected one of \[''\]"):
        seen[other]
    with pytest.raises(ValueError, match="model is a Linear without a MultiHeadAttention"), capture(nn.Linear(2, 3)):
        pass


def test_steps_with_a_cache_are_calls_too():
    module, x = layer(D_MODEL, 6, **OPTIONS), draw(2, N, D_MODEL)
    whole, cache = module.weights(x, mask=masks.causal), Cache()
    with capture(module) as seen:
        for rows in (slice(0, 4), slice(4, N)):
            _, cache = module.step(x[:, rows], cache, mask=masks.causal)
    first, second = seen.calls
    assert_equal(first.weights, whole[:, :, :4, :4], rtol=1e-12, atol=1e-14)
    assert_equal(second.weights, whole[:, :, 4:], rtol=1e-12, atol=1e-14)
