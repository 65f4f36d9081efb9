"""Every part runs on short lengths, and the stored peaks are those of the formula."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mha import cost
from mha.data import result

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script on short lengths, in this process, whose allocator stays as it is."""
    monkeypatch.syspath_prepend(FOLDER)
    bench = importlib.import_module("scaling")
    for name, value in bench.SMALL.items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench, "fresh", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(bench, "LIBC", SimpleNamespace(mallopt=lambda *_: 1, malloc_trim=lambda _: 1))
    monkeypatch.setattr(bench, "gc", SimpleNamespace(collect=lambda: 0))  # slow among the objects of other tests
    monkeypatch.setattr(bench, "rates", dict)
    return bench


def test_all_parts_on_short_lengths(bench):
    found = bench.measure()
    assert found["seconds"].keys() == found["bytes"].keys() == {"forward", bench.BOTH}
    for by_form in found["seconds"].values():
        assert by_form.keys() == bench.FORMS.keys()
        assert all(len(values) == 2 and min(values) > 0 for values in by_form.values())
    assert len(found["heads"]["forms"]["stored"]["bytes"]) == 2
    assert found["layer"]["seconds"].keys() == {"projections", "stored", "fused", "feed-forward"}
    assert all(len(values) == 2 for values in found["decoding"]["seconds"].values())


PEAK = "import scaling; print(scaling.peak(scaling.core, 'stored', {n}, {gradients}))"


@pytest.mark.parametrize("gradients", [False, True])
def test_a_peak_is_that_of_the_formula(gradients):
    """In a process of its own: in this one, memory that other tests gave back is taken again."""
    n = 2048
    expected = cost.composed_peak(n, 1, 64, itemsize=4, gradients=gradients)
    command = [sys.executable, "-c", PEAK.format(n=n, gradients=gradients)]
    run = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert 0.95 < int(run.stdout) / expected < 1.1


@pytest.mark.parametrize("gradients", [False, True])
def test_measured_peaks_are_those_of_the_formulas(gradients):
    found = result("scaling")
    nbytes, lengths = found["bytes"]["forward and backward" if gradients else "forward"], found["setting"]["lengths"]
    sizes = {"itemsize": 4, "gradients": gradients}
    for form, peak in (("stored", cost.composed_peak), ("fused", cost.fused_peak)):
        ours = nbytes[form][-1] / peak(lengths[-1], 1, found["setting"]["width"], **sizes)
        assert 0.95 < ours < (1.05 if form == "stored" else 1.5)
