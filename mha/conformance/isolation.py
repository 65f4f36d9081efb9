"""Cases in a process of their own: a crash is a result, and the others go on; variables are set before it starts."""

import json
import os
import signal
import subprocess
import sys

from mha.conformance.cases import ALL
from mha.conformance.report import Result
from mha.text import say

SECONDS = 120  # and a few more for each case
SECONDS_A_CASE = 5


def examine_apart(adapter_name, cases, environment=()) -> list[Result]:
    """Return the results of these cases of a known adapter, run in other processes with variables set."""
    found: list[Result] = []
    while len(found) < len(cases):
        found += _until_it_ends(adapter_name, cases[len(found) :], os.environ | dict(environment))
    return found


def _until_it_ends(adapter_name, cases, environment):
    """Return the results up to the one, if any, that ended the process."""
    seconds = SECONDS + SECONDS_A_CASE * len(cases)
    command = [sys.executable, "-m", "mha.conformance.worker", adapter_name, *(case.name for case in cases)]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)
        lines, end = shown.stdout.splitlines(), say("conformance.ended", signal=_cause(shown))
    except subprocess.TimeoutExpired as late:
        lines, end = _text(late.stdout).splitlines(), say("conformance.too_long", seconds=seconds)
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
