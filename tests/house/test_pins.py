"""pyproject.toml gives bounds, requirements.lock one version of each package, environment.yml defers to the lock."""

from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from house.repository import PYPROJECT, ROOT

PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
ENVIRONMENT = (ROOT / "environment.yml").read_text("utf-8")


def bounds() -> list[Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
    return [asked for asked in map(Requirement, lines) if asked.name != PROJECT["name"]]


def pins(lock: str) -> list[Requirement]:
    return [Requirement(line) for line in lock.splitlines() if not line.startswith("#")]


def version(pin: Requirement) -> str:
    (only,) = pin.specifier
    return only.version


def lock_faults(lock: str) -> list[str]:
    """Where the lock is not exact, not sorted, or leaves a requirement of pyproject.toml open."""
    found = []
    names = [canonicalize_name(pin.name) for pin in pins(lock)]
    if names != sorted(set(names)):
        found.append("the lock is not sorted, or names a package twice")
    for pin in pins(lock):
        if [one.operator for one in pin.specifier] != ["=="] or "+" in str(pin.specifier):
            found.append(f"the lock says {pin}: expected one public version")
    locked = {canonicalize_name(pin.name): pin for pin in pins(lock)}
    for asked in bounds():
        pin = locked.get(canonicalize_name(asked.name))
        if pin is None:
            found.append(f"the lock misses {asked}")
        elif not asked.specifier.contains(version(pin), prereleases=True):
            found.append(f"the lock says {pin}, pyproject.toml {asked}")
        elif str(pin.marker) != str(asked.marker):
            found.append(f"the lock gives {pin.name} the marker {pin.marker}, pyproject.toml {asked.marker}")
    return found


def environment_faults(environment: str) -> list[str]:
    """Where environment.yml does not follow the lock, or names a version that is not the locked one."""
    read = yaml.safe_load(environment)
    conda = [line for line in read["dependencies"] if isinstance(line, str)]
    (pip,) = (entry["pip"] for entry in read["dependencies"] if isinstance(entry, dict))
    found = []
    if read["name"] != PROJECT["name"]:
        found.append(f"the environment is named {read['name']}")
    for line in ("-c requirements.lock", "-e .[all]"):
        if line not in pip:
            found.append(f"environment.yml does not say {line}")

    locked = {canonicalize_name(pin.name): pin for pin in pins(LOCK)}
    for line in [*conda, *pip]:
        if line.startswith("-"):
            continue
        # conda writes numpy=2.4, which means 2.4.*
        asked = Requirement(line if "==" in line or "=" not in line else line.replace("=", "==") + ".*")
        if asked.name == "python":
            python = next(iter(asked.specifier)).version.removesuffix(".*")
            if python not in SpecifierSet(PROJECT["requires-python"]):
                found.append(f"environment.yml says {line}, pyproject.toml python {PROJECT['requires-python']}")
        elif asked.name != "pip":
            pin = locked.get(canonicalize_name(asked.name))
            if pin is None or version(pin) not in asked.specifier:
                found.append(f"environment.yml says {line}, the lock {pin}")
    return found


def test_the_lock_follows_pyproject():
    assert lock_faults(LOCK) == []


def test_the_environment_follows_the_lock():
    assert environment_faults(ENVIRONMENT) == []


def test_the_torch_pin_has_its_triton():
    locked = {pin.name: version(pin) for pin in pins(LOCK)}
    assert (locked["torch"], locked["triton"]) == ("2.13.0", "3.7.1"), "triton is the one that this torch asks for"


def test_the_lock_serves_the_oldest_python():
    """Some packages leave the first bugfix releases of a Python behind, and distributions stay on those."""
    oldest = f"{next(iter(SpecifierSet(PROJECT['requires-python']))).version}.0"
    asked = {one.name: one.metadata["Requires-Python"] for one in metadata.distributions()}
    locked = {canonicalize_name(pin.name) for pin in pins(LOCK)}
    too_new = {
        name: python
        for name, python in asked.items()
        if canonicalize_name(name) in locked and python and oldest not in SpecifierSet(python)
    }
    assert too_new == {}


def test_the_package_gives_bounds_and_never_pins():
    assert [str(asked) for asked in bounds() if {"==", "==="} & {one.operator for one in asked.specifier}] == []


def test_importing_needs_numpy_only():
    assert [Requirement(line).name for line in PROJECT["dependencies"]] == ["numpy"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("numpy==", "numpy==1."),
        ("jupyter-book==1.0.4.post1", "jupyter-book==2.1.7"),
        ("torch==2.13.0", "torch==2.13.0+cpu"),
        ("torch==2.13.0", "torch>=2.13.0"),
        ('triton==3.7.1 ; sys_platform == "linux"', "triton==3.7.1"),
        ("ruff==", "rufus=="),
    ],
)
def test_a_wrong_lock_is_noticed(old, new):
    assert LOCK.count(f"\n{old}") == 1
    assert lock_faults(LOCK.replace(f"\n{old}", f"\n{new}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- -e .[all]", "- -e .[all]\n      - numpy==2.4.5"),
        ("- pip\n", "- pip\n  - numpy=2.3\n"),
        ("- pip\n", "- pip\n  - a-package-without-a-pin=1.0\n"),
        ("python=3.11", "python=3.10"),
        ("-c requirements.lock", "-c requirements.txt"),
        ("name: mha", "name: attention"),
    ],
)
def test_a_wrong_environment_is_noticed(old, new):
    assert ENVIRONMENT.count(old) == 1
    assert environment_faults(ENVIRONMENT.replace(old, new))
