"""Each check is 0 for the right decoder and notices what it is for; what it measures has a known size here."""

import pytest
import torch

from compare import assert_equal
from mha.conformance.broken import BUGS, CHECKS, Alibi, Decoder
from mha.conformance.broken.checks import cache_error, future_error

TOKENS = torch.randint(1, 11, (2, 8), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("decoder", [Decoder, Alibi])
def test_the_right_decoder_has_no_error(check, decoder):
    torch.manual_seed(0)
    assert CHECKS[check](decoder(12).eval(), TOKENS) < 1e-5


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_notices_something(check):
    torch.manual_seed(0)
    found = {name: CHECKS[check](bug.decoder(12).eval(), TOKENS) for name, bug in BUGS.items()}
    assert [name for name, error in found.items() if not error < 1e-3]


def test_a_check_leaves_the_model_as_it_was():
    model = Decoder(12).eval()
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    for check in CHECKS.values():
        check(model, TOKENS)
    for name, weights in model.state_dict().items():
        assert_equal(weights, before[name], rtol=0)


class Constant(torch.nn.Module):
    """The same logits for every text but that they count the tokens of a call."""

    def forward(self, tokens, cache=None, keep=None):
        return torch.full((*tokens.shape, 3), float(tokens.shape[1])), None


class Last(torch.nn.Module):
    """Every place says what the last token of the call is."""

    def forward(self, tokens, cache=None, keep=None):
        return tokens[:, -1:, None].float().expand(*tokens.shape, 3), None


def test_errors_have_the_size_of_the_difference():
    assert cache_error(Constant(), TOKENS) == 7  # 8 tokens at once against 1
    assert future_error(Constant(), TOKENS) == 0
    assert future_error(Last(), TOKENS) == 1
