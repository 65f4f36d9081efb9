"""The API page is built without torch and triton: the package must import with what the page mocks."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
MODELS = "models", "models.huggingface", "models.decoding", "models.train", "models.ibm1"
ROOMS = "mha.nn", "mha.kernels", "mha.analysis", "mha.conformance", *(f"mha.{name}" for name in MODELS)


def test_every_room_of_the_page_imports_without_torch():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    mocked = config["sphinx"]["config"]["autodoc_mock_imports"]
    assert "torch" in mocked
    lines = [
        "import importlib",
        "from sphinx.ext.autodoc.mock import mock",
        f"with mock({mocked!r}):",
        f"    for room in map(importlib.import_module, {ROOMS!r}):",
        "        [getattr(room, name) for name in getattr(room, '__all__', ())]",  # some are loaded when they are used
    ]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
