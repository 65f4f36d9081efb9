"""Dependencies point one way: no floor imports another, and nothing below knows what stands on it."""

import ast
from pathlib import Path

import pytest

import mha.analysis
from house.repository import ROOT, tracked

GROUND = {
    "approximations",
    "integers",
    "masks",
    "options",
    "shapes",
    "text",
    "dropout",
    "cost",
    "random_matrices",
    "vocabulary",
}
FLOORS = {"reference", "nn", "kernels"}
BUILT = {"floors", "models", "analysis", "distributed", "conformance"}
PAGES = {"alt", "plot", "widgets", "exercises", "data", "book"}

# What each room may import of the package; `mha` itself loads everything lazily and is not a room.
MAY_IMPORT = (
    dict.fromkeys(GROUND | FLOORS, GROUND)
    | dict.fromkeys(BUILT, GROUND | FLOORS | BUILT)
    | dict.fromkeys(PAGES, GROUND | FLOORS | BUILT | PAGES)
)
NUMPY_ONLY = GROUND | {"reference", "analysis"}
WITH_MODELS = {f"mha.analysis.{name}" for name in mha.analysis._LATER.values()}  # loaded only when asked for
HEAVY = {"torch", "triton", "einops", "matplotlib", "anywidget", "datasets", "transformers", "jaxtyping", "beartype"}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "mha").with_suffix("").parts[0]


def imports(tree: ast.AST, module: str) -> set[str]:
    """The absolute names of all modules that a module's text imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level]
                base = ".".join([*parents, base] if base else parents)
            found |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    return found


def module_of(path: Path) -> str:
    name = path.relative_to(ROOT).with_suffix("")
    return ".".join(name.parts)


def rooms_imported(path: Path, text: str) -> set[str]:
    names = imports(ast.parse(text), module_of(path))
    rooms = {name.split(".")[1] for name in names if name.startswith("mha.")}
    return rooms & MAY_IMPORT.keys()


MODULES = [path for path in tracked("mha/*.py") if path != ROOT / "mha" / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_imports_point_one_way(path):
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} has no place in the house yet: give it one in MAY_IMPORT"
    wrong = rooms_imported(path, path.read_text("utf-8")) - MAY_IMPORT[room] - {room}
    assert not wrong, f"mha.{room} must not import mha.{', mha.'.join(sorted(wrong))}"


LIGHT = [path for path in MODULES if room_of(path) in NUMPY_ONLY and module_of(path) not in WITH_MODELS]


@pytest.mark.parametrize("path", LIGHT, ids=module_of)
def test_the_numpy_rooms_import_nothing_heavy(path):
    wrong = {name.split(".")[0] for name in imports(ast.parse(path.read_text("utf-8")), module_of(path))} & HEAVY
    assert not wrong, f"{module_of(path)} imports {sorted(wrong)}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nn/heads.py", "from mha.reference import attention"),
        ("nn/heads.py", "from mha import reference"),
        ("nn/heads.py", "from ..reference.heads import split_heads"),
        ("nn/heads.py", "def later():\n    import mha.kernels.dot_product"),
        ("masks/base.py", "from .. import nn"),
        ("models/llama.py", "from mha.plot import weights"),
    ],
)
def test_a_wrong_direction_is_noticed(name, text):
    path = ROOT / "mha" / name
    assert rooms_imported(path, text) - MAY_IMPORT[room_of(path)] - {room_of(path)}
