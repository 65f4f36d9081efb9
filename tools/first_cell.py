"""The first code cell of every notebook: it makes `mha` importable where the notebook runs and says which it found."""

import tomllib

import nbformat

from notebook_form import ROOT

OPENING = "# The package of this book, and which version of it was found."
EXTRAS = "widgets,train"

ON_COLAB = """\
import sys

if "google.colab" in sys.modules:
    %pip install --quiet "mha[{extras}] @ git+{repository}@v{version}"

"""

IMPORT = """\
try:
    import mha
except ModuleNotFoundError as missing:
    hint = "run `make lab`, or pip install '.[dev]', in the folder of the book"
    raise ModuleNotFoundError(hint) from missing

print(f"mha {mha.__version__}")"""


def settings():
    """Return the repository and the version that pyproject.toml names."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return pyproject["tool"]["mha"]["Repository"], pyproject["project"]["version"]


def source(repository, version):
    """Return the code of the cell; without a repository it installs nothing."""
    install = ON_COLAB.format(extras=EXTRAS, repository=repository, version=version) if repository else ""
    return f"{OPENING}\n{install}{IMPORT}"


def put(notebook, repository, version):
    """Write the cell into the notebook: in place of an older one, else behind the title."""
    text = source(repository, version)
    first = next((cell for cell in notebook.cells if cell.cell_type == "code"), None)
    if first is not None and first.source.startswith(OPENING):
        first.source = text
    else:
        notebook.cells.insert(1, nbformat.v4.new_code_cell(text, metadata={"tags": ["hide-cell"]}))
