import json
import os
import subprocess
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable

from mha.widgets import base


def plain(x):
    """Turn NumPy values inside a result into what JSON holds."""
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return x.tolist() if hasattr(x, "tolist") else x


@pytest.fixture
def run_node(tmp_path):
    """Return a function that runs widgets.test.mjs on cases, after changing the JavaScript where a fault is planted."""

    def run(widgets, *, moves=None, fault=None):
        cases = [
            {
                "kind": widget.kind(),
                "state": {key: getattr(widget, key) for key in widget.trait_names(setting=True)},
                "compute": plain(widget.compute()),
                "sentence": widget.sentence(),
                "alt": widget.alt(),
                "picture": widget.picture(),
                "moves": moves or {},
            }
            for widget in widgets
        ]
        for path in base.HERE.glob("*.js"):
            source = path.read_text(encoding="utf-8")
            if fault and fault[0] == path.name:
                assert source.count(fault[1]) == 1, f"the fault is planted nowhere: {fault[1]}"
                source = source.replace(fault[1], fault[2])
            (tmp_path / path.name).write_text(source, encoding="utf-8")
        (tmp_path / "package.json").write_text('{"type": "module"}')
        (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
        test = tmp_path / "widgets.test.mjs"
        test.write_text(Path(__file__).with_name("widgets.test.mjs").read_text(encoding="utf-8"), encoding="utf-8")
        node = compute_driver_executable()[0]
        command = [node, "--test", "--test-reporter=tap", str(test)]
        result = subprocess.run(
            command, cwd=tmp_path, capture_output=True, encoding="utf-8", env=os.environ, timeout=60
        )
        return result.returncode == 0, result.stdout + result.stderr

    return run
