"""Where kernels run, and who is told that they cannot."""

import os
import subprocess
import sys

import pytest
import torch

from mha.kernels.runtime import architecture, check_device, interpreted

COMPILING = """
import warnings
warnings.simplefilter("error")
import torch
{first}
from mha.kernels.runtime import check_device, interpreted
assert not interpreted()
try:
    check_device(q=torch.ones(1), bias=None)
except ValueError as error:
    print(error)
"""


def test_the_interpreter_takes_tensors_of_the_cpu():
    assert interpreted()
    check_device(q=torch.ones(1), k=torch.ones(1), bias=None)
    assert architecture(torch.device("cpu")) == 80


@pytest.mark.parametrize(
    "first", ["", "import triton, os; os.environ['TRITON_INTERPRET'] = '1'"], ids=["not chosen", "chosen too late"]
)
def test_without_the_interpreter_the_cpu_is_refused(first):
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    program = [sys.executable, "-c", COMPILING.format(first=first)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("q is on the CPU: kernels take CUDA tensors"), done
    assert "TRITON_INTERPRET=1 before triton is first imported" in done.stdout


def test_tensors_of_two_devices_are_refused():
    with pytest.raises(ValueError, match="k is on meta and q is on cpu: expected one device"):
        check_device(q=torch.ones(1), k=torch.ones(1, device="meta"))
    with pytest.raises(ValueError, match="q is on meta: expected CUDA tensors"):
        check_device(q=torch.ones(1, device="meta"))
