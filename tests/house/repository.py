"""What the house tests read: the files git tracks, and the project's own table."""

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def tracked(*patterns: str) -> list[Path]:
    """Tracked files that exist, those matching any of the git patterns if some are given."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True).stdout
    return [path for path in (ROOT / name for name in listed.decode().split("\0") if name) if path.is_file()]


def texts() -> dict[str, str]:
    """Every tracked file that is text, by its name from the root."""
    found = {}
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data:
            found[path.relative_to(ROOT).as_posix()] = data.decode("utf-8")
    return found
