"""What `import mha` loads, and what it says when something optional is missing."""

import json
import subprocess
import sys

import pytest

import mha

HEAVY = {"torch", "matplotlib", "einops", "jaxtyping", "beartype", "triton", "anywidget", "datasets", "transformers"}


def modules_after(code):
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(answer.stdout.splitlines()[-1])}


def test_import_loads_nothing():
    assert not modules_after("import mha") & (HEAVY | {"numpy"})


def test_the_numpy_rooms_load_numpy_only():
    loaded = modules_after(
        "import mha, numpy as np\n"
        "x = np.ones((1, 2, 3, 4))\n"
        "mha.attention(x, x, x, mask=mha.masks.causal & mha.masks.lengths([2]))\n"
        "mha.which(x, x, x), mha.cost, mha.analysis.patterns, mha.dropout"
    )
    assert "numpy" in loaded
    assert not loaded & HEAVY


def test_every_public_name_is_there():
    for name in mha.__all__:
        assert getattr(mha, name) is not None
    assert set(mha.__all__) == set(dir(mha))
    with pytest.raises(AttributeError, match="no attribute 'attend'"):
        _ = mha.attend


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import mha; mha.nn"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr.splitlines()[-1] == "ImportError: mha.nn needs torch: install mha with the extra [torch]"
