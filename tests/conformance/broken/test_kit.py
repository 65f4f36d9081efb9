"""What the kit is shown: the steps of the class, the default ones where a bug leaves them alone."""

import torch

from compare import assert_equal
from mha.conformance import verify
from mha.conformance.broken import Decoder, adapter


class Transposed(Decoder):
    @staticmethod
    def visible(new, past):
        return Decoder.visible(past + new, 0).mT[-new:]


def test_a_fault_in_the_mask_is_seen_by_causal_cases_alone():
    report = verify(adapter(Transposed), cases=["causal-square", "rows-differ"])
    assert [result.status for result in report.results] == ["fails", "holds"]


def test_names_and_steps_come_from_the_class():
    shown = adapter(Decoder)
    assert shown.name == "Decoder"
    x = torch.ones(1, 1, 1, 2)
    assert_equal(shown.rotate(x, torch.tensor([0])), x, rtol=0)
