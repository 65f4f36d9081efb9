"""Greedy decoding with caches says what transformers says, and what the model without caches says."""

import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha.data import DataUnavailable, pretrained
from mha.data.weights import cache_of
from mha.models.decoding import generate
from mha.models.llama import Llama, LlamaConfig, from_hub_names

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


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"tokens has shape \(13,\): expected \(…, batch, length\)"):
        generate(small()[1], TOKENS[0], 3)
    with pytest.raises(ValueError, match=r"tokens has shape \(3, 0\): expected a token at least"):
        generate(small()[1], TOKENS[:, :0], 3)
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
