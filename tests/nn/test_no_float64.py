"""Positions on a device without float64 are what they are on the CPU, rounded once."""

import pytest
import torch

from compare import assert_equal
from mha.nn.position import SinusoidalPositions
from mha.nn.relative import Alibi
from mha.nn.rotary import Rotary, RotaryFrequencies
from no_float64 import DEVICE, Device, OnDevice

X = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(1))
POSITIONS = torch.tensor([0, 1, 2, 3, 40_001])
SCHEMES = {
    "sinusoidal": lambda x, positions: SinusoidalPositions(8)(x[0], positions),
    "rotary": Rotary().rotate,
    "frequencies": RotaryFrequencies((1.0, 0.3, 0.1, 0.01)).rotate,
    "alibi": lambda x, positions: Alibi(3).bias(positions, positions).to(x.dtype),
}


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_positions_are_those_of_the_cpu(scheme):
    expected = scheme(X, POSITIONS)
    with Device():
        found = scheme(X.as_subclass(OnDevice), POSITIONS.as_subclass(OnDevice))
        assert type(found) is OnDevice
        found = found.cpu()
    assert_equal(found, expected, rtol=1e-6 if scheme is SCHEMES["alibi"] else 0)


def test_the_player_refuses_float64():
    with Device():
        for make in (
            lambda: torch.zeros(2, device=DEVICE, dtype=torch.float64),
            lambda: X.as_subclass(OnDevice).double(),
            lambda: X.double().to(DEVICE),
        ):
            with pytest.raises(TypeError, match="makes float64 on mps, which has none"):
                make()
