"""Write a result file that says how it came about: command, date, commit, versions, processor, raw samples."""

import datetime
import json
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "mha/data/results"


def provenance(packages=("numpy", "torch")):
    """Return what a reader needs to judge and repeat a measurement, without naming the machine."""
    return {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "processor": processor(),
    }


def commit():
    """Return the commit of the checkout; nothing where there is none."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def processor():
    """Return the model name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def save(name, result, *, note=""):
    """Write `mha/data/results/<name>.json`, where `mha.data.result` finds it."""
    write(name, {"provenance": provenance(), "note": note, **result})


def write(name, content, path=None):
    """Write what was measured, provenance and all; to the file at `path` if there is one."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (path or RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
