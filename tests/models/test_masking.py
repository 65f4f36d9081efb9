"""Masked language modelling: shares, special tokens and targets, and the loss by hand."""

import math

import pytest
import torch

from mha.models.masking import IGNORED, masked, masked_loss

VOCAB, MASK, SPECIAL = 211, 3, (0, 1, 2)
TOKENS = torch.randint(VOCAB, (997, 101), generator=torch.Generator().manual_seed(7))
ORDINARY = TOKENS > MASK


def corrupt(tokens=TOKENS, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return masked(tokens, vocab_size=VOCAB, mask=MASK, special=SPECIAL, generator=generator, **options)


def near(count, of, share):
    """Whether a count is within five standard deviations of a share."""
    return abs(count - of * share) < 5 * math.sqrt(of * share * (1 - share))


def test_shares():
    corrupted, targets = corrupt()
    chosen = targets != IGNORED
    assert near(chosen.sum(), ORDINARY.sum(), 0.15)
    assert near((corrupted[chosen] == MASK).sum(), chosen.sum(), 0.8)
    kept = 0.1 + 0.1 / (VOCAB - 4)  # a random token may be the one that stood there
    assert near((corrupted[chosen] == TOKENS[chosen]).sum(), chosen.sum(), kept)


def test_targets_are_what_stood_there():
    corrupted, targets = corrupt()
    chosen = targets != IGNORED
    assert (targets[chosen] == TOKENS[chosen]).all()
    assert (corrupted[~chosen] == TOKENS[~chosen]).all()


def test_special_tokens_are_neither_chosen_nor_drawn():
    corrupted, targets = corrupt(chosen=1.0)
    assert ((targets == IGNORED) == ~ORDINARY).all()
    assert (corrupted[~ORDINARY] == TOKENS[~ORDINARY]).all()
    assert (corrupted[ORDINARY] >= MASK).all()


def test_random_tokens_are_equally_likely():
    corrupted, targets = corrupt(chosen=1.0, hidden=0.0, random=1.0)
    counts = torch.bincount(corrupted[targets != IGNORED], minlength=VOCAB)[MASK + 1 :]
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert abs(statistic - len(counts)) < 5 * math.sqrt(2 * len(counts)), "chi-squared"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hidden": 1.0, "random": 0.0}, "all hidden"),
        ({"hidden": 0.0, "random": 0.0}, "all kept"),
        ({"chosen": 0.0}, "none chosen"),
    ],
)
def test_limits(options, expected):
    corrupted, targets = corrupt(**options)
    chosen = targets != IGNORED
    found = {
        "all hidden": (corrupted[chosen] == MASK).all(),
        "all kept": (corrupted == TOKENS).all() and chosen.any(),
        "none chosen": (corrupted == TOKENS).all() and not chosen.any(),
    }
    assert found[expected]


def test_the_seed_decides():
    one, again, other = corrupt(seed=5), corrupt(seed=5), corrupt(seed=6)
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert (one[1] != other[1]).any()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), (1,)])
def test_shapes_without_tokens(shape):
    corrupted, targets = corrupt(torch.full(shape, 17))
    assert corrupted.shape == targets.shape == shape


def test_loss_by_hand():
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], [[0.2, 0.3, 0.5], [1.0, 1.0, 1.0]]]))
    targets = torch.tensor([[0, IGNORED], [2, IGNORED]])
    assert abs(float(masked_loss(logits, targets)) - math.log(2)) < 1e-6


def test_loss_is_the_mean_over_targets_only():
    logits = torch.randn(5, 7, VOCAB, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    _, targets = corrupt(TOKENS[:5, :7], chosen=0.4)
    nats = [
        -float(torch.log_softmax(logits[i, j], -1)[targets[i, j]]) for i, j in (targets != IGNORED).nonzero().tolist()
    ]
    assert abs(float(masked_loss(logits, targets)) - sum(nats) / len(nats)) < 1e-12


def test_no_target_no_loss_no_gradient():
    logits = torch.zeros(2, 3, VOCAB, requires_grad=True)
    loss = masked_loss(logits, torch.full((2, 3), IGNORED))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokens": TOKENS.float()}, TypeError, "tokens has dtype torch.float32: expected torch.long"),
        ({"tokens": TOKENS + 10}, ValueError, "tokens holds 10 to 220: expected 0 to 210"),
        ({"mask": 211}, ValueError, "mask is 211: expected a token number from 0 to 210"),
        ({"chosen": 15}, ValueError, "chosen is 15: expected a share from 0 to 1"),
        ({"hidden": 0.95}, ValueError, r"hidden \+ random is 1.05"),
    ],
)
def test_refused(change, error, message):
    given = {"tokens": TOKENS, "vocab_size": VOCAB, "mask": MASK} | change
    with pytest.raises(error, match=message):
        masked(given.pop("tokens"), **given)


def test_targets_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"targets has shape \(2, 4\): expected \(2, 3\), like logits"):
        masked_loss(torch.zeros(2, 3, VOCAB), torch.zeros(2, 4, dtype=torch.long))
