"""Dangerous cases of foreign libraries, in a process of their own: a crash is a result, and the others go on."""

import json
import signal
import subprocess
import sys

from mha.conformance.cases import ALL
from mha.conformance.report import Result
from mha.text import say

SECONDS = 120


def examine_apart(adapter_name, cases) -> list[Result]:
    """Return the results of these cases of a known adapter, run in other processes."""
    found: list[Result] = []
    while len(found) < len(cases):
        found += _until_it_ends(adapter_name, cases[len(found) :])
    return found


def _until_it_ends(adapter_name, cases):
    """Return the results up to the one, if any, that ended the process."""
    command = [sys.executable, "-m", "mha.conformance.worker", adapter_name, *(case.name for case in cases)]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        lines, end = shown.stdout.splitlines(), say("conformance.ended", signal=_cause(shown))
    except subprocess.TimeoutExpired as late:
        lines, end = _text(late.stdout).splitlines(), say("conformance.too_long", seconds=SECONDS)
    answers = [json.loads(line) for line in lines if line.startswith('{"case"')]
    found = [
        Result(ALL[one["case"]], one["status"], one.get("expected"), one.get("got"), one.get("detail", ""))
        for one in answers
    ]
    if len(found) < len(cases):
        case = cases[len(found)]
        found.append(Result(case, "fails", getattr(case, "expected", None), end))
    return found


def _cause(shown):
    if shown.returncode < 0:
        return signal.Signals(-shown.returncode).name
    return " ".join([f"status {shown.returncode}", *shown.stderr.strip().splitlines()[-1:]])


def _text(output):
    return output.decode() if isinstance(output, bytes) else output or ""
