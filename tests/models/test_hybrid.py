"""A hybrid of "M" alone is transformers' Mamba-2: logits, gradients; its steps are the whole, whatever the pattern."""

import pytest
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

from compare import assert_equal
from exact import assert_same_function, redraw
from mha.analysis import capture
from mha.models import Hybrid, HybridConfig
from mha.models.decoding import generate
from mha.models.hybrid import from_hub_names
from mha.nn import Cache, StateCache
from space_calls import SIZES

CONFIG = HybridConfig(31, "MM", d_model=14, num_heads=7, d_mlp=None, num_state_heads=4, d_state=5, num_groups=2)
TOKENS = torch.randint(31, (3, 13), generator=torch.Generator().manual_seed(7))
PADDING = torch.tensor([0, 5, 2])
PATTERNS = "MAM", "MM", "AA", ("A", "M")


def with_(**changes):
    return HybridConfig(**vars(CONFIG) | changes)


def drawn(pattern="MAM", **changes):
    return redraw(Hybrid(with_(pattern=pattern, d_mlp=11, **changes)).double(), seed=5)


@pytest.fixture(scope="module")
def theirs():
    config = Mamba2Config(**SIZES, num_hidden_layers=2, vocab_size=31, tie_word_embeddings=True, residual_in_fp32=False)
    return redraw(Mamba2ForCausalLM(config), seed=3)


def ours(theirs, dtype=torch.float32):
    model = Hybrid(CONFIG)
    model.load_state_dict(from_hub_names(theirs.state_dict()))
    return model.eval().to(dtype)


def test_logits(theirs):
    with torch.no_grad():
        expected, single, double = theirs(TOKENS).logits, ours(theirs)(TOKENS), ours(theirs, torch.float64)(TOKENS)
    assert_same_function(expected, single, double, label="logits")


def test_gradients(theirs):
    single, double = ours(theirs), ours(theirs, torch.float64)
    targets = TOKENS.roll(-1, 1)
    found = []
    for model in (theirs, single, double):
        logits = model(TOKENS).logits if model is theirs else model(TOKENS)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        names, parameters = zip(*model.named_parameters(), strict=True)
        found.append(dict(zip(names, torch.autograd.grad(loss, parameters), strict=True)))
    renamed = from_hub_names(found[0])
    assert renamed.keys() == found[1].keys()
    for name, gradient in renamed.items():
        assert_same_function(gradient, found[1][name], found[2][name], label=name)


def test_untied_weights_are_refused(theirs):
    state = theirs.state_dict() | {"lm_head.weight": torch.zeros(31, 14)}
    with pytest.raises(ValueError, match=r"lm_head\.weight is not backbone\.embeddings\.weight"):
        from_hub_names(state)


def stepped(model, tokens, chunks, padding=0):
    caches, outputs = model.caches(padding), []
    for part in tokens.split(chunks, 1):
        logits, caches = model.step(part, caches)
        outputs.append(logits)
    return torch.cat(outputs, 1), caches


@pytest.mark.parametrize("chunks", [(13,), (1,) * 13, (5, 0, 1, 4, 3)], ids=str)
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_steps_are_the_whole(pattern, chunks):
    model = drawn(pattern, position="rotary")
    logits, caches = stepped(model, TOKENS, chunks)
    assert_equal(logits, model(TOKENS), atol=1e-12)
    assert [type(cache) for cache in caches] == [{"A": Cache, "M": StateCache}[letter] for letter in pattern]
    assert {cache.lengths for cache in caches} == {13}


@pytest.mark.parametrize("position", ["none", "rotary", "alibi"])
def test_padded_is_unpadded(position):
    model = drawn(position=position)
    keep = torch.arange(13) >= PADDING[:, None]
    whole, (steps, _) = model(TOKENS, keep=keep), stepped(model, TOKENS, (7, 6), PADDING)
    for sample, front in enumerate(PADDING.tolist()):
        expected = model(TOKENS[sample : sample + 1, front:])[0]
        assert_equal(whole[sample, front:], expected, atol=1e-11)
        assert_equal(steps[sample, front:], expected, atol=1e-11)


def test_no_token_sees_a_later_one():
    model, other = drawn(), TOKENS.clone()
    other[:, 7:] = (other[:, 7:] + 1) % 31
    assert_equal(model(other)[:, :7], model(TOKENS)[:, :7])
    assert (model(other)[:, 7:] - model(TOKENS)[:, 7:]).abs().max() > 1e-3


def test_states_know_the_order_and_attention_without_places_does_not():
    swapped = TOKENS[:, [1, 0, 2, 3]]
    for pattern, least in (("A", 0.0), ("M", 1e-3), ("MA", 1e-3)):
        model = drawn(pattern)
        difference = (model(swapped)[:, -1] - model(TOKENS[:, :4])[:, -1]).abs().max()
        assert (difference > least) if least else (difference < 1e-12), pattern


def test_the_caches_of_states_do_not_grow():
    kept = [[x.numel() for x in cache.rows] for n in (5, 13) for cache in stepped(drawn(), TOKENS[:, :n], n)[1]]
    assert kept[0] == kept[3]
    assert kept[2] == kept[5]
    assert kept[1] != kept[4]


def test_it_generates_with_beams_kept_apart():
    model = drawn()
    expected = TOKENS
    for _ in range(3):
        expected = torch.cat([expected, model(expected)[:, -1].argmax(-1, keepdim=True)], 1)
    assert_equal(generate(model, TOKENS, 3), expected)
    _, caches = stepped(model, TOKENS, 13)
    order = torch.tensor([2, 0])
    logits, _ = model.step(TOKENS[order, :1], [cache.reorder(order) for cache in caches])
    assert_equal(logits, model(torch.cat([TOKENS[order], TOKENS[order, :1]], 1))[:, -1:], atol=1e-11)


def test_capture_sees_the_layers_that_attend():
    model = drawn()
    with torch.no_grad(), capture(model) as seen:
        model(TOKENS)
    assert [tuple(call.weights.shape) for call in seen.calls] == [(3, 7, 13, 13)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pattern": "MXA"}, "pattern has 'X': expected letters A, a block that attends, and M, one with a state"),
        ({"pattern": ""}, "length of pattern is 0: expected at least 1"),
        ({"pattern": "MA"}, "d_mlp is None and pattern is 'MA'"),
        ({"position": "learned"}, "position is 'learned': expected one of 'none', 'rotary', 'alibi'"),
        ({"position": []}, r"position is \[\]: expected one of"),
        ({"vocab_size": 0}, "vocab_size is 0: expected at least 1"),
    ],
)
def test_what_cannot_be_built_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        Hybrid(with_(**changes))


def test_a_pattern_is_of_letters():
    with pytest.raises(TypeError, match="pattern is None: expected a string such as 'MMAM', or its letters"):
        Hybrid(with_(pattern=None))


def test_misuse_is_named():
    model = drawn()
    with pytest.raises(ValueError, match="tokens holds 31: expected 0 to 30"):
        model(TOKENS + 1 + 30 - TOKENS.max())
    with pytest.raises(ValueError, match="caches has 2 entries: expected 3"):
        model.step(TOKENS, model.caches()[1:])
    with pytest.raises(TypeError, match="cache is a Cache"):
        model.step(TOKENS, [Cache()] * 3)
