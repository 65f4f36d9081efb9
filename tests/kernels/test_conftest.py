"""The conditions under which kernels are tested hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

TESTS = Path(__file__).parents[1]


@triton.jit
def add(x, out, step):
    tl.store(out, tl.load(x) + step * step)


def test_an_int32_that_overflows_is_noticed():
    x, out = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    add[(1,)](x, out, 2**15)
    assert out.item() == 2**30 + 1
    with pytest.raises(Exception, match="int32 overflow detected"):
        add[(1,)](x, out, 2**16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_memory_that_nobody_wrote_is_nan(dtype):
    like = torch.ones(5, 3, dtype=dtype)
    for made in (torch.empty(7, dtype=dtype), torch.empty_like(like), like.new_empty(2), torch.empty_like(like.mT)):
        assert made.isnan().all()


def collected(interpret, place):
    """Return what pytest says when it collects here; of the other folders, none is looked into."""
    others = [f"--ignore={folder}" for folder in TESTS.iterdir() if folder.is_dir() and folder.name != "kernels"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-n", "0", *others, place]
    environment = os.environ | {"TRITON_INTERPRET": interpret}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    return found.stdout + found.stderr


def test_without_the_interpreter_these_tests_refuse():
    assert "TRITON_INTERPRET=1 python -m pytest tests/kernels" in collected("0", TESTS / "kernels")


@pytest.mark.parametrize("interpret", ["0", "1"], ids=["without", "with"])
def test_each_process_collects_its_own_tests(interpret):
    said = collected(interpret, TESTS)
    interpreted = interpret == "1"
    assert ("test_conftest.py" in said) is interpreted
    assert ("test_shapes.py" in said) is not interpreted
    assert ("kernels: not here" in said) is not interpreted
