"""The public names of `mha.models`, each loaded when it is first used."""

import subprocess
import sys

import pytest

from mha import models


def test_every_public_name_is_there():
    for name in models.__all__:
        assert getattr(models, name) is not None
    assert dir(models) == sorted(models.__all__)
    with pytest.raises(AttributeError, match=r"module 'mha\.models' has no attribute 'T5'"):
        _ = models.T5


def test_importing_loads_nothing():
    code = "import sys, mha.models; assert 'torch' not in sys.modules; mha.models.GPT; assert 'torch' in sys.modules"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
