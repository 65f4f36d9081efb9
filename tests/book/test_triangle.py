"""Equation, function and test are linked both ways, and an orphan is a warning."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = "# Means\n\n$$\nm = 1\n$$ (mean)\n\n```{py:function} mha.floor.mean(x)\nSee {eq}`mean`.\n```\n"
MODULE = '"""A floor."""\n\n\ndef mean(x):\n    """Return the mean.   Book: {eq}`mean`."""\n    return x\n'
TEST = "from mha.floor import mean\n\n\ndef test_mean():\n    mean(1)\n"
BOOK = {"index.md": PAGE, "mha/floor.py": MODULE, "tests/test_floor.py": TEST}


def test_links_both_ways(build):
    built = build(BOOK, ["triangle"])
    assert not built.warnings
    page = built.pages["index"]
    line = re.search(r'<p class="in-code">.*?</p>', page, re.DOTALL)[0]
    assert 'href="#mha.floor.mean"' in line
    assert 'href="_static/tests/test_floor.py.txt"' in line
    assert 'href="#equation-mean"' in page


def test_the_site_carries_the_test(build, tmp_path):
    build(BOOK, ["triangle"])
    assert (tmp_path / "out/_static/tests/test_floor.py.txt").read_text() == TEST


def test_a_docstring_links_to_its_equation(build):
    documented = "\n```{eval-rst}\n.. autofunction:: colours.hue\n```\n"
    code = '"""Colours."""\n\n\ndef hue():\n    """Return it.   Book: {eq}`mean`."""\n'
    built = build(BOOK | {"index.md": PAGE + documented, "colours.py": code}, ["triangle"])
    assert not built.warnings
    (docstring,) = re.findall(r"<p>Return it.*?</p>", built.pages["index"])
    assert 'href="#equation-mean"' in docstring


def test_a_repository_takes_the_link(build):
    constant = '[tool.mha]\nRepository = "https://github.com/someone/book/"\n'
    built = build(BOOK | {"pyproject.toml": constant}, ["triangle"], html_theme_options={})
    assert 'href="https://github.com/someone/book/blob/main/tests/test_floor.py"' in built.pages["index"]


@pytest.mark.parametrize(
    ("fault", "warning"),
    [
        ({"index.md": PAGE + "\n$$\nx\n$$ (lonely)\n"}, "no function computes equation 'lonely'"),
        ({"mha/floor.py": MODULE.replace("`mean`.", "`mean`, {eq}`gone`.")}, "no page has equation 'gone'"),
        ({"tests/test_floor.py": TEST.replace("mean", "median")}, "no test of mean, which is in mha/floor.py"),
        ({"index.md": PAGE.replace("mha.floor.mean", "mha.floor.median")}, "target not found: mha.floor.mean"),
    ],
    ids=["orphan equation", "orphan function", "no test", "not in the API"],
)
def test_an_orphan_warns(build, fault, warning):
    assert warning in build(BOOK | fault, ["triangle"]).warnings


def test_an_equation_may_be_excused(build):
    orphan = BOOK | {"index.md": PAGE + "\n$$\nx\n$$ (lonely)\n"}
    assert not build(orphan, ["triangle"], equations_without_code=["lonely"]).warnings


def test_a_test_beside_the_mirror_counts(build):
    beside = BOOK | {"tests/test_floor.py": "", "tests/test_means.py": TEST, "tests/test_other.py": "# mean\n"}
    built = build(beside, ["triangle"])
    assert not built.warnings
    assert 'href="_static/tests/test_means.py.txt"' in built.pages["index"]


def test_public_name_hides_the_file(build, tmp_path, monkeypatch):
    from triangle import public_name

    floor = tmp_path / "mha/floor"
    floor.mkdir(parents=True)
    (floor / "__init__.py").write_text("from mha.floor.stem import shown\n")
    stem = floor / "stem.py"
    assert public_name(tmp_path, stem, "shown") == "mha.floor.shown"
    assert public_name(tmp_path, stem, "hidden") == "mha.floor.stem.hidden"
    assert public_name(tmp_path, floor / "__init__.py", "here") == "mha.floor.here"


def test_public_name_goes_up_to_the_floor(tmp_path):
    from triangle import public_name

    room = tmp_path / "mha/floor/room"
    room.mkdir(parents=True)
    for folder, names in ((room, "inner, shown"), (room.parent, "shown"), (room.parents[1], "shown")):
        (folder / "__init__.py").write_text(f"from somewhere import {names}\n")
    for path in (room / "stem.py", room / "__init__.py"):
        assert public_name(tmp_path, path, "shown") == "mha.floor.shown", "what all of mha re-exports is of that floor"
        assert public_name(tmp_path, path, "inner") == "mha.floor.room.inner"
    assert public_name(tmp_path, room / "stem.py", "hidden") == "mha.floor.room.stem.hidden"
    assert public_name(tmp_path, room.parents[1] / "alone.py", "shown") == "mha.shown"


def test_a_folder_without_a_mirror_is_tested_beside_the_one_around_it(build):
    inside = {"mha/floor/__init__.py": "", "mha/floor/room/__init__.py": MODULE, "tests/floor/test_all.py": TEST}
    page = PAGE.replace("mha.floor.mean", "mha.floor.room.mean")
    built = build({"index.md": page} | inside, ["triangle"])
    assert not built.warnings
    assert 'href="_static/tests/floor/test_all.py.txt"' in built.pages["index"]


def test_methods_are_read(build, tmp_path):
    from triangle import cited

    path = tmp_path / "heads.py"
    path.write_text(
        'class Heads:\n    """Book: {eq}`multi`."""\n\n    def one(self):\n        """Book: {eq}`single`."""\n'
    )
    assert list(cited(path)) == [("Heads", "multi"), ("Heads.one", "single")]


def test_equation_labels_are_not_typed_twice():
    """A label belongs to one equation of one page."""
    labels = [
        label
        for path in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.md")]
        for label in re.findall(r"\$\$ \(([\w-]+)\)", path.read_text())
    ]
    assert len(labels) == len(set(labels))
