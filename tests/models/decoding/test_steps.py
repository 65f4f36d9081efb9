"""Decoding with caches says what transformers says, and what the model without caches says."""

import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha.data import DataUnavailable, pretrained
from mha.data.weights import cache_of
from mha.models.decoding import Sampling, generate, stream
from mha.models.llama import Llama, LlamaConfig, from_hub_names
from models.decoding.small import KINDS, WITH_SOURCE, decoder, whole

SIZES = LlamaConfig(
    vocab_size=101, num_layers=3, d_model=84, num_heads=6, num_kv_heads=2, d_mlp=37, rope_base=1000.0, norm_eps=1e-5
)
TOKENS = torch.randint(1, SIZES.vocab_size, (3, 13), generator=torch.Generator().manual_seed(7))
PADDING = torch.tensor([0, 5, 2])


def hugging_face(sizes, state=None):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocab_size,
        num_hidden_layers=sizes.num_layers,
        hidden_size=sizes.d_model,
        num_attention_heads=sizes.num_heads,
        num_key_value_heads=sizes.num_kv_heads,
        intermediate_size=sizes.d_mlp,
        rms_norm_eps=sizes.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.rope_base},
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config)
    if state is not None:
        model.load_state_dict(state, strict=False)
    return model.eval()


def small():
    theirs = redraw(hugging_face(SIZES), seed=3)
    ours = Llama(SIZES)
    ours.load_state_dict(from_hub_names(theirs.state_dict()))
    return theirs, ours.eval()


def theirs_say(model, tokens, steps, padding=0):
    keep = (torch.arange(tokens.shape[1]) >= torch.as_tensor(padding).reshape(-1, 1)).long().expand(tokens.shape)
    return model.generate(tokens, attention_mask=keep, max_new_tokens=steps, do_sample=False)


@pytest.mark.parametrize("padding", [0, PADDING], ids=["unpadded", "padded"])
def test_equals_transformers(padding):
    theirs, ours = small()
    assert_equal(generate(ours, TOKENS, 17, padding=padding), theirs_say(theirs, TOKENS, 17, padding))


def test_steps_are_the_whole():
    _, ours = small()
    ours = ours.double()
    with torch.no_grad():
        whole, caches, parts = ours(TOKENS), ours.caches(), []
        for chunk in TOKENS.split([5, 1, 7], 1):
            logits, caches = ours.step(chunk, caches)
            parts.append(logits)
        last, _ = ours.step(TOKENS, ours.caches(), last=True)
    # each logit is a sum of d_model products of size ‖x‖·‖e‖ ≤ 100, computed twice in another order
    assert_equal(torch.cat(parts, 1), whole, atol=1e-10)
    assert_equal(last, whole[:, -1:], atol=1e-10)


def test_a_finished_sequence_repeats_its_stop():
    _, ours = small()
    free = generate(ours, TOKENS, 11)
    stop = int(free[1, 15])
    stopped = generate(ours, TOKENS, 11, stop=stop)
    for told, spoken in zip(stopped, free, strict=True):
        ends = (spoken[13:] == stop).nonzero()
        end = 13 + int(ends[0]) if len(ends) else len(told)
        assert_equal(told[:end], spoken[:end])
        assert bool((told[end:] == stop).all())
    assert generate(ours, TOKENS[1:2], 11, stop=stop).shape[1] == 13 + 1 + int((free[1, 13:] == stop).nonzero()[0])
    assert_equal(generate(ours, TOKENS, 0), TOKENS)


def by_whole_passes(kind, text, steps, choose):
    """Return the text with so many tokens more, each chosen from the last logits of a pass without caches."""
    for _ in range(steps):
        logits = torch.cat([whole(kind, 11, row[None], number)[:, -1] for number, row in enumerate(text)])
        text = torch.cat([text, choose(logits)[:, None]], 1)
    return text


START = torch.tensor([[1, 4], [1, 2], [1, 9]])
SAMPLING = Sampling(temperature=1.7, top_k=7, top_p=0.9, min_p=0.05, seed=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [None, SAMPLING], ids=["greedy", "sampled"])
def test_every_kind_of_model(kind, sampling):
    choose = (lambda logits: logits.argmax(-1)) if sampling is None else sampling.drawer()
    expected = by_whole_passes(kind, START, 6, choose)
    assert_equal(generate(decoder(kind, 11), START, 6, sampling=sampling), expected)
    assert sampling is None or len(expected[:, 2:].unique()) > 5, "they say more than one thing"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITH_SOURCE])
def test_padded_in_front_is_alone(kind):
    tokens, padding = torch.randint(0, 11, (3, 7), generator=torch.Generator().manual_seed(2)), torch.tensor([0, 4, 6])
    together = generate(decoder(kind, 11), tokens, 5, padding=padding)
    for row, told, pad in zip(tokens, together, padding, strict=True):
        assert_equal(told[pad:], generate(decoder(kind, 11), row[None, pad:], 5)[0])
    model = decoder(kind, 11)
    with_padding, without = (model.step(tokens, model.caches(pad), last=True)[0] for pad in (padding, 0))
    assert bool((with_padding[1:] - without[1:]).abs().amax(-1).min() > 1e-3), "padding counts"


@pytest.mark.parametrize("stop", [None, 3])
@pytest.mark.parametrize("sampling", [None, SAMPLING], ids=["greedy", "sampled"])
def test_a_stream_is_what_is_generated(stop, sampling):
    model = decoder("gpt", 11)
    told = list(stream(model, START, 9, stop=stop, sampling=sampling))
    assert all(column.shape == (3,) for column in told)
    assert_equal(torch.stack(told, 1), generate(model, START, 9, stop=stop, sampling=sampling)[:, 2:])


def test_a_stream_does_not_run_ahead():
    model, calls = decoder("gpt", 11), []
    counting = type("Counting", (), {"caches": model.caches})()
    counting.step = lambda *args, **options: calls.append(1) or model.step(*args, **options)
    telling = stream(counting, START, 1000)
    assert calls == []
    next(telling), next(telling)
    assert len(calls) == 2
    assert torch.is_grad_enabled(), "between two tokens the caller is in no other mode"
    assert not torch.is_inference_mode_enabled()


def test_temperature_0_is_greedy():
    model = decoder("llama", 11)
    assert_equal(generate(model, START, 9, sampling=Sampling(temperature=0)), generate(model, START, 9))


def test_seeds():
    model = decoder("llama", 11)
    one, again, other = (generate(model, START, 19, sampling=Sampling(seed=seed)) for seed in (1, 1, 2))
    assert_equal(one, again)
    assert not bool((one == other).all())
    same = generate(model, START[:1].expand(3, -1), 19, sampling=Sampling(seed=1))
    assert len(same.unique(dim=0)) == 3, "one text in several rows goes on in several ways"


def test_the_state_of_the_random_numbers_stays():
    before = torch.get_rng_state()
    generate(decoder("llama", 11), START, 3, sampling=Sampling())
    assert_equal(torch.get_rng_state(), before)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"tokens has shape \(13,\): expected \(…, batch, length\)"):
        generate(small()[1], TOKENS[0], 3)
    with pytest.raises(ValueError, match=r"tokens has shape \(3, 0\): expected a token at least"):
        generate(small()[1], TOKENS[:, :0], 3)
    with pytest.raises(ValueError, match=r"tokens has shape \(3, 0\): expected a token at least"):
        stream(small()[1], TOKENS[:, :0], 3)  # at once, not when the first token is asked for
    for padding in (13, -1, torch.tensor([0, 13, 2])):
        with pytest.raises(ValueError, match=r"padding is .*: expected 0 to 12, so that each row keeps a token"):
            generate(small()[1], TOKENS, 3, padding=padding)
    with pytest.raises(ValueError, match=r"padding has shape \(2,\): expected one number, or \(3,\)"):
        stream(small()[1], TOKENS, 3, padding=torch.tensor([0, 1]))
    with pytest.raises(TypeError, match=r"stop is \[1, 2\]: expected an integer"):
        stream(small()[1], TOKENS, 3, stop=[1, 2])
    with pytest.raises(ValueError, match="caches has 1 entries: expected 3, one a layer"):
        small()[1].step(TOKENS, small()[1].caches()[:1])


@pytest.mark.pretrained
def test_smollm2_says_what_transformers_says():
    try:
        ours = pretrained("smollm2")
    except DataUnavailable as absent:
        pytest.skip(str(absent))
    from safetensors.torch import load_file

    theirs = hugging_face(ours.config, load_file(cache_of("smollm2") / "model.safetensors")).float()
    tokens = ours.encode("The sea was calm and the ship")
    assert_equal(generate(ours.model, tokens, 12), theirs_say(theirs, tokens, 12))
