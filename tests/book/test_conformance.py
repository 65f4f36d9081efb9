"""The conformance page: made from the result file, every cell in words as well as in symbols."""

import json
import re

import pytest

from mha.conformance import CASES
from mha.conformance.adapters import KNOWN
from mha.text import template

ALL_HOLD = dict.fromkeys(CASES, "holds")
LATE = {"case": "fewer-queries-than-keys", "status": "convention", "detail": "upper-left", "expected": "1", "got": "2"}
NAN = {"case": "true-attends", "status": "fails", "expected": "1", "got": "nan"}
RESULTS = {
    "provenance": {"date": "2026-11-29", "python": "3.11.7"},
    "adapters": [
        {
            "name": "mha.reference",
            "versions": {"numpy": "2.4.6"},
            "counts": {"holds": 3},
            "results": ALL_HOLD,
            "differences": [],
        },
        {
            "name": "torch.sdpa",
            "versions": {"torch": "2.13.0"},
            "counts": {"fails": 1, "convention": 1},
            "results": ALL_HOLD | {"fewer-queries-than-keys": "convention", "true-attends": "fails"},
            "differences": [LATE, NAN],
        },
    ],
}
PAGE = "# One\n\n```{conformance-adapters}\n```\n\n```{conformance-matrix}\n```\n\n```{conformance-cases}\n```\n"


@pytest.fixture
def page(build):
    built = build({"index.md": PAGE, "mha/data/results/conformance.json": json.dumps(RESULTS)}, ["conformance_table"])
    assert not built.warnings
    return built.pages["index"]


def test_a_cell_says_in_words_what_its_colour_says(page):
    assert '<span class="fails" role="img" aria-label="torch.sdpa: fails" title="torch.sdpa: fails">✗</span>' in page
    assert 'class="convention" role="img" aria-label="torch.sdpa: convention" title="torch.sdpa: convention">≈' in page
    assert page.count('aria-label="mha.reference: holds"') == len(CASES)


def test_every_case_is_linked_to_its_rule_and_report(page):
    for name in CASES:
        assert f'href="#case-{name}"' in page
        assert f'id="case-{name}"' in page
    assert 'href="https://github.com/pytorch/pytorch/issues/108108"' in page
    assert "The last query stands at the last key." in page


def test_differences_are_told(page):
    said = re.sub("<[^>]+>", "", page)
    assert "torch.sdpa: the first query stands at the first key" in said
    assert "torch.sdpa: fails; expected 1, got nan" in said
    assert "Measured on 2026-11-29, on a CPU, with Python 3.11.7." in said
    assert "torch.sdpa: scaled_dot_product_attention with" in said
    assert "torch&nbsp;2.13.0" in page


def test_the_page_says_how_each_function_is_called():
    assert template("conformance.called").keys() == set(KNOWN)
