"""The loss is the log-probability of a walk along the target, and a translation does not depend on its neighbours."""

import pytest
import torch

from mha.data.tokenizer import BOS, EOS, PAD, padded
from mha.models.recurrent import Recurrent, RecurrentConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.models.translation import translate, translation_loss
from tests.compare import assert_equal

SOURCES = [[5, 3, 7, 4, EOS], [6, EOS], [3, 3, 8, EOS]]
TARGETS = [[BOS, 4, 9, EOS], [BOS, 3, 5, 8, 6, 7, EOS], [BOS, EOS]]


def transformer():
    return Seq2Seq(Seq2SeqConfig(11, 13, d_model=20, num_heads=2, num_layers=2, d_mlp=17, dropout=0.0))


def recurrent():
    return Recurrent(RecurrentConfig(11, 13, d_embed=7, d_model=10, attention="additive"))


@pytest.fixture(params=[transformer, recurrent])
def model(request):
    torch.manual_seed(3)
    model = request.param().double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3)
    return model


def batch(sources=SOURCES, targets=TARGETS):
    return padded(sources)[0], padded(targets)[0]


@torch.no_grad()
def log_probability(model, source, target):
    """Walk along one target without padding, a token at a time, each from the whole text before it."""
    total = 0.0
    for i in range(1, len(target)):
        logits = model(torch.tensor([source]), torch.tensor([target[:i]]))[0, -1]
        total += float(logits.log_softmax(-1)[target[i]])
    return total


def test_the_loss_is_that_of_a_walk_along_each_target(model):
    walks = [log_probability(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    tokens = sum(len(target) - 1 for target in TARGETS)
    assert_equal(translation_loss(model, batch()), torch.tensor(-sum(walks) / tokens, dtype=torch.float64), rtol=1e-12)


def test_a_loss_that_counts_padding_is_another(model):
    source, target = batch()
    logits = model(source, target[:, :-1], source_keep=source != PAD)
    counted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
    assert (counted - translation_loss(model, batch())).abs() > 0.01


@pytest.mark.parametrize("width", [1, 3])
def test_a_translation_does_not_depend_on_the_others(model, width):
    together = translate(model, SOURCES, 9, width=width)
    assert together == [translate(model, [source], 9, width=width)[0] for source in SOURCES]
    assert all(len(row) <= 9 and EOS not in row and all(0 <= token < 13 for token in row) for row in together)


def test_a_greedy_translation_takes_the_most_probable_token(model):
    for source, row in zip(SOURCES, translate(model, SOURCES, 9), strict=True):
        written = [BOS]
        while (
            len(written) <= 9
            and (token := int(model(torch.tensor([source]), torch.tensor([written]))[0, -1].argmax())) != EOS
        ):
            written.append(token)
        assert row == written[1:]


def test_a_wide_beam_is_at_least_as_probable(model):
    for source in SOURCES:
        greedy, beam = (translate(model, [source], 5, width=w, length_penalty=0.0)[0] for w in (1, 13))
        ended = [[BOS, *row, *[EOS] * (len(row) < 5)] for row in (greedy, beam)]
        before, after = (log_probability(model, source, row) for row in ended)
        assert after >= before - 1e-12


def test_no_source_is_no_translation(model):
    assert translate(model, [], 5) == []


@pytest.mark.parametrize("width", [0, 1.5, -1])
def test_a_width_is_a_number_of_beams(model, width):
    with pytest.raises((TypeError, ValueError), match="width"):
        translate(model, SOURCES, 5, width=width)


def test_sources_are_read_where_the_model_is():
    class Elsewhere(torch.nn.Linear):
        def given(self, source, *, keep):
            raise NotImplementedError(f"reads on {source.device} and {keep.device}")

    with pytest.raises(NotImplementedError, match="reads on meta and meta"):
        translate(Elsewhere(2, 3, device="meta"), SOURCES, 5)
