"""Each check is 0 for the right decoder and notices what it is for; what it measures has a known size here."""

import pytest
import torch

from mha.conformance.broken import BUGS, CHECKS, Alibi, Decoder

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
    assert all(torch.equal(weights, before[name]) for name, weights in model.state_dict().items())
