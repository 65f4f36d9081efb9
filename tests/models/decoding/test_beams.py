"""Beam search against the list of all continuations, against transformers, and against greedy decoding."""

import itertools
import math

import pytest
import torch

from compare import assert_equal
from mha.models.decoding import beam_search, generate
from models.decoding.small import KINDS, WITH_SOURCE, decoder, whole
from models.decoding.test_steps import PADDING, TOKENS, small

VOCABULARY, STEPS, STOP = 5, 3, 2
START = torch.tensor([[1, 4], [1, 3], [1, 0]])


def all_continuations(kind, row, length_penalty, stop):
    """Return [(score, tokens)] of all there are, best first: those that end with `stop` or have `STEPS` tokens."""
    texts = torch.tensor(list(itertools.product(range(VOCABULARY), repeat=STEPS)))
    texts = torch.cat([START[row].expand(len(texts), -1), texts], 1)
    log_p = whole(kind, VOCABULARY, texts, row).log_softmax(-1)[:, 1:-1]
    found = {}
    for text, each in zip(texts.tolist(), log_p, strict=True):
        new = text[2:]
        n = new.index(stop) + 1 if stop in new else STEPS
        total = sum(float(each[place, token]) for place, token in enumerate(new[:n]))
        found[(*new[:n], *[stop] * (STEPS - n))] = total / n**length_penalty
    return sorted(((score, new) for new, score in found.items()), reverse=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length_penalty", "stop"), [(0.0, STOP), (0.6, STOP), (2.0, STOP), (1.0, None)])
def test_a_beam_as_wide_as_all_finds_the_best(kind, length_penalty, stop):
    width = VOCABULARY**STEPS
    beams = beam_search(decoder(kind, VOCABULARY), START, STEPS, width=width, length_penalty=length_penalty, stop=stop)
    assert beams.scores.shape == (3, width)
    for row in range(3):
        expected = all_continuations(kind, row, length_penalty, stop)
        assert len(expected) == (85 if stop else 125)
        count = len(expected)
        assert_equal(beams.scores[row, :count], [score for score, _ in expected], atol=1e-12)
        assert_equal(beams.tokens[row, :count, 2:], [new for _, new in expected])
        assert_equal(beams.tokens[row, :, :2], START[row].expand(width, -1))
        assert bool((beams.scores[row, count:] == -math.inf).all())


@pytest.mark.parametrize("kind", KINDS)
def test_one_beam_is_greedy(kind):
    beams = beam_search(decoder(kind, 11), START, 7, width=1, length_penalty=0.0, stop=STOP)
    assert_equal(beams.tokens[:, 0], generate(decoder(kind, 11), START, 7, stop=STOP))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_each_alone(kind):
    padding = 0 if kind in WITH_SOURCE else torch.tensor([0, 1, 0])
    together = beam_search(decoder(kind, 11), START, 7, width=3, stop=STOP, padding=padding)
    for row in range(3):
        skip = int(torch.as_tensor(padding).expand(3)[row])
        alone = beam_search(decoder(kind, 11, slice(row, row + 1)), START[row : row + 1, skip:], 7, width=3, stop=STOP)
        length = alone.tokens.shape[-1]
        assert_equal(together.scores[row], alone.scores[0], atol=1e-12)
        assert_equal(together.tokens[row, :, skip : skip + length], alone.tokens[0])
        assert bool((together.tokens[row, :, skip + length :] == STOP).all())


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.7])
@pytest.mark.parametrize("padding", [0, PADDING], ids=["unpadded", "padded"])
@pytest.mark.parametrize("stop", [7, 57])
def test_equals_transformers(length_penalty, padding, stop):
    theirs, ours = small()
    keep = (torch.arange(TOKENS.shape[1]) >= torch.as_tensor(padding).reshape(-1, 1)).long().expand(TOKENS.shape)
    told = theirs.generate(
        TOKENS,
        attention_mask=keep,
        max_new_tokens=11,
        do_sample=False,
        num_beams=4,
        num_return_sequences=4,
        length_penalty=length_penalty,
        early_stopping="never",  # as here: only when no better one can come
        eos_token_id=stop,
        pad_token_id=stop,
        return_dict_in_generate=True,
        output_scores=True,
    )
    beams = beam_search(ours, TOKENS, 11, width=4, length_penalty=length_penalty, stop=stop, padding=padding)
    length = told.sequences.shape[-1]
    assert_equal(beams.tokens[..., :length], told.sequences.view(3, 4, -1))
    assert bool((beams.tokens[..., length:] == stop).all())
    # a sum of at most 11 log-probabilities of size 5, each with the rounding of a float32 pass, 1e-6 of its logits
    assert_equal(beams.scores, told.sequences_scores.view(3, 4), atol=1e-4)
    finished = bool((beams.tokens[:, :, 13:-1] == stop).any())
    assert finished or length_penalty > 0, "some are finished before the end, where length does not pay"


def test_a_wider_beam_finds_what_a_greedy_choice_misses():
    model = decoder("llama", 11)
    greedy, wide = (beam_search(model, START, 7, width=width).scores[:, 0] for width in (1, 40))
    assert bool((wide >= greedy - 1e-12).all())
    assert bool((wide > greedy + 1e-3).any())


def test_a_long_one_may_still_come_before_a_short_one_that_is_finished():
    class Chain:
        """What comes next depends on the last token: 0 ends with 0.6 or goes on to 2, which never ends."""

        log_p = torch.tensor([[0.0, 0.6, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).log()

        def caches(self, padding):
            return []

        def step(self, tokens, caches, *, last):
            return self.log_p[tokens[:, -1:]], caches

    beams = beam_search(Chain(), torch.tensor([[0]]), 5, width=1, length_penalty=1.0, stop=1)
    assert beams.tokens.tolist() == [[[0, 2, 2, 2, 2, 2]]]
    assert_equal(beams.scores, torch.tensor([[0.4]]).log() / 5)
    beams = beam_search(Chain(), torch.tensor([[0]]), 5, width=1, length_penalty=0.0, stop=1)
    assert beams.tokens.tolist() == [[[0, 1]]]


def test_the_length_penalty_favours_longer_ones():
    model = decoder("llama", VOCABULARY)
    lengths = [
        (beam_search(model, START, 9, width=7, length_penalty=penalty, stop=STOP).tokens[:, 0] != STOP).sum()
        for penalty in (0.0, 5.0)
    ]
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width is 0: expected at least 1"),
        ({"width": 2, "length_penalty": -1.0}, "length_penalty is -1.0: expected 0 to 10"),
        ({"width": 2, "length_penalty": 300}, "length_penalty is 300: expected 0 to 10"),
        ({"width": 2, "steps": 0}, "steps is 0: expected at least 1"),
        ({"width": 2, "padding": 2}, "padding is 2: expected 0 to 1, so that each row keeps a token"),
        ({"width": 2, "tokens": START[:, :0]}, r"tokens has shape \(3, 0\): expected a token at least"),
    ],
    ids=["width", "negative", "penalty", "steps", "padding", "tokens"],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        beam_search(decoder("gpt", 11), **({"tokens": START, "steps": 3} | options))
