"""The adapters: ours hold all that they declare, and those of others give what the committed file says."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from mha.conformance import CASES, FEATURES, GROUPS
from mha.conformance.__main__ import main
from mha.conformance.adapters import KNOWN, OURS, find, is_installed
from mha.conformance.isolation import examine_apart
from mha.conformance.known import examine_known
from mha.data import result

COMMITTED = {report["name"]: report for report in result("conformance")["adapters"]}
SAFE = [case for case in CASES.values() if not case.dangerous]
DERIVATIVES = {"second-derivative", "forward-derivative"}
PARTS = {"alibi-slopes", "distance-buckets", "disentangled", "linear-attention", "linear-average", "delta-rule"}
SAMPLE = [
    case
    for group in ("masks", "empty-rows", "hidden-numbers", "causal", "scores", "sinks", "distances")
    for case in GROUPS[group]
]
HERE = {
    "torch.sdpa": list(CASES.values()),
    "torch.MultiheadAttention": SAMPLE,
    "torch.MultiheadAttention-weights": SAMPLE,
    "torch.FlexAttention": GROUPS["hidden-numbers"],
    "transformers.eager": SAMPLE,
    "transformers.sdpa": SAMPLE,
    "onnx.Attention": list(CASES.values()),
}


@pytest.mark.parametrize("name", [*OURS[:-1], pytest.param(OURS[-1], marks=pytest.mark.slow)])  # interpreted
def test_ours_hold_whatever_they_support(name):
    report = examine_known(name, list(CASES.values()))
    assert report.failures == [], str(report)
    assert set(report.counts) <= {"holds", "unsupported"}


def test_what_ours_do_not_support():
    assert find("mha.reference").supports == FEATURES - DERIVATIVES
    assert find("mha.nn").supports == FEATURES
    assert OURS[-1] == "mha.kernels"
    beside = PARTS - {"linear-attention"}
    assert find("mha.kernels").supports == FEATURES - DERIVATIVES - beside - {"weights", "rotate"}


def test_the_committed_file_holds_every_adapter_and_case():
    assert list(COMMITTED) == list(KNOWN)
    assert {name for name, report in COMMITTED.items() if list(report["results"]) != list(CASES)} == set()
    assert {name for name, report in COMMITTED.items() if "not installed" in report["counts"]} == set()
    assert {name for name in OURS if not COMMITTED[name]["passed"]} == set()


@pytest.mark.parametrize("name", HERE)
def test_what_is_installed_here_gives_what_was_measured(name):
    report = examine_known(name, HERE[name])
    assert report.versions.keys() == COMMITTED[name]["versions"].keys()
    now = {one.case.name: one.status for one in report.results}
    assert now == {case: COMMITTED[name]["results"][case] for case in now}, str(report)


def test_what_is_missing_is_not_guessed(monkeypatch):
    monkeypatch.setattr("mha.conformance.adapters.find_spec", lambda package: None)
    assert not is_installed("jax.nn")
    assert examine_known("jax.nn", SAFE[:3]).counts == {"not installed": 3}


def test_a_crash_takes_nothing_else_down(monkeypatch):
    cases = [CASES[name] for name in ("no-keys-give-zero", "no-queries-keep-the-shape", "batches-agree")]
    line = json.dumps({"case": cases[0].name, "status": "holds"})
    ends = [
        SimpleNamespace(stdout=line + "\n", stderr="", returncode=-8),
        SimpleNamespace(stdout=json.dumps({"case": cases[2].name, "status": "holds"}), stderr="", returncode=0),
    ]
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: ends.pop(0))
    found = examine_apart("torch.sdpa", cases)
    assert [one.status for one in found] == ["holds", "fails", "holds"]
    assert found[1].got == "the process ended with SIGFPE"


def test_a_process_that_cannot_start_says_why(monkeypatch):
    broken = SimpleNamespace(stdout="", stderr="Traceback\nImportError: no torch", returncode=1)
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: broken)
    (found,) = examine_apart("torch.sdpa", [CASES["batches-agree"]])
    assert found.got == "the process ended with status 1 ImportError: no torch"


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "report.json"
    assert main(["mha.reference", "--case", "masks", "--case", "a-rotated-vector", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "true-attends" in shown
    assert f"mha.reference: {len(GROUPS['masks']) + 1} holds" in shown
    (read,) = json.loads(file.read_text())["adapters"]
    assert read.keys() == {"name", "passed", "versions", "counts", "results", "differences"}
    assert read["counts"] == {"holds": len(GROUPS["masks"]) + 1}
    assert main(["--list"]) == 0
    assert "an-empty-row-gives-zero: A query that sees no key gets 0." in capsys.readouterr().out


def test_the_command_line_fails_with_ours(monkeypatch, capsys):
    monkeypatch.setattr("mha.reference.dot_product.mix", lambda weights, values, see: weights @ values)
    assert main(["mha.reference", "--case", "hidden-numbers"]) == 1
    assert "Of ours, these fail: mha.reference" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["jaxx"], ["mha.reference", "--case", "maks"], ["mha.reference", "--json", "no/such/report.json"]]
)
def test_the_command_line_refuses_by_name(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[-1] in capsys.readouterr().err
