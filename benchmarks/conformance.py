"""What every known attention function does with every case.   make conformance

Each adapter runs in a process of its own. A package that is missing is an error here: the file holds measurements.
`python benchmarks/conformance.py ADAPTER …` measures these alone; the others keep what the file says of them.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from provenance import provenance, save, write

from mha.conformance.adapters import KNOWN, is_installed
from mha.data import result

THREADS = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


def measure(name):
    """Return the report of one adapter."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        command = [sys.executable, "-m", "mha.conformance", name, "--json", file]
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


if __name__ == "__main__":
    names = sys.argv[1:] or list(KNOWN)
    missing = [name for name in names if not is_installed(name)]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}; use make conformance")
    if sys.argv[1:]:
        measure_alone(names)
    else:
        reports = [measure(name) for name in names]
        save("conformance", {"adapters": reports}, note="CPU; every option at its default unless a case sets it")
