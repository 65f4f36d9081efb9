"""A model that copies by hand-written weights: what it says, and what each of its heads is there for."""

import pytest
import torch

from compare import assert_equal
from mha import masks
from mha.analysis import without_heads
from mha.analysis.patterns import induction_score, previous_token_score
from mha.models.handmade import InductionModel
from mha.models.probe import attention_maps

TOKENS = torch.tensor([[0, 3, 5, 1, 4, 3, 5, 1, 4]])  # a start, then four tokens twice


@pytest.fixture(scope="module")
def model():
    return InductionModel(7, 11)


def one_hot(tokens):
    return torch.nn.functional.one_hot(tokens, 7).double()


def test_it_says_what_came_next_the_first_time(model):
    said = model(TOKENS)[0, 5:]
    assert_equal(said, one_hot(torch.tensor([5, 1, 4, 3])), atol=1e-9)


def test_two_matches_share_the_answer(model):
    said = model(torch.tensor([[0, 2, 5, 2, 4, 2]]))[0, -1]
    assert_equal(said, (one_hot(torch.tensor(5)) + one_hot(torch.tensor(4))) / 2, atol=1e-9)


def test_without_a_match_it_says_a_little_of_everything(model):
    said = model(TOKENS[:, :5])[0, -1]
    assert_equal(said, one_hot(TOKENS[0, :5]).mean(0), atol=1e-9)


def test_the_maps_of_its_heads(model):
    maps = attention_maps(model, TOKENS)[:, 0].detach().numpy()
    assert_equal(previous_token_score(maps[0]), [1.0, sum(1 / n for n in range(2, 10)) / 8], atol=1e-9)
    assert_equal(induction_score(maps[1][:, 1:, 1:], 4), [1.0, 1.0], atol=1e-9)
    assert_equal(maps[1, 0], maps[1, 1], label="the idle head looks where the induction head looks")


@pytest.mark.parametrize(("head", "needed"), [((0, 0), True), ((0, 1), False), ((1, 0), False), ((1, 1), True)])
def test_two_heads_do_all_the_work(model, head, needed):
    whole = model(TOKENS)
    with without_heads(model, {head}):
        left = model(TOKENS)
    assert ((left - whole).abs().max() > 0.5) == needed


def test_a_mask_hides_the_match(model):
    keep = torch.ones(1, 9, dtype=torch.bool)
    keep[0, 6] = False  # the 5 behind the second 3
    said = model(TOKENS[:, :8], mask=masks.key_padding(keep[:, :8]))
    assert_equal(said[0, 5], one_hot(torch.tensor(5)), atol=1e-9)


def test_what_it_refuses(model):
    with pytest.raises(ValueError, match="tokens has length 12: expected at most 11"):
        model(torch.zeros(1, 12, dtype=torch.long))
    with pytest.raises(ValueError, match="tokens holds 7: expected 0 to 6"):
        model(torch.tensor([[7]]))
