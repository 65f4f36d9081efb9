"""Write requirements.lock: one exact version of every package that some extra needs.

A version stays as it is locked unless it is named: `make lock UPGRADE="numpy matplotlib"`, or `UPGRADE=all`.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = "# Written by `make lock`. Used as constraints: pip install -c requirements.lock -e '.[dev]'\n"
OLDEST = "3.11.0"  # some packages leave the first bugfix releases of a Python behind
CUDA = ("nvidia-", "cuda-")  # torch itself pins these, other ones for each CUDA


def kept(upgrade: set[str]) -> list[str]:
    if "all" in upgrade or not LOCK.exists():
        return []
    pins = [line for line in LOCK.read_text("utf-8").splitlines() if not line.startswith("#")]
    return [pin for pin in pins if Requirement(pin).name not in upgrade]


def resolve(constraints: list[str]) -> dict[str, str]:
    """What pip would install for every extra on an empty machine: {name: version}."""
    with tempfile.TemporaryDirectory() as folder:
        constraint, report = Path(folder, "constraints.txt"), Path(folder, "report.json")
        constraint.write_text("\n".join(constraints), "utf-8")
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed"]
        pip += ["--python-version", OLDEST, "--only-binary", ":all:"]
        subprocess.run([*pip, "-c", constraint, "--report", report, ".[all,conformance]"], cwd=ROOT, check=True)
        found = [item["metadata"] for item in json.loads(report.read_text("utf-8"))["install"]]
    # Version.public: torch 2.13.0+cpu here is torch 2.13.0 for everyone.
    return {canonicalize_name(item["name"]): Version(item["version"]).public for item in found}


def markers() -> dict[str, str]:
    """The platform marker of each package that an extra asks for on some platforms only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [Requirement(line) for extra in project["optional-dependencies"].values() for line in extra]
    return {canonicalize_name(one.name): f" ; {one.marker}" for one in asked if one.marker}


def main() -> None:
    versions = resolve(kept({canonicalize_name(name) for name in sys.argv[1:]}))
    marker = markers()
    pins = [
        f"{name}=={version}{marker.get(name, '')}\n"
        for name, version in sorted(versions.items())
        if name != "mha" and not name.startswith(CUDA)
    ]
    LOCK.write_text(HEADER + "".join(pins), "utf-8")
    print(f"{LOCK.name}: {len(pins)} packages")


if __name__ == "__main__":
    main()
