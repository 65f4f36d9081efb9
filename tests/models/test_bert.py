"""Our Bert is transformers' BertModel: hidden states, attention and gradients, random weights of std 0.3."""

import pytest
import torch

import mha.masks as masks
from compare import assert_equal
from exact import assert_same_function, redraw
from mha.models.bert import Bert, BertConfig, BertForPreTraining, from_hub_names, pretraining_from_hub_names

transformers = pytest.importorskip("transformers")

SIZES = BertConfig(
    vocab_size=101, num_segments=3, max_length=17, num_layers=2, d_model=35, num_heads=5, d_mlp=23, norm_eps=1e-12
)
GENERATOR = torch.Generator().manual_seed(11)
TOKENS = torch.randint(1, SIZES.vocab_size, (3, 13), generator=GENERATOR)  # theirs gives padding, 0, no gradient
SEGMENTS = torch.randint(SIZES.num_segments, (3, 13), generator=GENERATOR)


def hugging_face(kind, **options):
    config = transformers.BertConfig(
        vocab_size=SIZES.vocab_size,
        type_vocab_size=SIZES.num_segments,
        max_position_embeddings=SIZES.max_length,
        num_hidden_layers=SIZES.num_layers,
        hidden_size=SIZES.d_model,
        num_attention_heads=SIZES.num_heads,
        intermediate_size=SIZES.d_mlp,
        layer_norm_eps=SIZES.norm_eps,
        attn_implementation="eager",
    )
    return redraw(kind(config, **options), seed=5)


@pytest.fixture(scope="module")
def theirs():
    return hugging_face(transformers.BertModel, add_pooling_layer=False)


@pytest.fixture(scope="module")
def pretraining():
    return hugging_face(transformers.BertForPreTraining)


def ours(theirs, dtype=torch.float32):
    model = Bert(SIZES)
    model.load_state_dict(from_hub_names(theirs.state_dict()))
    return model.eval().to(dtype)


def test_hidden_states_and_attention(theirs):
    single, double = ours(theirs), ours(theirs, torch.float64)
    with torch.no_grad():
        output = theirs(TOKENS, token_type_ids=SEGMENTS, output_attentions=True)
        hidden = (model(TOKENS, segments=SEGMENTS) for model in (single, double))
        assert_same_function(output.last_hidden_state, *hidden, label="hidden states")
    maps = (model.attention_maps(TOKENS, segments=SEGMENTS) for model in (single, double))
    assert_same_function(torch.stack(output.attentions), *maps, label="attention")


def test_padding(theirs):
    lengths = torch.tensor([13, 7, 1])
    kept = torch.arange(13) < lengths[:, None]
    with torch.no_grad():
        expected = theirs(TOKENS, attention_mask=kept.long()).last_hidden_state[kept]
        hidden = (ours(theirs, dtype)(TOKENS, mask=masks.lengths(lengths)) for dtype in (torch.float32, torch.float64))
        assert_same_function(expected, *(x[kept] for x in hidden), label="padded")


def test_gradients(theirs):
    def gradients(model, hidden):
        weight = torch.linspace(-1, 1, hidden.numel(), dtype=hidden.dtype).reshape(hidden.shape)
        (hidden * weight).sum().backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    single, double = ours(theirs), ours(theirs, torch.float64)
    theirs.zero_grad()
    expected = from_hub_names(gradients(theirs, theirs(TOKENS, token_type_ids=SEGMENTS).last_hidden_state))
    single, double = (gradients(model, model(TOKENS, segments=SEGMENTS)) for model in (single, double))
    assert expected.keys() == single.keys()
    for name in expected:
        if name.endswith("k_proj.bias"):  # a constant added to every key moves no weight: this gradient is zero
            assert float(expected[name].abs().max()) < 1e-3 * float(expected[name[:-4] + "weight"].abs().max())
            continue
        assert_same_function(expected[name], single[name], double[name], label=name)


def test_oracle_sees_swapped_norms(theirs):
    faulty = ours(theirs), ours(theirs, torch.float64)
    for model in faulty:
        block = model.blocks[1]
        block.attention_norm, block.feed_forward_norm = block.feed_forward_norm, block.attention_norm
    with torch.no_grad():
        expected, *hidden = theirs(TOKENS).last_hidden_state, *(model(TOKENS) for model in faulty)
    with pytest.raises(AssertionError, match="hidden states"):
        assert_same_function(expected, *hidden, label="hidden states")


def test_no_more_tokens_than_positions(theirs):
    with pytest.raises(ValueError, match=r"length 18: expected at most 17"):
        ours(theirs)(torch.zeros(1, 18, dtype=torch.long))


def with_heads(theirs, dtype):
    model = BertForPreTraining(SIZES)
    model.load_state_dict(pretraining_from_hub_names(theirs.state_dict()))
    return model.eval().to(dtype)


def compare_heads(theirs, single, double):
    kept = masks.lengths(torch.tensor([13, 7, 1]))
    hide = torch.arange(13) < torch.tensor([[13], [7], [1]])
    with torch.no_grad():
        output = theirs(TOKENS, token_type_ids=SEGMENTS, attention_mask=hide.long())
        single, double = (model(TOKENS, segments=SEGMENTS, mask=kept) for model in (single, double))
    for name, part in {"words": "prediction_logits", "next_sentence": "seq_relationship_logits"}.items():
        expected, *found = getattr(output, part), getattr(single, name), getattr(double, name)
        if name == "words":
            expected, *found = (x[hide] for x in (expected, *found))
        assert_same_function(expected, *found, label=name)


def test_heads_of_pretraining(pretraining):
    compare_heads(pretraining, with_heads(pretraining, torch.float32), with_heads(pretraining, torch.float64))


@pytest.mark.parametrize(("part", "label"), [("word_bias", "words"), ("pooler.bias", "next_sentence")])
def test_oracle_sees_a_forgotten_bias(pretraining, part, label):
    faulty = with_heads(pretraining, torch.float32), with_heads(pretraining, torch.float64)
    for model in faulty:
        model.get_parameter(part).data.zero_()
    with pytest.raises(AssertionError, match=label):
        compare_heads(pretraining, *faulty)


def test_gradients_of_pretraining(pretraining):
    """The embeddings learn from both ends: as inputs, and as what the logits compare with."""
    ours = with_heads(pretraining, torch.float64)
    words, pair = ours(TOKENS, segments=SEGMENTS)
    (words.cos().sum() + pair.cos().sum()).backward()
    double = pretraining.double()
    output = double(TOKENS, token_type_ids=SEGMENTS)
    (output.prediction_logits.cos().sum() + output.seq_relationship_logits.cos().sum()).backward()
    expected = {name: parameter.grad for name, parameter in double.named_parameters()}
    found = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, gradient in pretraining_from_hub_names(expected).items():
        size = float(gradient.abs().max())
        rows = slice(1, None) if name == "bert.embed.weight" else slice(None)  # theirs gives padding, 0, none as input
        assert_equal(found[name][rows], gradient[rows], atol=1e-9 * max(1, size), label=name)
        assert size > 1e-6 or name.endswith("k_proj.bias"), f"{name} does not learn"
    pretraining.float()


def test_rows_may_be_chosen(pretraining):
    model = with_heads(pretraining, torch.float64)
    hidden = model.bert(TOKENS)
    assert_equal(model.words(hidden[:, 3]), model(TOKENS).words[:, 3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model(TOKENS[:, :0]), r"hidden has shape \(3, 0, 35\): expected a token at least"),
        (lambda model: model(TOKENS + 100), r"tokens holds 200: expected 0 to 100, the vocabulary|tokens holds 1\d\d"),
        (lambda model: model(TOKENS[:1], segments=SEGMENTS), r"segments has shape \(3, 13\): expected \(1, 13\)"),
        (lambda model: model(TOKENS, segments=SEGMENTS + 1), "segments holds 3: expected 0 to 2"),
    ],
)
def test_bad_input_is_named(pretraining, call, message):
    with pytest.raises(ValueError, match=message):
        call(with_heads(pretraining, torch.float32))
