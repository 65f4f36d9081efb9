"""Our Llama is transformers' Llama: logits, attention and gradients, random weights of std 0.3."""

import pytest
import torch

import mha.masks as masks
from compare import assert_equal
from exact import assert_same_function, redraw
from mha.models.llama import Llama, LlamaConfig, from_hub_names

transformers = pytest.importorskip("transformers")

SIZES = LlamaConfig(
    vocab_size=101, num_layers=3, d_model=84, num_heads=6, num_kv_heads=2, d_mlp=37, rope_base=1000.0, norm_eps=1e-5
)
TOKENS = torch.randint(SIZES.vocab_size, (5, 13), generator=torch.Generator().manual_seed(7))


@pytest.fixture(scope="module")
def theirs():
    config = transformers.LlamaConfig(
        vocab_size=SIZES.vocab_size,
        num_hidden_layers=SIZES.num_layers,
        hidden_size=SIZES.d_model,
        num_attention_heads=SIZES.num_heads,
        num_key_value_heads=SIZES.num_kv_heads,
        intermediate_size=SIZES.d_mlp,
        rms_norm_eps=SIZES.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": SIZES.rope_base},
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    return redraw(transformers.LlamaForCausalLM(config), seed=3)


def ours(theirs, sizes=SIZES, dtype=torch.float32):
    model = Llama(sizes)
    model.load_state_dict(from_hub_names(theirs.state_dict()))
    return model.eval().to(dtype)


def test_logits_and_attention(theirs):
    with torch.no_grad():
        output = theirs(TOKENS, output_attentions=True)
        single, double = ours(theirs), ours(theirs, dtype=torch.float64)
        assert_same_function(output.logits, single(TOKENS), double(TOKENS), label="logits")
    maps = torch.stack(output.attentions)
    assert_same_function(maps, single.attention_maps(TOKENS), double.attention_maps(TOKENS), label="attention")


def test_gradients(theirs):
    def gradients(model, logits):
        weight = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).reshape(logits.shape)
        (logits * weight).sum().backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    single, double = ours(theirs), ours(theirs, dtype=torch.float64)
    theirs.zero_grad()
    expected = from_hub_names(gradients(theirs, theirs(TOKENS).logits))
    single, double = gradients(single, single(TOKENS)), gradients(double, double(TOKENS))
    assert expected.keys() == single.keys()
    for name in expected:
        assert_same_function(expected[name], single[name], double[name], label=name)


@pytest.mark.parametrize("fault", [{"rope_base": 1001.0}, {"norm_eps": 1.1e-5}])
def test_oracle_sees_a_wrong_constant(theirs, fault):
    wrong = LlamaConfig(**{**vars(SIZES), **fault})
    assert_not_same_logits(theirs, (ours(theirs, wrong), ours(theirs, wrong, torch.float64)))


def test_oracle_sees_heads_in_the_wrong_groups(theirs):
    faulty = ours(theirs), ours(theirs, dtype=torch.float64)
    for model in faulty:
        for block in model.blocks:
            rows = block.attention.q_proj.weight.data.unflatten(0, (SIZES.num_heads, -1))
            block.attention.q_proj.weight.data = rows.flip(0).flatten(0, 1)
    assert_not_same_logits(theirs, faulty)


def assert_not_same_logits(theirs, faulty):
    with torch.no_grad():
        expected, *logits = theirs(TOKENS).logits, *(model(TOKENS) for model in faulty)
    with pytest.raises(AssertionError, match="logits"):
        assert_same_function(expected, *logits, label="logits")


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_lengths(theirs, n):
    """No token sees a later one, so a beginning has the logits that it has in the whole."""
    model = ours(theirs, dtype=torch.float64)
    with torch.no_grad():
        # each logit is a sum of d_model products of size ‖x‖·‖e‖ ≤ 100, computed twice in another order
        assert_equal(model(TOKENS[:, :n]), model(TOKENS)[:, :n], atol=1e-10, label=f"first {n}")


def test_mask_hides_further_keys(theirs):
    model = ours(theirs)
    with torch.no_grad():
        maps = model.attention_maps(TOKENS, mask=masks.window(2, 3))
    seen = torch.ones(13, 13, dtype=torch.bool).tril().triu(-2)
    assert bool((maps[..., ~seen] == 0).all())
    assert bool((maps[..., seen] > 0).all())


def test_a_head_of_its_own_is_refused():
    state = {"lm_head.weight": torch.eye(3), "model.embed_tokens.weight": torch.eye(3)}
    assert list(from_hub_names(state)) == ["embed.weight"]
    with pytest.raises(ValueError, match=r"lm_head\.weight is not .*: expected a model with tied embeddings"):
        from_hub_names(state | {"lm_head.weight": torch.eye(3) + 1})
