"""The solutions that the chapters print are right, and each exercise stands in its chapter unanswered."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mha.exercises import check, registry
from mha.exercises.registry import CHAPTERS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SOLUTION = re.compile(r"^````\{solution\} (\S+)\n(.*?)^````$", re.M | re.S)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def cells(stem):
    path = NOTEBOOKS / f"{stem}.ipynb"
    if not path.exists():
        pytest.skip(f"NOT TESTED: {path.name} does not exist yet")
    return [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]


def solutions(markdown):
    """Map the id of each folded solution to the last thing that its code defines."""
    found = {}
    for id, body in SOLUTION.findall(markdown):
        names = {"np": np}
        exec("\n".join(PYTHON.findall(body)), names)
        found[id] = list(names.values())[-1]
    return found


def ids_of(stem):
    return [id for id in registry() if id.rpartition("-")[0] == stem.replace("_", "-")]


@pytest.mark.parametrize("stem", CHAPTERS)
def test_each_printed_solution_is_right(stem):
    printed = solutions("\n\n".join(source for kind, source in cells(stem) if kind == "markdown"))
    assert list(printed) == ids_of(stem)
    for id, answer in printed.items():
        assert check(id, answer), check(id, answer)


@pytest.mark.parametrize("stem", CHAPTERS)
def test_each_exercise_is_stated_once_and_checked_once(stem):
    text = cells(stem)
    stated = re.findall(r"^:label: (\S+-\d+)$", "\n".join(s for kind, s in text if kind == "markdown"), re.M)
    checked = re.findall(r'check\("(\S+)"', "\n".join(s for kind, s in text if kind == "code"))
    assert stated == checked == ids_of(stem)


def test_a_wrong_solution_is_noticed():
    found = solutions(
        "````{solution} heads-2\n:class: dropdown\n\n```python\ndef join(x):\n    return x.sum(1)\n```\n````\n"
    )
    assert list(found) == ["heads-2"]
    assert not check("heads-2", found["heads-2"])
