"""`mha.nn.rotary` against the reference and by its own law: q·k depends on the distance alone."""

import math

import pytest
import torch

from compare import assert_equal
from mha import reference
from mha.nn import Rotary, RotaryFrequencies, rotate


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("positions", [torch.arange(7), torch.arange(14).reshape(2, 7) * 5 - 3], ids=["(n,)", "(b, n)"])
def test_equals_the_reference(layout, positions):
    x = draw(2, 3, 7, 10)
    expected = reference.rotate(x.numpy(), positions.numpy(), base=500.0, layout=layout)
    assert_equal(rotate(x, positions, base=500.0, layout=layout), expected, rtol=0, atol=1e-13)
    scheme = Rotary(base=500.0, layout=layout)
    assert_equal(scheme.rotate(x, positions), expected, rtol=0, atol=1e-13)
    assert_equal(scheme.at(positions, 10).rotate(x), expected, rtol=0, atol=1e-13)


def test_published_numbers():
    """transformers#25199: one layout taken for the other; transformers#22161: absolute positions."""
    first = torch.tensor([1.0, 0, 0, 0]).double().reshape(1, 1, 1, 4)
    one = torch.tensor([1])
    assert_equal(rotate(first, one).flatten(), [math.cos(1), 0, math.sin(1), 0], rtol=1e-15)
    assert_equal(rotate(first, one, layout="interleaved").flatten(), [math.cos(1), math.sin(1), 0, 0], rtol=1e-15)
    q, k = (torch.tensor(x).double().reshape(1, 1, 1, 4) for x in ([1.0, 2, 3, 4], [0.5, -1, 2, 0]))
    for shift in (0, 100):
        dot = (rotate(q, torch.tensor([7 + shift])) * rotate(k, torch.tensor([3 + shift]))).sum()
        assert_equal(dot, -6.4655277, rtol=0, atol=5e-8)


def test_far_positions_keep_their_distance_in_float32():
    """Phases of a million in float32 would be off by 0.03."""
    q, k = (draw(1, 1, 1, 8, seed=s, dtype=torch.float32) for s in (1, 2))
    near = (rotate(q, torch.tensor([5])) * rotate(k, torch.tensor([2]))).sum()
    far = (rotate(q, torch.tensor([1_000_005])) * rotate(k, torch.tensor([1_000_002]))).sum()
    assert_equal(far, near, rtol=0, atol=16 * 8 * 2.0**-24 * float(q.norm() * k.norm()))


def test_dtype_and_gradient():
    x = draw(1, 2, 5, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, torch.arange(5)), x)
    assert rotate(x.to(torch.bfloat16), torch.arange(5)).dtype == torch.bfloat16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_frequencies_of_their_own(layout):
    x, positions = draw(2, 3, 5, 6), torch.arange(5) + 7
    frequencies = [100.0 ** (-2 * c / 6) for c in range(3)]
    scheme = RotaryFrequencies(frequencies, layout=layout)
    assert_equal(scheme.rotate(x, positions), rotate(x, positions, base=100.0, layout=layout), atol=1e-14)
    assert scheme == RotaryFrequencies(tuple(frequencies), layout=layout)
    assert hash(scheme) == hash(RotaryFrequencies(tuple(frequencies), layout=layout))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rotate(draw(1, 1, 5, 7), torch.arange(5)), "even width"),
        (lambda: rotate(draw(1, 1, 5, 6), torch.arange(4)), r"positions has shape \(4,\): expected \(5,\)"),
        (lambda: rotate(draw(1, 1, 5, 6), torch.arange(5), layout="halves"), "layout is 'halves'"),
        (lambda: Rotary().at(torch.arange(1), 6).rotate(draw(1, 1, 5, 6)), r"x has shape \(1, 1, 5, 6\): .*\(1, 6\)"),
        (lambda: Rotary().at(torch.arange(5), 4).rotate(draw(1, 1, 5, 6)), r"expected .* \(5, 4\) at the end"),
        (lambda: RotaryFrequencies((1.0,)).rotate(draw(1, 1, 5, 6), torch.arange(5)), "x has width 6: expected 2"),
        (lambda: RotaryFrequencies((float("nan"),)), "frequencies is nan: expected a finite number"),
    ],
)
def test_bad_calls_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
