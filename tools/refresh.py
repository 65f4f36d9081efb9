"""Run the notebooks and write them in canonical form, with their first cell and the numbers in their prose.

A second run changes nothing. `--check` runs them too but writes nothing; it fails where a byte would change.
"""

import argparse
import sys
import time
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import first_cell
import numbers_in_prose
from notebook_form import ROOT, dumps, read, write


def execute(notebook, folder, *, timeout=300):
    """Run every cell in a fresh kernel and keep what it shows, without times or widget state."""
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        timeout=timeout,
    )
    client.execute()


def refresh(path, *, run=True):
    """Return the notebook at `path` with its first cell renewed and, unless `run` is false, executed."""
    notebook = read(path)
    first_cell.put(notebook, *first_cell.settings())
    if run:
        execute(notebook, Path(path).parent)
    return notebook


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stems", nargs="*", help="names of notebooks; all of them by default")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a byte would change")
    parser.add_argument("--no-run", action="store_true", help="renew the form, first cell and numbers only")
    options = parser.parse_args(arguments)

    paths = {path.stem: path for path in sorted((root / "notebooks").glob("*.ipynb"))}
    if unknown := set(options.stems) - paths.keys():
        parser.error(f"no notebook {sorted(unknown)}; there are {sorted(paths)}")
    changed = []
    for stem in options.stems or paths:
        start = time.perf_counter()
        try:
            notebook = refresh(paths[stem], run=not options.no_run)
        except CellExecutionError as error:
            sys.exit(f"{stem}: a cell failed\n{error}")
        print(f"{stem}: {time.perf_counter() - start:.1f} s", flush=True)
        if dumps(notebook) != paths[stem].read_text(encoding="utf-8"):
            changed.append(stem)
            if not options.check:
                write(paths[stem], notebook)
    faults = numbers_in_prose.refresh(root, check=options.check)
    if options.check and changed:
        faults.append(f"not as committed: {', '.join(changed)}; run make notebooks")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
