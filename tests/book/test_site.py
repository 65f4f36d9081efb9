"""The extensions of the site, each with the fault that it is there to notice, and the site itself once it is built."""

import itertools
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SITE = ROOT / "book/_build/html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
CHAPTERS = {
    Path(entry["file"]).name for part in TOC["parts"] for entry in part["chapters"] if "notebooks/" in entry["file"]
}
COVERAGE = yaml.safe_load((ROOT / "book/coverage.yml").read_text())

IMAGE = '<img alt="a head that looks back" src="data:image/svg+xml,x">'


def raw(text):
    return f"\n```{{raw}} html\n{text}\n```\n"


def figure(image=IMAGE, kind="mha-figure", data=""):
    caption = "<figcaption>One &amp; only.</figcaption>"
    return raw(f'<figure class="{kind}" data-name="fig-one"{data}>{image}{caption}</figure>')


# Figures


@pytest.mark.parametrize(("kind", "data"), [("mha-figure", ""), ("mha-widget", ' data-widget="heads" data-state="{}"')])
def test_a_printed_figure_is_numbered(build, kind, data):
    built = build({"index.md": "# One\n\nSee {numref}`fig-one`.\n" + figure(kind=kind, data=data)}, ["figures"])
    assert not built.warnings
    page = built.pages["index"]
    assert re.search(r'href="#fig-one"><span class="std std-numref">Fig\. 1<', page)
    assert f'<div class="{kind}-body"{data}>{IMAGE}</div>' in page
    assert "One &amp; only." in page


@pytest.mark.parametrize(
    "image", ['<img src="x.png">', '<img alt="" src="x">', '<img alt="notebooks/plot_3.png" src="x">']
)
def test_a_picture_without_words_warns(build, image):
    assert "a picture needs an alt text" in build({"index.md": "# One\n" + figure(image)}, ["figures"]).warnings


# What is bundled


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book/_ext")


@pytest.fixture
def bundle():
    import bundle

    return bundle


@pytest.fixture
def book_fixes():
    import book_fixes

    return book_fixes


def test_every_part_is_the_file_we_know(bundle):
    assert all(bundle.read(part) for part in bundle.PARTS)


def test_a_changed_file_is_refused(bundle):
    part = bundle.PARTS[0]._replace(sha256="0" * 64)
    with pytest.raises(Exception, match=r"is not the file we know: expected 0000.*, got a4354ff9"):
        bundle.read(part)


def test_a_missing_package_names_its_cure(bundle):
    part = bundle.PARTS[0]._replace(package="no-such-package")
    with pytest.raises(Exception, match=r'the book needs no-such-package: pip install "mha\[book\]"'):
        bundle.read(part)


def test_parts_are_copied_with_their_licence(build, tmp_path, bundle):
    build({"index.md": "# One\n"}, ["bundle"])
    copied = {str(path.relative_to(tmp_path / "out/_static")) for path in (tmp_path / "out/_static").rglob("*.*")}
    assert {part.target for part in bundle.PARTS} <= copied
    assert (ROOT / "book/assets/licences/MathJax.txt").read_text().lstrip().startswith("Apache License")


# Buttons from one constant


@pytest.mark.parametrize("address", ["", "https://github.com/someone/book"])
def test_buttons_follow_the_constant(tmp_path, address):
    import repository

    (tmp_path / "pyproject.toml").write_text(f'[tool.mha]\nRepository = "{address}"\n')
    config = SimpleNamespace(html_theme_options={})
    repository.add_buttons(SimpleNamespace(srcdir=tmp_path), config)
    assert config.repository == address
    assert bool(config.html_theme_options) == bool(address)
    if address:
        assert config.html_theme_options["repository_url"] == address
        assert {"binderhub_url", "colab_url"} <= config.html_theme_options["launch_buttons"].keys()


def test_the_book_types_no_address():
    assert "url" not in CONFIG.get("repository", {})
    assert "launch_buttons" not in CONFIG
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mha"].keys() >= {"Repository"}


# Names of the package


def test_names_link_to_their_entries(build):
    entry = "```{py:function} mha.text.say(name)\n```\n"
    built = build({"index.md": f"# One\n\nCall `mha.text.say`, not `mha.text.shout`.\n\n{entry}"}, ["package_links"])
    assert not built.warnings
    (sentence,) = re.findall(r"<p>Call .*?</p>", built.pages["index"], re.DOTALL)
    assert re.findall(r'href="([^"]*)"', sentence) == ["#mha.text.say"]
    assert re.findall(r'<span class="pre">(.*?)</span>', sentence) == ["mha.text.say", "mha.text.shout"]


def test_borrowed_members_are_not_documented(build):
    page = "# One\n\n```{eval-rst}\n.. automodule:: claim_boxes\n   :members:\n   :imported-members:\n```\n"
    built = build({"index.md": page}, ["sphinx.ext.autodoc", "own_members"])
    assert 'id="claim_boxes.inline"' in built.pages["index"]
    assert "SphinxTransform" not in re.findall(r'id="([^"]+)"', built.pages["index"])
    assert 'id="claim_boxes.Sphinx"' not in built.pages["index"]


# Repairs


def test_repeated_scripts_are_dropped(book_fixes):
    scripts = [SimpleNamespace(filename=None, attributes={"body": body}) for body in ("one", "two", "one")]
    context = {"script_files": scripts}
    book_fixes.drop_repeated_scripts(None, "page", "page.html", context, None)
    assert [script.attributes["body"] for script in context["script_files"]] == ["one", "two"]


def test_one_extension_does_not_hide_the_visitors_of_another(book_fixes):
    handlers = {"html": {"theorem": 1, "exercise": 2}, "singlehtml": {"exercise": 3}}
    book_fixes.share_html_visitors(SimpleNamespace(registry=SimpleNamespace(translation_handlers=handlers)))
    assert handlers["singlehtml"] == {"theorem": 1, "exercise": 3}


# Coverage


def test_a_gap_is_shown_as_a_gap(build):
    sections = (
        'A:\n  "1": {title: Here, chapter: one, label: here}\n  "2": {title: There, chapter: two, preview: here}\n'
    )
    page = "(here)=\n# One\n\n```{coverage-table} A\n```\n"
    built = build({"index.md": page, "book/coverage.yml": sections}, ["coverage_table"])
    assert not built.warnings
    here, there = re.findall(r"<tr.*?</tr>", built.pages["index"], re.DOTALL)[1:]
    assert 'href="#here"><span class="std std-ref">One<' in here
    assert "not yet: planned for the chapter two" in there
    assert 'href="#here"' in there


@pytest.mark.parametrize("document", COVERAGE)
def test_sections_are_numbered_without_a_gap(document):
    numbers = [tuple(map(int, number.split("."))) for number in COVERAGE[document]]
    for before, after in itertools.pairwise(numbers):
        steps = {(*before, 1), *((*before[:depth], before[depth] + 1) for depth in range(len(before)))}
        assert after in steps, f"{document}{after} cannot follow {before}"


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_a_written_chapter_has_the_sections_promised(chapter):
    path = ROOT / f"notebooks/{chapter}.ipynb"
    if not path.exists():
        pytest.skip(f"the chapter {chapter} is not written")
    entries = [entry for document in COVERAGE.values() for entry in document.values()]
    promised = {entry["label"] for entry in entries if entry["chapter"] == chapter and "label" in entry}
    missing = [label for label in sorted(promised) if f"({label})=" not in path.read_text()]
    assert not missing


def test_only_written_chapters_are_promised():
    entries = [entry for document in COVERAGE.values() for entry in document.values()]
    assert {entry["chapter"] for entry in entries if "label" in entry} <= CHAPTERS


# The configuration


def test_every_extension_is_in_use():
    files = {path.stem for path in (ROOT / "book/_ext").glob("*.py")}
    assert files == CONFIG["sphinx"]["local_extensions"].keys()


def test_nothing_is_executed_or_built_twice():
    assert CONFIG["execute"]["execute_notebooks"] == "off"
    assert "book/_build" in CONFIG["exclude_patterns"]


def test_the_landing_page_lists_each_chapter_once_and_in_order():
    listed = re.findall(r"^\| \{doc\}`/notebooks/(\w+)`", (ROOT / "book/index.md").read_text(), re.MULTILINE)
    entries = [entry["file"] for part in TOC["parts"] for entry in part["chapters"]]
    assert [f"notebooks/{chapter}" for chapter in listed] == [file for file in entries if file.startswith("notebooks/")]


def test_the_example_of_the_page_runs():
    example = re.search(r"```python\n(.*?)```", (ROOT / "book/how_to_use.md").read_text(), re.DOTALL)[1]
    *statements, call = example.strip().splitlines()
    names = {}
    exec("\n".join(statements), names)
    assert str(eval(call, names)) == call.partition("# ")[2]


# The built site


@pytest.fixture(scope="module")
def site():
    """Every page of the site by its name, the theme's own and the listings of code aside."""
    if not (SITE / "index.html").exists():
        pytest.skip("the book is not built: make book")
    paths = (path.relative_to(SITE) for path in SITE.rglob("*.html"))
    return {str(path): (SITE / path).read_text() for path in paths if path.parts[0] not in {"_static", "_modules"}}


@pytest.fixture(scope="module")
def pages(site):
    """The pages that somebody wrote."""
    return {name: text for name, text in site.items() if name.startswith(("book/", "notebooks/"))}


@pytest.mark.book
def test_every_page_of_the_contents_is_there(pages):
    entries = [TOC["root"], *(entry["file"] for part in TOC["parts"] for entry in part["chapters"])]
    assert {f"{entry}.html" for entry in entries} == pages.keys()


@pytest.mark.book
def test_every_picture_has_words(pages):
    bare = {
        name: images
        for name, text in pages.items()
        if (images := [tag for tag in re.findall(r"<img\b[^>]*>", text) if words(tag) < 4 and "logo" not in tag])
    }
    assert not bare


def words(image):
    alt = re.search(r'\balt="([^"]*)"', image)
    return len(alt[1].split()) if alt else 0


@pytest.mark.book
def test_no_page_asks_another_host(site):
    source = r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//'
    link = r'<link\b(?![^>]*rel="canonical")[^>]*\bhref="(?:https?:)?//'
    assert not [name for name, text in site.items() if re.search(f"{source}|{link}", text)]


@pytest.mark.book
def test_markdown_is_never_left_over(pages):
    code = re.compile(r"<(script|pre|code|dt) ?.*?</\1>", re.DOTALL)
    left = re.compile(r"\*\*\S|\{(?:eq|ref|numref|doc|cite:\w)\}`")
    assert not {name: found[0] for name, text in pages.items() if (found := left.search(code.sub("", text)))}
