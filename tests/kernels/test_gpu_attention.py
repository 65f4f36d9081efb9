"""The script for a GPU goes from end to end, with small sizes: what it measures here means nothing."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks/gpu_attention.py"


def test_the_script_goes_through_all_its_sections(tmp_path):
    out = tmp_path / "result.json"
    command = [sys.executable, SCRIPT, "--tiny", "--out", out, "--minutes", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text("utf-8"))
    assert result["left_out"] == []
    assert result["provenance"]["versions"].keys() == {"numpy", "torch", "triton"}
    sections = {name: rows for name, rows in result.items() if name in result["seconds"]}
    assert [row["error"] for rows in sections.values() for row in rows if "error" in row] == []
    assert [name for name, rows in sections.items() if not rows] == ["flex"], "which needs a compiler"
    assert all(row["ok"] for row in result["correctness"])
    assert [row["ok"] for row in result["decoding"] if "ok" in row] == [True] * 4
    assert [row["ok"] for row in result["linear"] if "ok" in row] == [True]
    assert all(row["same_bits"] for row in result["repeats"])
    assert all(times["ms"] for row in result["lengths"] for times in (row["forward"], row["backward"]))
