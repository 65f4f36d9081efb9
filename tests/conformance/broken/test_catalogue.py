"""Each bug is found by what is said to find it, and the right decoder is found by nothing."""

import pytest
import torch

from compare import assert_equal
from mha.conformance import CASES, verify
from mha.conformance.broken import BUGS, CHECKS, Alibi, Decoder, adapter

TOKENS = torch.randint(1, 11, (2, 8), generator=torch.Generator().manual_seed(1))
NOTICED = 1e-3  # float32 errs by less than 1e-5 here


def drawn(decoder):
    torch.manual_seed(0)
    return decoder(12).eval()


def is_found(decoder, found_by):
    if found_by in CHECKS:
        return not CHECKS[found_by](drawn(decoder), TOKENS) < NOTICED
    return verify(adapter(decoder), cases=[found_by])[found_by].status == "fails"


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name):
    bug = BUGS[name]
    assert is_found(bug.decoder, bug.found_by)
    assert not is_found(Alibi if issubclass(bug.decoder, Alibi) else Decoder, bug.found_by)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_runs_on_the_weights_of_the_right_model(name):
    model = BUGS[name].decoder(12).eval()
    model.load_state_dict(drawn(Decoder).state_dict())
    assert model(TOKENS)[0].shape == (2, 8, 12)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_one_small_step(name):
    decoder = BUGS[name].decoder
    steps = [step for step in vars(decoder) if not step.startswith("_")]
    assert len(steps) == 1
    assert hasattr(Decoder, steps[0])


def test_every_bug_names_a_case_or_a_check_and_a_report():
    assert len(BUGS) >= 12
    for bug in BUGS.values():
        assert bug.found_by in CASES or bug.found_by in CHECKS
        assert all(report.count("#") == 1 for report in bug.reports)
        assert bug.reports


def test_the_cache_hides_nothing_of_a_bug_in_training():
    """What breaks with a cache alone is right on whole texts."""
    for name in ("PositionsRestart", "MaskFromUpperLeft"):
        assert_equal(drawn(BUGS[name].decoder)(TOKENS)[0].detach(), drawn(Decoder)(TOKENS)[0].detach(), rtol=0)
