"""Frequencies on tensors: equal to the reference, and to `ROPE_INIT_FUNCTIONS` of transformers."""

import pytest
import torch

from compare import assert_equal
from mha import nn, reference
from mha.nn import rotary_frequencies

BASE, LENGTH, WIDTHS = 5000.0, 499, (4, 26)

SLOWED = {
    "linear": ("interpolated_frequencies", {"factor": 3.0}),
    "ntk": ("ntk_frequencies", {"factor": 3.0}),
    "llama3": ("llama3_frequencies", {"factor": 8.0, "length": LENGTH, "slow": 1.5, "fast": 5.0}),
    "yarn": ("yarn_frequencies", {"factor": 8.0, "length": LENGTH}),
    "yarn, not truncated": ("yarn_frequencies", {"factor": 8.0, "length": LENGTH, "truncate": False}),
    "yarn, all slow": ("yarn_frequencies", {"factor": 8.0, "length": 5}),
    "yarn, one step": ("yarn_frequencies", {"factor": 8.0, "length": LENGTH, "slow": 8.0, "fast": 8.0001}),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", SLOWED)
def test_equals_the_reference(kind, width):
    name, options = SLOWED[kind]
    frequencies = rotary_frequencies(width, BASE)
    assert_equal(frequencies, reference.rotary_frequencies(width, BASE), rtol=1e-15)
    expected = getattr(reference, name)(frequencies.numpy(), **options)
    assert_equal(getattr(nn, name)(frequencies, **options), expected, rtol=1e-14)


def test_numbers_equal_the_reference():
    for n in (5, 700, 5000):
        assert nn.dynamic_factor(n, LENGTH, 2.0) == reference.dynamic_factor(n, LENGTH, 2.0)
    for factor in (0.5, 1.0, 3.7):
        assert nn.yarn_gain(factor) == pytest.approx(reference.yarn_gain(factor), rel=1e-15)


def of_transformers(width, length=None, **rope):
    """Return the frequencies and the factor that transformers makes of a configuration."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(hidden_size=2 * width, num_attention_heads=2, head_dim=width, max_position_embeddings=LENGTH)
    config.rope_parameters = {"rope_theta": BASE, "original_max_position_embeddings": LENGTH, **rope}
    return ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, torch.device("cpu"), seq_len=length)


# transformers computes in float32: a power of the base, a product, a ramp
CLOSE = {"rtol": 40 * 2.0**-24}


@pytest.mark.parametrize("width", WIDTHS)
class TestTransformers:
    def test_linear(self, width):
        frequencies, gain = of_transformers(width, rope_type="linear", factor=3.0)
        assert_equal(nn.interpolated_frequencies(rotary_frequencies(width, BASE), 3.0), frequencies, **CLOSE)
        assert gain == 1.0

    @pytest.mark.parametrize("length", [LENGTH, 2 * LENGTH + 1])
    def test_dynamic(self, width, length):
        frequencies, _ = of_transformers(width, length, rope_type="dynamic", factor=3.0)
        factor = nn.dynamic_factor(length, LENGTH, 3.0)
        assert_equal(nn.ntk_frequencies(rotary_frequencies(width, BASE), factor), frequencies, **CLOSE)

    @pytest.mark.parametrize("truncate", [True, False])
    @pytest.mark.parametrize("ends", [(32.0, 1.0), (7.0, 0.3)], ids=str)
    def test_yarn(self, width, truncate, ends):
        fast, slow = ends
        options = {"rope_type": "yarn", "factor": 8.0, "beta_fast": fast, "beta_slow": slow, "truncate": truncate}
        frequencies, gain = of_transformers(width, **options)
        ours = nn.yarn_frequencies(
            rotary_frequencies(width, BASE), 8.0, LENGTH, slow=slow, fast=fast, truncate=truncate
        )
        assert_equal(ours, frequencies, **CLOSE)
        assert nn.yarn_gain(8.0) == pytest.approx(gain, rel=1e-15)

    def test_llama3(self, width):
        options = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        frequencies, _ = of_transformers(width, **options)
        assert_equal(nn.llama3_frequencies(rotary_frequencies(width, BASE), 8.0, LENGTH), frequencies, **CLOSE)

    def test_the_fault_is_seen(self, width):
        """The ramp of the paper in place of the code's, and a base that forgets the last pair."""
        frequencies, _ = of_transformers(26, rope_type="yarn", factor=8.0)
        wrong = nn.llama3_frequencies(rotary_frequencies(26, BASE), 8.0, LENGTH, slow=1.0, fast=32.0)
        assert (wrong / frequencies - 1).abs().max() > 0.1
        frequencies, _ = of_transformers(width, 2 * LENGTH, rope_type="dynamic", factor=1.0)
        assert (rotary_frequencies(width, BASE * 2.0) / frequencies - 1).abs().max() > 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rotary_frequencies(5), "width is 5: expected an even number"),
        (lambda: nn.ntk_frequencies(rotary_frequencies(2), 2.0), "from 1 to 1: expected at least two"),
        (lambda: nn.yarn_frequencies(rotary_frequencies(0), 2.0, 8), "frequencies are none: expected at least two"),
        (lambda: nn.yarn_frequencies(rotary_frequencies(4), -2.0, 8), "factor is -2.0: expected a positive number"),
        (lambda: nn.llama3_frequencies(rotary_frequencies(4), 2.0, 8, slow=4.0), "slow is 4.0 and fast is 4.0"),
    ],
)
def test_misfits_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["interpolated", "ntk", "llama3", "yarn"])
def test_frequencies_are_arrays(name):
    given = (2.0,) if name in ("interpolated", "ntk") else (2.0, 8)
    for floor, kind in ((nn, "torch tensor"), (reference, "NumPy array")):
        with pytest.raises(TypeError, match=f"frequencies is a list: expected a {kind}"):
            getattr(floor, f"{name}_frequencies")([1.0, 0.1], *given)
