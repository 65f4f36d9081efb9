"""Build the book with every warning an error, and say where it is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "book" / "_build"
COMPLETE = BUILD / "complete"  # the time of the last build without a warning

# Without its traceback, which says no more than "there was an error", below the error itself.
JUPYTER_BOOK = "import sys; sys.tracebacklimit = 0; from jupyter_book.cli.main import main; main()"
COMMAND = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", "--path-output", "book", "-W", "-n", "--keep-going"]


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
    command = COMMAND + ["--all"] * needs_all_pages()
    # A failed build leaves pages that Sphinx would not read again: without the mark the next one reads them all.
    COMPLETE.unlink(missing_ok=True)
    built = subprocess.run(command, cwd=ROOT)
    if built.returncode:
        return built.returncode
    COMPLETE.touch()
    index = BUILD / "html" / "index.html"
    print(
        f"\nThe book is in {index.relative_to(ROOT)}: open it in any browser, it needs no server:\n  {index.as_uri()}"
    )
    print("Or: make serve")
    return 0


if __name__ == "__main__":
    sys.exit(main())
