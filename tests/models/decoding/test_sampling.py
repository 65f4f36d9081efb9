"""A draw follows the probabilities, and options are checked when they are given."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.models.decoding import Sampling
from mha.reference.sampling import next_token_probabilities

LOGITS = torch.randn(3, 7, generator=torch.Generator().manual_seed(1))


def test_probabilities_are_the_references():
    sampling = Sampling(temperature=0.7, top_k=5, top_p=0.8, min_p=0.1)
    expected = next_token_probabilities(LOGITS.double().numpy(), temperature=0.7, top_k=5, top_p=0.8, min_p=0.1)
    assert_equal(sampling.probabilities(LOGITS), expected)
    assert_equal(sampling.probabilities(LOGITS.bfloat16()), sampling.probabilities(LOGITS.bfloat16().float()))


def test_frequencies_are_the_probabilities():
    sampling = Sampling(top_k=5, seed=1)
    draw, n = sampling.drawer(), 20_000
    tokens = draw(LOGITS[:1].expand(n, -1))
    assert (tokens.dtype, tokens.shape) == (torch.int64, (n,))
    p = sampling.probabilities(LOGITS)[0]
    found = np.bincount(tokens.numpy(), minlength=7) / n
    assert (found[p == 0] == 0).all()
    # five standard deviations of a frequency: a right draw fails once in a million seeds
    assert (abs(found - p) <= 5 * np.sqrt(p * (1 - p) / n)).all()


def test_each_step_has_numbers_of_its_own():
    draw = Sampling(seed=1).drawer()
    steps = torch.stack([draw(torch.zeros(5, 101)) for _ in range(7)])
    assert len(steps.flatten().unique()) > 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature is -0.1: expected 0 or more; 0 is the most probable token"),
        ({"temperature": float("nan")}, "temperature is nan: expected 0 or more"),
        ({"top_k": 0}, "top_k is 0: expected at least 1"),
        ({"top_p": 0.0}, "top_p is 0.0: expected 0 < top_p ≤ 1"),
        ({"top_p": 1.01}, "top_p is 1.01: expected 0 < top_p ≤ 1"),
        ({"min_p": -0.1}, "min_p is -0.1: expected 0 ≤ min_p ≤ 1"),
        ({"seed": -1}, "seed is -1: expected at least 0"),
    ],
    ids=["cold", "nan", "top_k", "top_p-0", "top_p-2", "min_p", "seed"],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**options)
    if "seed" not in options:
        with pytest.raises(ValueError, match=message):
            next_token_probabilities(np.zeros(3), **options)


def test_a_number_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"top_k is 2.5: expected an integer"):
        Sampling(top_k=2.5)
