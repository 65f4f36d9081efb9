"""What every known attention function does with every case.   make conformance

Each adapter runs in a process of its own. A package that is missing is an error here: the file holds measurements.
`python benchmarks/conformance.py ADAPTER …` measures these alone; the others keep what the file says of them.
With `--case NAME`, a case or a group, once or more, only these are measured anew.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from provenance import provenance, save, write

from mha.conformance import CASES
from mha.conformance.adapters import KNOWN, is_installed
from mha.conformance.report import STATUSES
from mha.data import result

THREADS = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


def measure(name, cases=()):
    """Return the report of one adapter, on all cases unless some are named."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        command = [sys.executable, "-m", "mha.conformance", name, "--json", file]
        command += [word for case in cases for word in ("--case", case)]
        subprocess.run(command, stdout=subprocess.DEVNULL, env=os.environ | THREADS, check=False)
        (report,) = json.loads(file.read_text("utf-8"))["adapters"]
    print(name, report["counts"], flush=True)
    return report


def measure_alone(names):
    """Put these adapters into the committed file, each with its own provenance."""
    committed = result("conformance")
    rows = {report["name"]: report for report in committed["adapters"]}
    rows |= {name: measure(name) | {"provenance": provenance()} for name in names}
    committed["adapters"] = [rows[name] for name in KNOWN]
    write("conformance", committed)


def measure_cases(names, cases):
    """Put the results of these cases into the committed file, in the order of the kit."""
    committed = result("conformance")
    for row in committed["adapters"]:
        if row["name"] not in names:
            continue
        found = measure(row["name"], cases)
        results = row["results"] | found["results"]
        row["results"] = {name: results[name] for name in CASES if name in results}
        kept = [one for one in row["differences"] if one["case"] not in found["results"]]
        row["differences"] = kept + found["differences"]
        statuses = list(row["results"].values())
        row["counts"] = {status: statuses.count(status) for status in STATUSES if status in statuses}
        row["passed"] = "fails" not in statuses and "holds" in statuses
    committed["cases_measured_later"] = [
        *committed.get("cases_measured_later", []),
        provenance() | {"adapters": names, "cases": cases},
    ]
    write("conformance", committed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("adapters", nargs="*")
    parser.add_argument("--case", action="append", default=[])
    asked = parser.parse_args()
    names = asked.adapters or list(KNOWN)
    missing = [name for name in names if not is_installed(name)]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}; use make conformance")
    if asked.case:
        measure_cases(names, asked.case)
    elif asked.adapters:
        measure_alone(names)
    else:
        reports = [measure(name) for name in names]
        save("conformance", {"adapters": reports}, note="CPU; every option at its default unless a case sets it")
