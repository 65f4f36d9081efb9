"""Build the book with every warning an error; all pages anew after a change to a file that they share."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "book" / "_build"
COMPLETE = BUILD / "complete"  # its time is when the last build without a warning began

# Without its traceback, which says no more than "there was an error", below the error itself.
JUPYTER_BOOK = "import sys; sys.tracebacklimit = 0; from jupyter_book.cli.main import main; main()"
COMMAND = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", "--path-output", "book"]
STRICT = ["-W", "-n", "--keep-going", "--quiet"]


def shared_inputs() -> Iterator[Path]:
    """Files that any page may depend on; Sphinx sees for itself which pages changed, but not these."""
    yield from (ROOT / name for name in ("_config.yml", "_toc.yml", "pyproject.toml", "requirements.lock"))
    for folder in ("book", "mha", "tests"):
        for path in (ROOT / folder).rglob("*"):
            hidden = BUILD in path.parents or "__pycache__" in path.parts
            if path.is_file() and not hidden and path.suffix not in {".md", ".ipynb"}:
                yield path


def needs_all_pages() -> bool:
    if not COMPLETE.exists():
        return True
    last = COMPLETE.stat().st_mtime
    return any(path.stat().st_mtime > last for path in shared_inputs())


def main() -> int:
    every = ["--all"] * needs_all_pages()
    # A failed build leaves pages that Sphinx would not read again: without the mark the next one reads them all.
    COMPLETE.unlink(missing_ok=True)
    started = time.time()
    built = subprocess.run([*COMMAND, *STRICT, *every], cwd=ROOT)
    if built.returncode == 0:
        COMPLETE.touch()
        os.utime(COMPLETE, (started, started))
        print("The book needs no server; with one: make serve")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
