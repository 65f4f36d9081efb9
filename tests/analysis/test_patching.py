"""Patching finds the heads that are known to do the work, and a whole patch is the whole other pass."""

import pytest
import torch

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.analysis import capture, permute_heads, remove_heads, without_heads
from mha.analysis.patching import (
    leave_one_out,
    patched_heads,
    patched_stream,
    patching_effects,
    restored,
    stream_patching_effects,
)
from mha.analysis.stream import follow_stream
from mha.models.bert import Bert, BertConfig
from mha.models.handmade import InductionModel
from mha.models.llama import Llama, LlamaConfig

LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
BERT = BertConfig(
    vocab_size=41, num_segments=2, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31, norm_eps=1e-12
)
CLEAN, CORRUPTED = torch.randint(41, (2, 2, 11), generator=torch.Generator().manual_seed(2))
INDUCTION = torch.tensor([[0, 3, 5, 1, 4, 3]]), torch.tensor([[0, 2, 5, 1, 4, 3]])  # a 5 followed the 3, or did not
ALL = [(layer, head) for layer in range(3) for head in range(6)]


def last(logits):
    return logits[:, -1, 7] - logits[:, -1, 3]


def copied(said):
    return said[:, -1, 5]


@pytest.fixture
def llama():
    return redraw(Llama(LLAMA), seed=13, std=0.15).double()


def test_patching_finds_the_two_heads_of_the_induction_model():
    model = InductionModel(7, 11)
    whole = 1 - copied(model(INDUCTION[1]))  # the share of a uniform look is left without a match
    found = patching_effects(model, *INDUCTION, copied)
    assert_equal(found[..., 0], [[1.0, 0.0], [0.0, 1.0]], atol=1e-9)
    changes = patching_effects(model, *INDUCTION, copied, normalised=False)
    assert_equal(changes[..., 0], whole.detach() * torch.eye(2), atol=1e-9)


def test_it_matters_where_a_head_is_patched():
    model = InductionModel(7, 11)
    by_place = [patching_effects(model, *INDUCTION, copied, positions=[place])[..., 0] for place in range(6)]
    first, second = (torch.tensor([float(found[layer, layer]) for found in by_place]) for layer in (0, 1))
    assert_equal(first, [0, 0, 1, 0, 0, 0], atol=1e-6, label="at the 5, which learns that a 3 stood before it")
    assert_equal(second, [0, 0, 0, 0, 0, 1], atol=1e-6, label="at the last token, which looks for it")


def test_the_token_that_is_needed():
    model = InductionModel(7, 11)
    found = leave_one_out(model, INDUCTION[0], copied)
    assert found.shape == (1, 6)
    assert found[0, 2] > 0.99, "without the 5 there is nothing to copy"
    assert abs(found[0, 3:5]).max() < 1e-6
    replaced = leave_one_out(model, INDUCTION[0], copied, replacement=6)
    assert replaced[0, 1] > 0.7, "without the 3 before it nothing says that the 5 is meant"


def test_all_heads_and_the_embeddings_are_the_whole_pass(llama):
    with capture(llama) as clean:
        expected = llama(CLEAN)
    states = torch.from_numpy(follow_stream(llama, CLEAN).states)
    with patched_heads(llama, ALL, clean), patched_stream(llama, -1, states[0]):
        assert_equal(llama(CORRUPTED), expected, rtol=1e-12, atol=1e-12)
    with patched_heads(llama, ALL, clean):
        assert (llama(CORRUPTED) - expected).abs().max() > 1e-3, "the stream still starts with other tokens"


@pytest.mark.parametrize(("make", "config"), [(Llama, LLAMA), (Bert, BERT)], ids=["llama", "bert"])
def test_a_whole_stream_is_the_whole_pass(make, config):
    model = redraw(make(config), seed=13).double()
    expected = model(CLEAN)
    states = torch.from_numpy(follow_stream(model, CLEAN).states)
    for block in range(-1, len(model.blocks)):
        with patched_stream(model, block, states[2 * (block + 1)]) as same:
            assert same is model
            assert_equal(model(CORRUPTED), expected, rtol=1e-12, atol=1e-12)
    with patched_stream(model, 0, states[4]):
        assert (model(CORRUPTED) - expected).abs().max() > 1e-3, "the state of another layer"
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_patched_embedding_is_another_token(llama):
    mixed = CORRUPTED.clone()
    mixed[:, 4] = CLEAN[:, 4]
    with patched_stream(llama, -1, llama.embed(CLEAN), positions=[4]):
        assert_equal(llama(CORRUPTED), llama(mixed), rtol=0)


def test_a_head_with_zeros_is_a_head_without(llama):
    with capture(llama, detach=True) as seen:
        llama(CLEAN)
    call = seen["blocks.1.attention"]
    object.__setattr__(call, "heads", torch.zeros_like(call.heads))
    with patched_heads(llama, {(1, 4)}, seen):
        patched = llama(CORRUPTED)
    with without_heads(llama, {(1, 4)}):
        assert_equal(patched, llama(CORRUPTED), rtol=1e-12, atol=1e-12)


def test_effects_of_heads_are_those_of_patches(llama):
    found = patching_effects(llama, CLEAN, CORRUPTED, last, positions=[10])
    assert found.shape == (3, 6, 2)
    with capture(llama) as clean:
        ends = last(llama(CLEAN))
    with patched_heads(llama, {(1, 4)}, clean, positions=[10]):
        patched = last(llama(CORRUPTED))
    assert_equal(found[1, 4], restored(patched, ends, last(llama(CORRUPTED))).detach(), rtol=1e-12)
    with patched_heads(llama, {(1, 3)}, clean, positions=[10]):
        assert (last(llama(CORRUPTED)) - patched).abs().max() > 1e-4, "another head would show"


def test_the_last_token_carries_all_at_the_end(llama):
    """The last state of the last token is all that the score reads; the last state of another token is nothing."""
    found = stream_patching_effects(llama, CLEAN, CORRUPTED, last)
    assert found.shape == (4, 11, 2)
    assert_equal(found[-1], [[0.0, 0.0]] * 10 + [[1.0, 1.0]], atol=1e-12)
    mixed = CORRUPTED.clone()
    mixed[:, 4] = CLEAN[:, 4]
    expected = restored(last(llama(mixed)), last(llama(CLEAN)), last(llama(CORRUPTED)))
    assert_equal(found[0, 4], expected.detach(), rtol=1e-9, atol=1e-12)
    changes = stream_patching_effects(llama, CLEAN, CORRUPTED, last, normalised=False)
    gap = (last(llama(CLEAN)) - last(llama(CORRUPTED))).detach()
    assert_equal(changes, found * gap, rtol=1e-9, atol=1e-12)


def test_tokens_left_out_by_loops(llama):
    hidden, replaced = leave_one_out(llama, CLEAN, last), leave_one_out(llama, CLEAN, last, replacement=5)
    whole = last(llama(CLEAN))
    for place in (0, 4, 10):
        keep = (torch.arange(11) != place).expand(2, -1)
        assert_equal(hidden[:, place], (whole - last(llama(CLEAN, mask=masks.key_padding(keep)))).detach())
        others = CLEAN.clone()
        others[:, place] = 5
        assert_equal(replaced[:, place], (whole - last(llama(others))).detach())


def test_restored_by_hand():
    found = restored(torch.tensor([2.0, 5.0, -1.0]), torch.tensor([5.0] * 3), torch.tensor([1.0] * 3))
    assert_equal(found, [0.25, 1.0, -0.5])
    with pytest.raises(ValueError, match="clean and corrupted have the same score in a sample"):
        restored(torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))


def test_what_is_refused(llama):
    with capture(llama, detach=True) as clean:
        llama(CLEAN)
    shapes = r"the recorded pass has shape \(2, 6, 11, 10\) and this one \(2, 6, 7, 10\)"
    with patched_heads(llama, {(1, 4)}, clean), pytest.raises(ValueError, match=shapes):
        llama(CORRUPTED[:, :7])
    hand = InductionModel(5, 7)
    for block, message in (
        (patched_heads(llama, {(3, 0)}, clean), "heads names the layer 3: expected 0 … 2"),
        (patched_stream(llama, 3, llama.embed(CLEAN)), "layer is 3: expected -1 … 2"),
        (patched_stream(hand, 0, None), "model is a InductionModel without an EncoderBlock"),
    ):
        with pytest.raises(ValueError, match=message), block:
            pass


def test_heads_that_are_gone_have_no_effect(llama):
    whole = patching_effects(llama, CLEAN, CORRUPTED, last, normalised=False)
    remove_heads(llama, {(2, 1), (2, 4)})
    permute_heads(llama.blocks[2].attention, [5, 0, 3, 2])
    found = patching_effects(llama, CLEAN, CORRUPTED, last, normalised=False)
    assert found.shape == whole.shape
    gone = found.isnan().all(-1)
    assert gone.nonzero().tolist() == [[2, 1], [2, 4]]
    start = last(llama(CORRUPTED)).detach()
    with capture(llama) as clean:
        llama(CLEAN)
    with patched_heads(llama, {(2, 5)}, clean):
        assert_equal(found[2, 5], (last(llama(CORRUPTED)) - start).detach(), rtol=1e-12, atol=1e-14)
