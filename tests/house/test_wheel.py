"""The wheel that a release carries holds everything the package reads, and works where only NumPy is."""

import subprocess
import sys
import zipfile
from pathlib import PurePosixPath

import pytest

from house.repository import ROOT, tracked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for path in tracked("mha", "pyproject.toml", "README.md", "LICENSE"):
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(pip, check=True)
    (built,) = folder.glob("mha-*-py3-none-any.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package(wheel):
    expected = {path.relative_to(ROOT).as_posix() for path in tracked("mha")}
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    assert files == expected


def test_the_wheel_works_with_numpy_alone(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
allowed = {{"mha", "numpy", *sys.stdlib_module_names}}
class NumPyAlone:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return self.finder.find_spec(name, *rest) if name.partition(".")[0] in allowed else None
sys.meta_path[:] = map(NumPyAlone, sys.meta_path)
import mha, numpy
from mha import attention, masks, which
assert mha.__file__.startswith({str(tmp_path)!r}), mha.__file__
x = numpy.ones((2, 3, 5))
print(attention(x, x, x, mask=masks.causal).shape, which(x, x, x))
"""
    shown = subprocess.run([sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("(2, 3, 5)")
