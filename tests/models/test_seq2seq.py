"""Our Transformer is torch's and Marian's; padding, caches and beams change nothing; the source is read once."""

import re

import pytest
import torch
from torch import nn

from compare import assert_equal
from exact import assert_same_function, redraw
from mha.cost import attention_parameters
from mha.models.decoding import generate
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.nn import DecoderBlock, EncoderBlock, SinusoidalPositions

SIZES = Seq2SeqConfig(101, 97, d_model=30, num_heads=5, num_layers=3, d_mlp=37, max_length=23)
GENERATOR = torch.Generator().manual_seed(11)
SOURCE = torch.randint(SIZES.source_vocab, (3, 11), generator=GENERATOR)
TARGET = torch.randint(SIZES.target_vocab, (3, 7), generator=GENERATOR)
LENGTHS = torch.tensor([11, 6, 1])
KEEP = torch.arange(11) < LENGTHS[:, None]
CLOSE = {"rtol": 1e-11, "atol": 1e-10}  # each logit is a sum of d_model products of size ‖x‖·‖e‖ ≤ 100


def drawn(seed=3, **changes):
    return redraw(Seq2Seq(Seq2SeqConfig(**vars(SIZES) | changes)).double(), seed=seed)


def torch_transformer(norm_first, activation):
    """Return a torch.nn.Transformer; its post-norm form has two norms more than the paper, which are left out here."""
    options = {"batch_first": True, "norm_first": norm_first, "dtype": torch.float64}
    sizes = SIZES.d_model, SIZES.num_heads, SIZES.d_mlp, 0.0, activation
    stacks = []
    for layer, stack in (
        (nn.TransformerEncoderLayer, nn.TransformerEncoder),
        (nn.TransformerDecoderLayer, nn.TransformerDecoder),
    ):
        more = {"enable_nested_tensor": False} if stack is nn.TransformerEncoder else {}
        last = nn.LayerNorm(SIZES.d_model, dtype=torch.float64) if norm_first else None
        stacks.append(stack(layer(*sizes, **options), SIZES.num_layers, last, **more))
    made = nn.Transformer(SIZES.d_model, SIZES.num_heads, custom_encoder=stacks[0], custom_decoder=stacks[1],
                          batch_first=True)  # fmt: skip
    return redraw(made, seed=7)


def of_torch(theirs, norm_first, activation):
    model = drawn(norm_first=norm_first, activation=activation)
    model.encoder = nn.ModuleList(map(EncoderBlock.from_torch, theirs.encoder.layers))
    model.decoder = nn.ModuleList(map(DecoderBlock.from_torch, theirs.decoder.layers))
    if norm_first:
        model.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        model.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())
    return model.eval()


def logits_of_torch(theirs, ours):
    def embedded(table, tokens):
        return SinusoidalPositions(SIZES.d_model)(table.weight[tokens] * SIZES.d_model**0.5)

    source, target = embedded(ours.source_embed, SOURCE), embedded(ours.target_embed, TARGET)
    future = torch.ones(7, 7, dtype=torch.bool).triu(1)
    hidden = theirs(source, target, tgt_mask=future, src_key_padding_mask=~KEEP, memory_key_padding_mask=~KEEP)
    return hidden @ ours.target_embed.weight.T


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_torch(norm_first, activation):
    theirs = torch_transformer(norm_first, activation)
    ours = of_torch(theirs, norm_first, activation)
    assert_equal(ours(SOURCE, TARGET, source_keep=KEEP), logits_of_torch(theirs, ours), **CLOSE)


@pytest.mark.parametrize("part", ["source_keep", "encoder_norm", "decoder_norm"])
def test_torch_sees(part):
    theirs = torch_transformer(True, "relu")
    ours = of_torch(theirs, True, "relu")
    if part != "source_keep":
        setattr(ours, part, nn.Identity())
    found = ours(SOURCE, TARGET, source_keep=None if part == "source_keep" else KEEP)
    with pytest.raises(AssertionError):
        assert_equal(found, logits_of_torch(theirs, ours), **CLOSE)


MARIAN_NAMES = (
    (r"^model\.(encoder|decoder)\.layers", r"\1"),
    (r"self_attn_layer_norm", "attention_norm"),
    (r"encoder_attn_layer_norm", "cross_norm"),
    (r"final_layer_norm", "feed_forward_norm"),
    (r"self_attn\.", "attention."),
    (r"encoder_attn\.", "cross_attention."),
    (r"fc1", "feed_forward.up"),
    (r"fc2", "feed_forward.down"),
)
MARIAN = {"source_vocab": 97, "norm_first": False, "activation": "silu"}


@pytest.fixture(scope="module")
def marian():
    module = pytest.importorskip("transformers.models.marian")
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in
             {"layers": 3, "attention_heads": 5, "ffn_dim": 37}.items()}  # fmt: skip
    config = module.MarianConfig(
        vocab_size=97, d_model=30, max_position_embeddings=23, activation_function="swish", scale_embedding=True,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, attn_implementation="eager", **sizes,
    )  # fmt: skip
    theirs = redraw(module.MarianMTModel(config), seed=3)
    for side in (theirs.model.encoder, theirs.model.decoder):
        side.embed_positions.weight.data = side.embed_positions.create_weight()
    theirs.final_logits_bias.zero_()
    return theirs


def of_marian(theirs, dtype, **changes):
    state = {}
    for name, tensor in theirs.state_dict().items():
        for pattern, replacement in MARIAN_NAMES:
            name = re.sub(pattern, replacement, name)
        if name.startswith(("encoder.", "decoder.")):
            state[name] = tensor
    state |= {f"{side}_embed.weight": theirs.model.shared.weight for side in ("source", "target")}
    model = Seq2Seq(Seq2SeqConfig(**vars(SIZES) | MARIAN | changes))
    model.load_state_dict(state)
    model.positions = SinusoidalPositions(30, layout="half")
    return model.eval().to(dtype)


def compare_marian(theirs, single, double):
    source = SOURCE % 97
    with torch.no_grad():
        expected = theirs(source, attention_mask=KEEP.long(), decoder_input_ids=TARGET, output_attentions=True)
        found = (model(source, TARGET, source_keep=KEEP) for model in (single, double))
        assert_same_function(expected.logits, *found, label="logits")
    maps = (model.attention_maps(source, TARGET, source_keep=KEEP) for model in (single, double))
    assert_same_function(torch.stack(expected.cross_attentions), *maps, label="attention")


def test_marian(marian):
    compare_marian(marian, of_marian(marian, torch.float32), of_marian(marian, torch.float64))


@pytest.mark.parametrize("fault", ["activation", "layout", "scale"])
def test_marian_sees(marian, fault):
    changes = {"activation": "gelu"} if fault == "activation" else {}
    faulty = [of_marian(marian, dtype, **changes) for dtype in (torch.float32, torch.float64)]
    for model in faulty:
        if fault == "layout":
            model.positions = SinusoidalPositions(30)
        if fault == "scale":
            model.source_embed.weight.data.div_(30**0.5)
    with pytest.raises(AssertionError, match="logits"):
        compare_marian(marian, *faulty)


def test_marian_says_the_same(marian):
    source = SOURCE % 97
    start = torch.zeros(3, 1, dtype=torch.long)
    options = {
        "max_new_tokens": 9,
        "do_sample": False,
        "num_beams": 1,
        "eos_token_id": None,
        "forced_eos_token_id": None,
    }
    expected = marian.generate(source, attention_mask=KEEP.long(), **options)
    assert_equal(generate(of_marian(marian, torch.float32).given(source, keep=KEEP), start, 9), expected)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("keep", [None, KEEP], ids=["whole source", "padded source"])
def test_steps_are_the_whole(keep, norm_first):
    model, parts = drawn(norm_first=norm_first), []
    with torch.no_grad():
        whole, decoder = model(SOURCE, TARGET, source_keep=keep), model.given(SOURCE, keep=keep)
        caches = decoder.caches()
        for chunk in TARGET.split([3, 1, 0, 3], 1):
            logits, caches = decoder.step(chunk, caches)
            parts.append(logits)
        last, _ = decoder.step(TARGET, decoder.caches(), last=True)
    assert_equal(torch.cat(parts, 1), whole, **CLOSE)
    assert_equal(last, whole[:, -1:], **CLOSE)


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_changes_nothing(side):
    model = drawn()
    source, keep = (SOURCE, KEEP) if side == "right" else (SOURCE.flip(1), KEEP.flip(1))
    with torch.no_grad():
        padded = model(source, TARGET, source_keep=keep)
        memory = model.encode(source, keep=keep)
        front = torch.tensor([0, 4, 2])
        stepped, _ = model.given(source, keep=keep).step(TARGET, model.given(source, keep=keep).caches(front))
        for row in range(3):
            alone = source[row : row + 1, keep[row]]
            assert_equal(padded[row], model(alone, TARGET[row : row + 1])[0], **CLOSE)
            assert_equal(memory[row, keep[row]], model.encode(alone)[0], **CLOSE)
            n = int(front[row])
            assert_equal(stepped[row, n:], model(alone, TARGET[row : row + 1, n:])[0], **CLOSE)


def test_beams_take_their_source_along():
    model, order = drawn(), torch.tensor([2, 0, 2, 1, 1])
    with torch.no_grad():
        decoder = model.given(SOURCE, keep=KEEP)
        _, caches = decoder.step(TARGET[:, :3], decoder.caches())
        found, _ = decoder.step(TARGET[order, 3:], [cache.reorder(order) for cache in caches])
        whole = model(SOURCE[order], TARGET[order], source_keep=KEEP[order])
    assert_equal(found, whole[:, 3:], **CLOSE)


def test_the_source_is_read_once():
    model, seen = drawn(), []
    for block in model.decoder:
        for linear in (block.cross_attention.k_proj, block.cross_attention.v_proj):
            linear.register_forward_hook(lambda *call: seen.append(call))
    model.encoder[0].register_forward_hook(lambda *call: seen.append(call))
    decoder = model.given(SOURCE, keep=KEEP)
    generate(decoder, TARGET[:, :2], 5)
    generate(decoder, TARGET[:, :1], 3)
    assert len(seen) == 1 + 2 * SIZES.num_layers


@pytest.mark.parametrize("norm_first", [True, False])
def test_every_parameter_learns(norm_first):
    model = drawn(norm_first=norm_first)
    (model(SOURCE, TARGET, source_keep=KEEP) * torch.linspace(-1, 1, SIZES.target_vocab)).sum().backward()
    for name, parameter in model.named_parameters():
        assert bool(parameter.grad.abs().max() > 1e-9) != name.endswith("k_proj.bias"), name


def test_later_targets_and_hidden_sources_do_not_reach():
    model, source, target = drawn(), SOURCE.clone(), TARGET.clone()
    target[:, 4:], source[~KEEP] = 5, 7
    expected = model(SOURCE, TARGET, source_keep=KEEP)
    assert_equal(model(source, target, source_keep=KEEP)[:, :4], expected[:, :4])


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("batch", [0, 2])
def test_short_and_empty(batch, source, n):
    model, keep = drawn(), torch.ones(batch, source, dtype=torch.bool)
    given = SOURCE[:batch, :source], TARGET[:batch, :n]
    out = model(*given, source_keep=keep)
    assert out.shape == (batch, n, SIZES.target_vocab)
    assert_equal(out, model(*given), **CLOSE)
    assert bool(out.isfinite().all())


def test_a_source_of_padding_alone():
    model, keep = drawn(), KEEP.clone()
    keep[2] = False
    out = model(SOURCE, TARGET, source_keep=keep)
    assert_equal(out[:2], model(SOURCE, TARGET, source_keep=KEEP)[:2], **CLOSE)
    assert_equal(out[2:], model(SOURCE[2:, :0], TARGET[2:]), **CLOSE)


def test_parameters_are_those_that_the_formula_counts():
    attention, feed, norm = attention_parameters(30, 5), 2 * 30 * 37 + 37 + 30, 2 * 30
    expected = 3 * (attention + feed + 2 * norm) + 3 * (2 * attention + feed + 3 * norm) + (101 + 97) * 30
    for norm_first, last in ((False, 0), (True, 2 * norm)):
        model = drawn(norm_first=norm_first)
        assert sum(parameter.numel() for parameter in model.parameters()) == expected + last


def test_dropout_in_training_only():
    model = drawn(dropout=0.5, attention_dropout=0.25)
    assert model.decoder[2].cross_attention.dropout == 0.25
    assert_equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.train()
    torch.manual_seed(1)
    first = model(SOURCE, TARGET)
    torch.manual_seed(1)
    assert_equal(model(SOURCE, TARGET), first)
    assert not bool((model(SOURCE, TARGET) == first).any())


LONG = torch.zeros(1, 24, dtype=torch.long)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m(LONG, TARGET[:1]), ValueError, "source has length 24: expected at most 23, the max_length"),
        (lambda m: m(SOURCE[:1], LONG), ValueError, "target has length 24: expected at most 23, the max_length"),
        (lambda m: m(SOURCE + 101, TARGET), ValueError, r"source holds \d+: expected 0 to 100, the vocabulary"),
        (lambda m: m(SOURCE, TARGET - 97), ValueError, r"target holds -\d+: expected 0 to 96, the vocabulary"),
        (lambda m: m(SOURCE, TARGET[:2]), ValueError, "target has 2 samples and source has 3: expected as many"),
        (lambda m: m(SOURCE[0], TARGET), ValueError, r"source has shape \(11,\): expected \(batch, length\)"),
        (lambda m: m(SOURCE, TARGET, source_keep=KEEP[:, :5]), ValueError, r"source_keep has shape \(3, 5\): expected"),
        (lambda m: m(SOURCE, TARGET, source_keep=KEEP.int()), TypeError, r"source_keep has dtype torch\.int32: expec"),
        (lambda m: m.given(SOURCE, keep=KEEP[:2]), ValueError, r"keep has shape \(2, 11\): expected \(3, 11\)"),
        (lambda m: generate(m.given(SOURCE), TARGET, 18), ValueError, "tokens has length 24: expected at most 23"),
        (lambda m: generate(m.given(SOURCE), TARGET[:2], 1), ValueError, "expected 3 samples, as many as the memory"),
        (lambda m: m.given(SOURCE).step(TARGET, []), ValueError, "caches has 0 entries: expected 3, one a layer"),
        (lambda _: Seq2Seq(Seq2SeqConfig(5, 7, d_model=30)), ValueError, "d_model is 30"),
        (lambda _: Seq2Seq(Seq2SeqConfig(5, 7, d_model=15, num_heads=5)), ValueError, "d_model is 15"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(drawn())
