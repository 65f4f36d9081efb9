"""One thread a worker, no display, no network, and no silence about what was not tested."""

import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: xdist has a worker for each core
os.environ["MPLBACKEND"] = "Agg"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest

import chromium
import shape_annotations

shape_annotations.install()

NEEDS = ("browser", "pretrained")
KERNELS = Path(__file__).with_name("kernels")  # in Triton's interpreter, all the rest without it
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def pytest_ignore_collect(collection_path):
    inside = collection_path.is_relative_to(KERNELS)
    return True if inside != INTERPRETED and collection_path not in KERNELS.parents else None


def pytest_report_header():
    if INTERPRETED:
        return "kernels: in Triton's interpreter; all other tests: not here, but without TRITON_INTERPRET"
    return "kernels: not here: TRITON_INTERPRET=1 python -m pytest tests/kernels"


def pytest_collection_modifyitems(items):
    moving = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if moving:  # the workers of xdist must agree on the names
        raise pytest.UsageError(f"an address in the name of a test: {moving[0]}; give it ids=named")
    if os.environ.get("BROWSER") == "0":
        reason = "BROWSER=0"
    elif chromium.program() is None:
        reason = chromium.MISSING
    else:
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter):
    for need in NEEDS:
        skipped = [report for report in terminalreporter.getreports("skipped") if need in report.keywords]
        if skipped:
            reasons = sorted({report.longrepr[2].removeprefix("Skipped: ") for report in skipped})
            terminalreporter.section(f"{need}: NOT TESTED", sep="!", red=True)
            terminalreporter.write_line(f"{len(skipped)} tests skipped. {'; '.join(reasons)}")
