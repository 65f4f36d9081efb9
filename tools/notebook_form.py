"""The one form in which a notebook is committed, so that the same content is the same bytes."""

import hashlib
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
KEPT_CELL_METADATA = ("mystnb", "tags")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"  # points at a model of the kernel that has ended


def read(path):
    return nbformat.read(path, as_version=4)


def write(path, notebook):
    Path(path).write_text(dumps(notebook), encoding="utf-8")


def dumps(notebook):
    """Return the text of the notebook in canonical form; a second time round changes nothing."""
    return nbformat.writes(canonical(notebook)).rstrip("\n") + "\n"


def canonical(notebook):
    cells = [_canonical_cell(cell) for cell in notebook.cells if cell.source.strip()]
    _name_by_content(cells)
    return nbformat.from_dict({"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def _canonical_cell(cell):
    kept = {key: cell.metadata[key] for key in KEPT_CELL_METADATA if cell.metadata.get(key)}
    canonical = {"cell_type": cell.cell_type, "metadata": kept, "source": cell.source.strip("\n").rstrip()}
    if cell.cell_type == "code":
        canonical |= {"execution_count": cell.execution_count, "outputs": _canonical_outputs(cell.outputs)}
    return canonical


def _canonical_outputs(outputs):
    merged = []
    for output in map(dict, outputs):
        if output["output_type"] == "stream":
            # The kernel cuts what is printed into messages by the clock.
            if merged and merged[-1].get("name") == output["name"]:
                merged[-1]["text"] += output["text"]
                continue
        elif "data" in output:
            without_view = {mime: shown for mime, shown in output["data"].items() if mime != WIDGET_VIEW}
            output["data"] = without_view if "text/html" in without_view else output["data"]
            output["metadata"] = {mime: entry for mime, entry in output["metadata"].items() if mime in output["data"]}
        merged.append(output)
    return merged


def _name_by_content(cells):
    taken = set()
    for cell in cells:
        name = digest = hashlib.sha256(f"{cell['cell_type']}\n{cell['source']}".encode()).hexdigest()[:8]
        repeat = 1
        while name in taken:
            repeat += 1
            name = f"{digest}-{repeat}"
        taken.add(name)
        cell["id"] = name
