"""`verify` on any function: what it finds out, what it refuses, and what its report says."""

import json
import re
import sys
import warnings

import numpy as np
import pytest
import torch

from conformance.zoo import FAULTS, Careful
from mha import reference
from mha.conformance import CASES, Adapter, Relation, Torch, adapt, verify

UPPER_LEFT = FAULTS["causal from the upper left"][1]


def masked_only(q, k, v, *, mask=None):
    return Careful()(q, k, v, mask=mask)


def test_a_function_is_asked_for_what_its_signature_names():
    report = verify(masked_only)
    assert report.name == "masked_only"
    assert report["a-sink-takes-its-share"].status == "unsupported"
    assert report["a-sink-takes-its-share"].detail == "sinks"
    assert report["an-empty-row-gives-zero"].status == "holds"
    assert report.passed


def test_options_behind_two_stars_are_tried():
    supports = adapt(lambda q, k, v, **options: reference.attention(q, k, v, **options)).supports
    assert supports == {"mask", "bias", "scale", "softcap", "sinks", "grouped", "value-width", "float16", "gradient"}


def test_what_cannot_be_grouped_is_not_asked():
    supports = adapt(lambda q, k, v: np.matmul(q @ k.swapaxes(-1, -2), v)).supports
    assert supports == {"value-width", "float16", "gradient"}


def test_the_reference_passes_as_a_plain_function():
    report = verify(reference.attention)
    assert report.failures == []
    assert report.passed


def test_what_is_unsupported_is_not_passed():
    report = verify(masked_only, cases=["sinks"], supports={"mask"})
    assert report.counts == {"unsupported": len(report.results)}
    assert not report.passed


def test_a_declared_convention_is_none_of_the_failures():
    options = {"cases": ["fewer-queries-than-keys"], "supports": {"causal"}}
    assert verify(UPPER_LEFT, **options).counts == {"fails": 1}
    report = verify(UPPER_LEFT, **options, conventions={"upper-left"})
    assert report.counts == {"convention": 1}
    assert "the first query stands at the first key" in str(report)


def test_a_report_in_print_and_in_json():
    report = verify(FAULTS["the scale is missing"][1], cases=["the-default-scale"], name="unscaled")
    text = str(report)
    assert text.startswith("unscaled: 1 fails")
    for line in ("rule: By default scores are divided by the root of the width.", "expected: [0.75 0.75", "got: [0.9"):
        assert line in text
    read = json.loads(report.to_json())
    assert read["results"] == {"the-default-scale": "fails"}
    assert read["differences"][0].keys() == {"case", "status", "expected", "got"}
    assert read["passed"] is False


def test_an_error_is_an_answer():
    def broken(q, k, v):
        raise ZeroDivisionError("by nothing")

    report = verify(broken, cases=["one-key-is-the-output", "keys-and-values-pair-up"])
    assert report["one-key-is-the-output"].got == "ZeroDivisionError: by nothing"
    assert report["keys-and-values-pair-up"].status == "holds"


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda x: (x, None), "tuple"),
        (lambda x: None, "NoneType"),
        (lambda x: x + 0j, "complex128"),
        (lambda x: x > 0, "bool"),
    ],
)
def test_what_is_no_output_is_neither_right_nor_a_refusal(wrong, name):
    report = verify(lambda q, k, v: wrong(q), cases=["one-key-is-the-output", "keys-and-values-pair-up"])
    assert report.counts == {"fails": 2}
    assert re.search(f"NoOutput: the function returned (a )?{name}: expected", str(report))


def test_the_end_of_the_process_is_an_answer():
    assert verify(lambda q, k, v: sys.exit(3), cases=["one-key-is-the-output"]).counts == {"fails": 1}


def test_a_warning_is_no_reason_not_to_ask():
    def warned(q, k, v):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return Careful()(q, k, v)

    assert adapt(warned).supports == adapt(lambda q, k, v: Careful()(q, k, v)).supports


def test_options_go_in_as_copies():
    def written_over(q, k, v, *, mask):
        mask[...] = False
        return Careful()(q, k, v)

    before = CASES["rows-differ"].options["mask"].copy()
    verify(written_over, cases=["rows-differ"])
    assert (CASES["rows-differ"].options["mask"] == before).all()


def test_a_built_in_function_has_no_signature_and_is_tried():
    report = verify(torch.nn.functional.scaled_dot_product_attention, arrays=Torch(), cases="scores")
    assert report.counts["holds"] >= 5
    assert report.missing == ["bias", "mask", "softcap"]


def test_a_report_says_what_was_not_asked():
    def renamed(q, k, v, *, attn_mask=None):
        return Careful()(q, k, v, mask=attn_mask)

    assert "not run, for want of: bias, mask" in str(verify(renamed, cases=["masks"]))


def test_an_output_of_single_precision_has_gradients_of_single_precision():
    def single(q, k, v, *, mask=None):
        return Careful()(q, k, v, mask=mask).astype(np.float32)

    assert verify(single, cases=["gradients", "empty-rows"]).passed


def test_a_case_of_ones_own():
    case = Relation(name="nothing-is-larger-than-one", run=lambda subject: (np.ones(1), np.ones(1)))
    assert verify(masked_only, cases=[case]).counts == {"holds": 1}


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"supports names 'masks': expected some of .*mask"):
        verify(masked_only, supports={"masks"})
    with pytest.raises(TypeError, match="supports is the string 'mask'"):
        verify(masked_only, supports="mask")
    with pytest.raises(ValueError, match="supports names 'lse', which needs a function beside attend"):
        verify(masked_only, supports={"lse"})
    with pytest.raises(ValueError, match="conventions names 'lower-left'"):
        verify(masked_only, conventions={"lower-left"})
    with pytest.raises(ValueError, match="no case or group 'maks'"):
        verify(masked_only, cases=["maks"])
    with pytest.raises(TypeError, match="fn is a int: expected a function"):
        verify(3)
    with pytest.raises(TypeError, match="cases holds a int: expected names"):
        verify(masked_only, cases=[3])
    with pytest.raises(TypeError, match=r"arrays is the class Torch: expected an object, Torch\(\)"):
        verify(masked_only, arrays=Torch)
    with pytest.raises(TypeError, match=r"dtype is <class 'numpy.float16'>: expected numpy.float64 or"):
        verify(masked_only, dtype=np.float16)
    adapter = Adapter(name="one", attend=masked_only, supports=frozenset({"mask"}))
    with pytest.raises(TypeError, match="an Adapter declares supports"):
        verify(adapter, supports={"mask"})
    assert verify(adapter, cases=["true-attends"]).passed
    with pytest.raises(KeyError, match="no result of a case 'rows-differ'"):
        verify(adapter, cases=["true-attends"])["rows-differ"]


def test_a_group_stands_for_its_cases():
    assert {result.case.name for result in verify(masked_only, cases="causal").results} < CASES.keys()
