"""Our GPT is transformers' GPT-2: logits, attention, gradients; its steps are the whole, whatever its positions."""

import pytest
import torch

import mha.masks as masks
from compare import assert_equal
from exact import assert_same_function, redraw
from mha.cost import attention_parameters
from mha.models.decoding import generate
from mha.models.gpt import GPT, GPTConfig, from_hub_names

SIZES = GPTConfig(vocab_size=101, max_length=19, num_layers=2, d_model=30, num_heads=5, d_mlp=37)
TOKENS = torch.randint(SIZES.vocab_size, (3, 13), generator=torch.Generator().manual_seed(7))
PADDING = torch.tensor([0, 5, 2])
POSITIONS = "learned", "sinusoidal", "rotary", "alibi", "none"


def with_(**changes):
    return GPTConfig(**vars(SIZES) | changes)


@pytest.fixture(scope="module")
def theirs():
    gpt2 = pytest.importorskip("transformers.models.gpt2")
    config = gpt2.GPT2Config(
        vocab_size=SIZES.vocab_size,
        n_positions=SIZES.max_length,
        n_embd=SIZES.d_model,
        n_layer=SIZES.num_layers,
        n_head=SIZES.num_heads,
        n_inner=SIZES.d_mlp,
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return redraw(gpt2.GPT2LMHeadModel(config), seed=3)


def ours(theirs, dtype=torch.float32, **changes):
    model = GPT(with_(**changes))
    model.load_state_dict(from_hub_names(theirs.state_dict()))
    return model.eval().to(dtype)


def drawn(**changes):
    return redraw(GPT(with_(**changes)).double(), seed=5)


def test_logits_and_attention(theirs):
    single, double = ours(theirs), ours(theirs, torch.float64)
    with torch.no_grad():
        output = theirs(TOKENS, output_attentions=True)
        assert_same_function(output.logits, single(TOKENS), double(TOKENS), label="logits")
    maps = torch.stack(output.attentions)
    assert_same_function(maps, single.attention_maps(TOKENS), double.attention_maps(TOKENS), label="attention")


def test_gradients(theirs):
    def gradients(model, logits):
        weight = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).reshape(logits.shape)
        (logits * weight).sum().backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    single, double = ours(theirs), ours(theirs, torch.float64)
    theirs.zero_grad()
    expected = from_hub_names(gradients(theirs, theirs(TOKENS).logits))
    single, double = gradients(single, single(TOKENS)), gradients(double, double(TOKENS))
    assert expected.keys() == single.keys()
    for name in expected:
        if not name.endswith("k_proj.bias"):  # it moves no weight: its gradient is zero
            assert_same_function(expected[name], single[name], double[name], label=name)


@pytest.mark.parametrize("fault", [{"activation": "gelu"}, {"norm_eps": 1.1e-5}, {"norm_first": False}])
def test_oracle_sees(theirs, fault):
    faulty = [GPT(with_(**fault)) for _ in range(2)]
    for model in faulty:
        model.load_state_dict(from_hub_names(theirs.state_dict()), strict="norm_first" not in fault)
    single, double = faulty[0].eval(), faulty[1].eval().double()
    with torch.no_grad(), pytest.raises(AssertionError, match="logits"):
        assert_same_function(theirs(TOKENS).logits, single(TOKENS), double(TOKENS), label="logits")


@pytest.mark.parametrize("padding", [0, PADDING], ids=["unpadded", "padded"])
def test_generates_what_transformers_does(theirs, padding):
    keep = (torch.arange(13) >= torch.as_tensor(padding).reshape(-1, 1)).long().expand(TOKENS.shape)
    expected = theirs.generate(TOKENS, attention_mask=keep, max_new_tokens=6, do_sample=False)
    assert_equal(generate(ours(theirs), TOKENS, 6, padding=padding), expected)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("position", POSITIONS)
def test_steps_are_the_whole(position, norm_first):
    model = drawn(position=position, norm_first=norm_first)
    with torch.no_grad():
        whole, caches, parts = model(TOKENS), model.caches(), []
        for chunk in TOKENS.split([5, 1, 0, 7], 1):
            logits, caches = model.step(chunk, caches)
            parts.append(logits)
        padded, _ = model.step(TOKENS, model.caches(PADDING))
        last, _ = model.step(TOKENS, model.caches(), last=True)
        # each logit is a sum of d_model products of size ‖x‖·‖e‖ ≤ 100, computed twice in another order
        assert_equal(torch.cat(parts, 1), whole, atol=1e-10)
        assert_equal(last, whole[:, -1:], atol=1e-10)
        for row, n in enumerate(PADDING):
            assert_equal(padded[row, n:], model(TOKENS[row : row + 1, n:])[0], atol=1e-10, label=f"{n} in front")


@pytest.mark.parametrize("position", POSITIONS)
def test_every_parameter_learns(position):
    model = drawn(position=position, norm_first=position != "none")
    (model(TOKENS) * torch.linspace(-1, 1, SIZES.vocab_size)).sum().backward()
    for name, parameter in model.named_parameters():
        idle = name.endswith("k_proj.bias") and position != "rotary"
        assert bool(parameter.grad.abs().max() > 1e-9) != idle, name


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_lengths(n):
    model = drawn()
    with torch.no_grad():
        assert_equal(model(TOKENS[:, :n]), model(TOKENS)[:, :n], atol=1e-10)
        assert model(TOKENS[:0, :n]).shape == (0, n, SIZES.vocab_size)


def test_mask_hides_further_keys():
    maps = drawn().attention_maps(TOKENS, mask=masks.window(2, 3))
    seen = torch.ones(13, 13, dtype=torch.bool).tril().triu(-2)
    assert bool((maps[..., ~seen] == 0).all())
    assert bool((maps[..., seen] > 0).all())


def test_parameters_are_those_that_the_formula_counts():
    model = GPT(with_(num_heads=6, num_kv_heads=2))
    attention = attention_parameters(30, 6, num_kv_heads=2)
    feed, norms = 2 * 30 * 37 + 37 + 30, 4 * 30
    expected = 2 * (attention + feed + norms) + (101 + 19 + 2) * 30
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_where_the_weights_start():
    torch.manual_seed(0)
    model = GPT(with_(d_model=120, d_mlp=370))
    adds = [part.weight for block in model.blocks for part in (block.attention.out_proj, block.feed_forward.down)]
    for weight in adds:
        assert abs(float(weight.detach().std()) / 0.01 - 1) < 0.05  # 0.02 / √(2 · 2 layers)
    for weight in (model.embed.weight, model.positions.weight, model.blocks[0].feed_forward.up.weight):
        assert abs(float(weight.detach().std()) / 0.02 - 1) < 0.05
    assert float(model.blocks[0].feed_forward.up.bias.detach().abs().max()) == 0


def test_dropout_in_training_only():
    model = drawn(dropout=0.5, attention_dropout=0.25)
    assert model.blocks[1].attention.dropout == 0.25
    assert_equal(model(TOKENS), model(TOKENS))
    model.train()
    torch.manual_seed(1)
    first = model(TOKENS)
    torch.manual_seed(1)
    assert_equal(model(TOKENS), first)
    assert not bool((model(TOKENS) == first).any())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: GPT(with_(position="t5")), ValueError, "position is 't5': expected one of 'learned', 'sinusoidal'"),
        (lambda: GPT(with_(num_heads=7)), ValueError, "d_model is 30"),
        (lambda: GPT(with_(num_layers=0)), ValueError, "num_layers is 0: expected at least 1"),
        (lambda: GPT(with_(vocab_size=2.5)), TypeError, "vocab_size is 2.5: expected an integer"),
        (lambda: drawn()(torch.full((1, 2), 101)), ValueError, "tokens holds 101: expected 0 to 100, the vocabulary"),
        (lambda: drawn()(torch.full((1, 2), -1)), ValueError, "tokens holds -1: expected 0 to 100"),
        (
            lambda: drawn()(torch.zeros(1, 20, dtype=torch.long)),
            ValueError,
            "tokens has length 20: expected at most 19",
        ),
        (lambda: drawn()(TOKENS[0]), ValueError, r"tokens has shape \(13,\): expected \(batch, length\)"),
        (lambda: drawn()(TOKENS.double()), TypeError, r"tokens has dtype torch\.float64: expected integers"),
        (lambda: generate(drawn(), TOKENS, 8), ValueError, "tokens has length 20: expected at most 19"),
        (lambda: drawn().step(TOKENS, []), ValueError, "caches has 0 entries: expected 2, one a layer"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_head_of_its_own_is_refused():
    state = {"lm_head.weight": torch.eye(3), "transformer.wte.weight": torch.eye(3)}
    assert list(from_hub_names(state)) == ["embed.weight"]
    with pytest.raises(ValueError, match=r"lm_head\.weight is not .*: expected a model with tied embeddings"):
        from_hub_names(state | {"lm_head.weight": torch.eye(3) + 1})
