"""The claims ledger: its records, its boxes, and the tool that carries the measured words."""

import json
import re
from pathlib import Path

import pytest
import yaml
from sphinx.errors import ExtensionError

import claims

ROOT = Path(__file__).parents[2]
RECORDS = yaml.safe_load((ROOT / "book/claims.yml").read_text())
FIELDS = {"id", "claim_ja", "claim", "chapter", "label", "evidence", "verdict", "sentence", "measured"}
VERDICTS = {"holds", "holds, with conditions", "does not hold as stated", "open"}
SECTIONS = {
    f"{document}{number}"
    for document, entries in yaml.safe_load((ROOT / "book/coverage.yml").read_text()).items()
    for number in entries
}
NOTEBOOKS = {path.stem: json.loads(path.read_text()) for path in ROOT.glob("notebooks/*.ipynb")}

LEDGER = """\
- id: A-one
  claim_ja: {A1: '一つ'}
  claim: One is $1$.
  chapter: numbers
  label: one
  evidence: count
  verdict: holds, with conditions
  sentence: It is `1`.
  measured: "one = 1"
"""
PRINTED = '<aside class="mha-claim" data-claim="A-one">Claim A-one, measured here: <b>one = 1</b></aside>'


def page(printed):
    return f"# Numbers\n\n```{{raw}} html\n{printed}\n```\n\n```{{toctree}}\nledger\n```\n"


BOOK = {"index.md": page(PRINTED), "ledger.md": "# Ledger\n\n```{claim-ledger}\n```\n", "book/claims.yml": LEDGER}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_record_is_complete(record):
    assert record.keys() == FIELDS
    assert record["verdict"] in VERDICTS
    assert record["claim_ja"].keys() <= SECTIONS
    assert all(re.search(r"[\u3040-\u30ff]", sentence) for sentence in record["claim_ja"].values())
    assert record["claim"].endswith(".")
    assert record["sentence"].endswith(".")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_record_meets_its_chapter(record):
    notebook = NOTEBOOKS.get(record["chapter"])
    if notebook is None:
        pytest.skip(f"the chapter {record['chapter']} is not written")
    prose = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert f"({record['label']})=" in prose, f"no target ({record['label']})= in {record['chapter']}"
    assert claims.printed_claims(notebook).get(record["id"]) == record["measured"] != ""


def test_ids_are_unique():
    ids = [record["id"] for record in RECORDS]
    assert len(ids) == len(set(ids))


def test_box_and_ledger_link_to_each_other(build):
    built = build(BOOK, ["claim_boxes"])
    assert not built.warnings
    box, ledger = built.pages["index"], built.pages["ledger"]
    assert 'class="claim holds-with-conditions' in box
    assert "<strong>one = 1</strong>" in box
    assert '<span lang="ja">一つ</span>' in box
    assert 'href="ledger.html#ledger-a-one"' in box
    assert 'href="index.html#claim-a-one"' in ledger


@pytest.mark.parametrize(
    ("fault", "warning"),
    [
        ({"index.md": page(PRINTED.replace("= 1", "= 2"))}, "claim A-one: measured 'one = 2', recorded 'one = 1'"),
        ({"index.md": page(PRINTED.replace("A-one", "A-two"))}, "claim 'A-two' has no record"),
        (
            {"notebooks/numbers.md": "---\norphan: true\n---\n\n# Numbers\n", "index.md": page("")},
            "claim A-one is not shown in its chapter",
        ),
    ],
    ids=["wrong number", "unknown claim", "not shown"],
)
def test_a_fault_warns(build, fault, warning):
    assert warning in build(BOOK | fault, ["claim_boxes"]).warnings


def test_a_verdict_of_its_own_is_named(build):
    ledger = LEDGER.replace("holds, with conditions", "holds in part")
    message = "claim A-one: verdict is 'holds in part': expected one of holds, holds, with conditions, does not"
    with pytest.raises(ExtensionError, match=message):
        build(BOOK | {"book/claims.yml": ledger}, ["claim_boxes"])


def test_the_tool_reads_a_notebook():
    cells = [{"outputs": [{"data": {"text/html": [PRINTED.replace("1<", "&lt;1<")]}}]}, {"source": []}]
    assert claims.printed_claims({"cells": cells}) == {"A-one": "one = <1"}


def test_the_tool_moves_one_line():
    second = LEDGER.replace("A-one", "A-two")
    updated = claims.update(LEDGER + "\n" + second, {"A-two": 'says "2"'})
    assert updated == LEDGER + "\n" + second.replace('"one = 1"', '"says \\"2\\""')
    assert yaml.safe_load(updated)[1]["measured"] == 'says "2"'


def test_the_tool_refuses_an_unknown_claim():
    with pytest.raises(ValueError, match="A-three"):
        claims.update(LEDGER, {"A-three": "3"})
