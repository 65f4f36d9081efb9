"""What no tracked file says: a path of one machine, a registry's host, the project's address outside its constant."""

import re

import pytest

from house.repository import PYPROJECT, texts

# Put together here, so that this file does not name what it forbids.
HOSTS = [("pypi", "org"), ("python" + "hosted", "org"), ("registry", "npmjs"), ("deb", "debian")]
FOLDERS = ["work", "home", "root", "Users"]
MACHINE = re.compile(
    "|".join([*(re.escape(".".join(host)) for host in HOSTS), rf"(?<![\w.])/(?:{'|'.join(FOLDERS)})/\w"])
)
BUTTONS = re.compile(r"mybinder\.org/v2/|colab\.research\.google\.com/github/\w")

TEXTS = texts()


def lines_with(pattern: re.Pattern[str], text: str) -> list[str]:
    return [line.strip()[:100] for line in text.splitlines() if pattern.search(line)]


def test_no_file_names_a_machine_or_a_registry():
    assert {name: lines for name, text in TEXTS.items() if (lines := lines_with(MACHINE, text))} == {}


def test_the_repository_is_named_by_one_constant():
    address = PYPROJECT["tool"]["mha"]["Repository"]
    # The refresh tool writes the constant into first cells, and a citation must carry it.
    elsewhere = {name: text for name, text in TEXTS.items() if not name.startswith(("notebooks/", "pyproject.toml"))}
    assert [name for name, text in elsewhere.items() if address and address in text and name != "CITATION.cff"] == []
    assert [name for name, text in elsewhere.items() if lines_with(BUTTONS, text)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_machine_path_is_noticed(folder):
    assert lines_with(MACHINE, f"see /{folder}/main/x")


@pytest.mark.parametrize("host", HOSTS)
def test_a_registry_is_noticed(host):
    assert lines_with(MACHINE, f"from https://{'.'.join(host)}/project")


@pytest.mark.parametrize("line", ["tests/work/x", "a /work-around", "https://example.org/home/x", "and/or"])
def test_a_harmless_line_passes(line):
    assert not lines_with(MACHINE, line)
