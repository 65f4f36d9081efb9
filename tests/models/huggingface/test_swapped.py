"""A model of transformers gives the same numbers on our layers, is read and cut there, and is itself afterwards."""

import pytest
import torch
import transformers

from compare import assert_equal
from exact import redraw
from mha.analysis import capture, remove_heads, without_heads
from mha.models.huggingface import swapped
from mha.nn import MultiHeadAttention

SMALL = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 41, "intermediate_size": 31}
GROUPED = SMALL | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 6}
EXPERTS = {"sliding_window": 3, "num_local_experts": 2, "num_experts_per_tok": 1, "experts_implementation": "eager"}
TOKENS = torch.randint(41, (2, 7), generator=torch.Generator().manual_seed(1))
IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(2))
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=18, n_layer=2, n_head=3, vocab_size=41, n_positions=32)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)),
    "gpt-neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SMALL)),
    "gpt-oss": lambda: transformers.GptOssForCausalLM(transformers.GptOssConfig(**GROUPED, **EXPERTS)),
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**SMALL | {"image_size": 8, "patch_size": 4})),
}


def made(name):
    return redraw(MODELS[name](), seed=5).double()


def run(model, **options):
    with torch.no_grad():
        if isinstance(model, transformers.ViTModel):
            return model(IMAGES.double())[0]
        return model(TOKENS, use_cache=False, **options)[0]


CASES = [(name, how) for name in MODELS for how in ("eager", "sdpa")]
CASES.remove(("gpt-oss", "sdpa"))  # transformers has no sinks there


@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_the_same_numbers_and_the_same_model_afterwards(name, implementation):
    model = made(name)
    model.set_attn_implementation(implementation)
    before, parts = run(model), list(model.modules())
    with swapped(model) as same, capture(model) as seen:
        assert same is model
        assert sum(isinstance(part, MultiHeadAttention) for part in model.modules()) == 2
        assert_equal(run(model), before, rtol=1e-5, atol=1e-5)
    assert len(seen.calls) == 2
    if name != "gpt-oss":  # whose sinks take a share
        assert_equal(seen.calls[1].weights.sum(-1), torch.ones(seen.calls[1].q.shape[:-1]), atol=1e-12)
    assert all(one is other for one, other in zip(model.modules(), parts, strict=True))
    assert_equal(run(model), before, label="the same bits")


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_padding(name, implementation):
    model = made(name)
    model.set_attn_implementation(implementation)
    keep = torch.ones_like(TOKENS)
    keep[1, 4:] = 0
    before = run(model, attention_mask=keep)
    with swapped(model):
        after = run(model, attention_mask=keep)
    assert_equal(after[keep.bool()], before[keep.bool()], rtol=1e-5, atol=1e-5)
    assert (run(model)[1, :4] - before[1, :4]).abs().max() > 1e-3 or name != "bert"


def test_the_weights_are_those_of_transformers():
    model = made("bert")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(TOKENS, output_attentions=True).attentions
    with swapped(model), capture(model) as seen:
        run(model)
    for call, weights in zip(seen.calls, expected, strict=True):
        assert_equal(call.weights, weights, atol=1e-12, label=call.name)


def test_heads_are_silenced_and_removed():
    model = made("gpt2")
    with swapped(model):
        with without_heads(model, {(0, 1), (1, 2)}):
            silent = run(model)
        cut = remove_heads(model, {(0, 1), (1, 2)})
        assert_equal(run(model), silent, rtol=1e-12, atol=1e-12)
        cut.undo()
    width = model.config.n_embd // 3
    with torch.no_grad():
        model.transformer.h[0].attn.c_proj.weight[width : 2 * width] = 0
        model.transformer.h[1].attn.c_proj.weight[2 * width :] = 0
    assert_equal(silent, run(model), rtol=1e-5, atol=1e-5)


def test_what_it_cannot_do_is_named():
    model = made("llama")
    with swapped(model), pytest.raises(ValueError, match=r"cache is given .* LlamaAttention .*use_cache=False"):
        model(TOKENS, use_cache=True)
    decoder = {"is_decoder": True, "add_cross_attention": True}
    bert = redraw(transformers.BertModel(transformers.BertConfig(**SMALL, **decoder)), seed=5)
    with swapped(bert), pytest.raises(ValueError, match="encoder_hidden_states is given to a BertAttention"):
        bert(TOKENS, encoder_hidden_states=torch.zeros(2, 5, 18), use_cache=False)
    with (
        swapped(model),
        pytest.raises(ValueError, match=r"past_key_values is given .* LlamaAttention .*use_cache=False"),
    ):
        model.model.layers[0].self_attn(torch.zeros(2, 7, 18).double(), past_key_values=transformers.DynamicCache())
    with pytest.raises(ValueError, match="model is a Linear without a layer to swap"), swapped(torch.nn.Linear(2, 3)):
        pass
    sizes = {"d_model": 18, "num_heads": 3, "d_kv": 6, "d_ff": 31, "num_layers": 1, "vocab_size": 41}
    t5 = transformers.T5EncoderModel(transformers.T5Config(**sizes))
    with pytest.raises(TypeError, match="model has a T5Attention: expected one of BertAttention"), swapped(t5):
        pass


def test_an_error_in_the_block_leaves_the_model_as_it_was():
    model = made("bert")
    before = run(model)
    with pytest.raises(RuntimeError), swapped(model):
        raise RuntimeError
    assert_equal(run(model), before)
