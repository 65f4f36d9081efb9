"""What came out: a result a case, a report an adapter, a matrix of several."""

import json
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mha.conformance.case import Case
from mha.conformance.cases import GROUPS
from mha.text import say, template

STATUSES = ("holds", "fails", "convention", "unsupported", "not installed")
SHOWN = ("fails", "convention")  # with what was expected and what came
LONGEST = 160  # characters of one value in print


@dataclass(frozen=True)
class Result:
    """One case on one adapter. `detail` names the convention, or what is not supported."""

    case: Case
    status: str
    expected: Any = None
    got: Any = None
    detail: str = ""

    def as_dict(self):
        """Return the result in JSON's types; numbers only where they differ from what is right."""
        found = {"case": self.case.name, "status": self.status}
        if self.detail:
            found["detail"] = self.detail
        if self.status in SHOWN:
            found |= {"expected": written(self.expected), "got": written(self.got)}
        return found


@dataclass(frozen=True)
class Report:
    """The results of one function. It passed if nothing that it supports fails, and something holds."""

    name: str
    results: list[Result]
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.failures and any(result.status == "holds" for result in self.results)

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.status == "fails"]

    @property
    def counts(self) -> dict[str, int]:
        """How many cases came to each result."""
        found = [result.status for result in self.results]
        return {status: found.count(status) for status in STATUSES if status in found}

    @property
    def missing(self) -> list[str]:
        """What the function would have to support for the cases that were not run."""
        asked = [result.detail.split(", ") for result in self.results if result.status == "unsupported"]
        return sorted({feature for features in asked for feature in features})

    def __getitem__(self, case: str) -> Result:
        for result in self.results:
            if result.case.name == case:
                return result
        raise KeyError(f"no result of a case {case!r}")

    def __str__(self):
        lines = [self.headline()]
        if self.missing:
            lines.append(say("conformance.not_run", features=", ".join(self.missing)))
        return "\n".join([*lines, *(described(r) for r in self.results if r.status in SHOWN)])

    def headline(self):
        """Return the name and the counts in one line."""
        counts = ", ".join(f"{number} {template('conformance.status')[key(s)]}" for s, number in self.counts.items())
        return say("conformance.headline", name=self.name, counts=counts)

    def as_dict(self):
        """Return the report in JSON's types."""
        return {
            "name": self.name,
            "passed": self.passed,
            "versions": self.versions,
            "counts": self.counts,
            "results": {result.case.name: result.status for result in self.results},
            "differences": [result.as_dict() for result in self.results if result.status in SHOWN],
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)


def described(result):
    """Return a result in full: the rule, what was expected, what came, and the public report."""
    lines = [
        say("conformance.result", case=result.case.name, status=template("conformance.status")[key(result.status)])
    ]
    lines.append(say("conformance.rule", rule=result.case.rule))
    if result.detail:
        readings = template("conformance.conventions")
        lines.append(say("conformance.reading", reading=readings.get(result.detail, result.detail)))
    lines.append(say("conformance.expected", expected=written(result.expected)))
    lines.append(say("conformance.got", got=written(result.got)))
    if result.case.report:
        lines.append(say("conformance.report", report=result.case.report))
    return "\n".join([lines[0], *(textwrap.indent(line, "    ") for line in lines[1:])])


def matrix(reports: list[Report]) -> str:
    """Return cases down and adapters across, one symbol a cell."""
    symbols = template("conformance.symbols")
    by_case = [{result.case.name: result for result in report.results} for report in reports]
    width = max((len(name) for found in by_case for name in found), default=0)
    heads = [f"{'│' * column}┌ {report.name}".rjust(0) for column, report in enumerate(reports)]
    lines = [" " * (width + 4) + head for head in heads]
    for group, cases in GROUPS.items():
        shown = [case.name for case in cases if any(case.name in found for found in by_case)]
        if shown:
            lines.append(template("conformance.groups")[group])
        for name in shown:
            cells = "".join(symbols[key(found[name].status)] if name in found else " " for found in by_case)
            lines.append(f"  {name.ljust(width + 2)}{cells}")
    legend = "  ".join(f"{symbols[key(s)]} {template('conformance.status')[key(s)]}" for s in STATUSES)
    return "\n".join([*lines, "", legend, "", *(report.headline() for report in reports)])


def written(value) -> str:
    """Return numbers in one short line."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value
    else:
        with np.printoptions(precision=6, suppress=False, threshold=24, linewidth=10**6):
            text = " ".join(str(np.asarray(value).squeeze()).split())
        text = text if np.size(value) else f"shape {np.shape(value)}"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def key(status):
    return status.replace(" ", "_")
