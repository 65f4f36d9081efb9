"""`python -m mha.conformance [adapter …]`: which cases hold, as a matrix and as JSON."""

import argparse
import json
import sys
from pathlib import Path

from mha.conformance.adapters import KNOWN, OURS
from mha.conformance.cases import GROUPS, chosen
from mha.conformance.known import examine_known
from mha.conformance.report import SHOWN, described, matrix
from mha.text import say, template


def main(arguments=None) -> int:
    """Run the command; return 1 if a case of ours fails."""
    words = template("conformance.help")
    parser = argparse.ArgumentParser(prog="python -m mha.conformance", description=words["description"])
    parser.add_argument("adapters", nargs="*", metavar="adapter", help=words["adapters"])
    parser.add_argument("--json", type=Path, metavar="FILE", help=words["json"])
    parser.add_argument("--list", action="store_true", help=words["list"])
    parser.add_argument("--case", action="append", metavar="NAME", help=words["case"])
    asked = parser.parse_args(arguments)
    if asked.list:
        print(listing())
        return 0
    if asked.json and not asked.json.parent.is_dir():
        parser.error(f"--json {asked.json}: there is no folder {asked.json.parent}")
    names = list(KNOWN) if "all" in asked.adapters else asked.adapters or OURS
    try:
        cases = chosen(asked.case)
        reports = [examine_known(name, cases) for name in names]
    except ValueError as error:
        parser.error(str(error))
    print(matrix(reports))
    if len(reports) == 1 or asked.case:
        print("\n".join(["", *(described(r) for one in reports for r in one.results if r.status in SHOWN)]))
    if asked.json:
        found = {"adapters": [one.as_dict() for one in reports]}
        asked.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return conclude(reports)


def conclude(reports):
    """Say whether one of ours fails, and return the exit status."""
    ours = [report for report in reports if report.name in OURS]
    failing = [report.name for report in ours if report.failures]
    if failing:
        print("\n" + say("conformance.something_failed", names=", ".join(failing)))
    elif ours:
        print("\n" + template("conformance.nothing_failed"))
    return int(bool(failing))


def listing():
    """Return the names of adapters and cases, each case with its rule."""
    lines = [*KNOWN, ""]
    for group, cases in GROUPS.items():
        lines.append(f"{group}: {template('conformance.groups')[group]}")
        lines += [f"  {case.name}: {case.rule}" for case in cases]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
