"""What every known attention function does with every case.   make conformance

Each adapter runs in a process of its own. A package that is missing is an error here: the file holds measurements.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from provenance import save

from mha.conformance.adapters import KNOWN, is_installed

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


if __name__ == "__main__":
    missing = [name for name in KNOWN if not is_installed(name)]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}; use make conformance")
    reports = [measure(name) for name in KNOWN]
    save("conformance", {"adapters": reports}, note="CPU; every option at its default unless a case sets it")
