"""The triangle: a labelled equation, the functions that compute it and the tests that hold them, linked both ways.

A function says what it computes in its docstring ("Book: {eq}`label`"). The package is read as text,
so that the links need no import. An equation without a function, a function without a test and a
label that no page carries are warnings.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from mha.text import say

log = logging.getLogger(__name__)

BOOK = re.compile(r"\{eq\}`([\w-]+)`")
Functions = dict[str, list["Code"]]


class Code(NamedTuple):
    name: str
    test: str


def public_name(root: Path, path: Path, name: str) -> str:
    """The shortest import path: a floor, or a folder of it, that re-exports a function hides what it is written in."""
    *folders, stem = path.relative_to(root).with_suffix("").parts
    inner = [] if stem == "__init__" else [stem]
    word, outermost = re.compile(rf"\b{name.partition('.')[0]}\b"), min(len(folders), 2)
    for depth in range(len(folders), outermost - 1, -1):
        door = root.joinpath(*folders[:depth], "__init__.py")
        if not (door.exists() and word.search(door.read_text())):
            break
        folders, inner = folders[:depth], []
    return ".".join([*folders, *inner, name])


def floor_order(path: Path) -> tuple[int, Path]:
    """What an equation means comes first, then what it is used for."""
    floors = ("reference", "nn", "kernels")
    return min((n for n, floor in enumerate(floors) if floor in path.parts), default=len(floors)), path


def cited(path: Path) -> Iterator[tuple[str, str]]:
    """Every (name, equation label) that the docstrings of a file announce, methods included."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from ((node.name, label) for label in BOOK.findall(ast.get_docstring(node) or ""))
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    labels = BOOK.findall(ast.get_docstring(method) or "")
                    yield from ((f"{node.name}.{method.name}", label) for label in labels)


def find_test(root: Path, path: Path, name: str) -> Path | None:
    """The test file that mirrors `path` if it speaks of `name`, else the one beside it that does so most.

    A folder that has no mirror of its own is tested beside the mirror of the folder around it.
    """
    mirror = root / "tests" / path.relative_to(root / "mha").with_name(f"test_{path.name}")
    while not mirror.parent.exists():
        mirror = mirror.parent.with_name(mirror.name)
    word = re.compile(rf"\b{name.rpartition('.')[2]}\b")
    beside = sorted(mirror.parent.glob("test_*.py"))
    mentions = {test: len(word.findall(test.read_text())) for test in beside}
    if mentions.get(mirror):
        return mirror
    return max(beside, key=mentions.__getitem__) if any(mentions.values()) else None


def read_package(root: Path) -> Functions:
    functions: Functions = {}
    for path in sorted(root.glob("mha/**/*.py"), key=floor_order):
        for name, label in cited(path):
            test = find_test(root, path, name)
            if test is None:
                log.warning("no test of %s, which is in %s", name, path.relative_to(root), type="book")
            link = str(test.relative_to(root)) if test else ""
            functions.setdefault(label, []).append(Code(public_name(root, path, name), link))
    return functions


def outdated(app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set) -> set[str]:
    """Read every page again when a docstring has changed its equation."""
    before, env.book_code = getattr(env, "book_code", None), read_package(Path(app.srcdir))
    return set() if before in (None, env.book_code) else env.found_docs


class LinkEquations(SphinxPostTransform):
    """Put "in code: mha.reference.attention (test)" under each equation."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: object) -> None:
        for equation in list(self.document.findall(nodes.math_block)):
            line = nodes.paragraph(classes=["in-code"])
            for code in self.env.book_code.get(equation.get("label"), []):
                line += nodes.Text("\u00a0· " if line.children else say("site.triangle.code") + " ")
                line += pending_xref(
                    "",
                    nodes.literal("", code.name),
                    refdoc=self.env.docname,
                    refdomain="py",
                    reftype="obj",
                    reftarget=code.name,
                    refwarn=True,
                )
                if code.test:
                    line += [nodes.Text(" ("), self.link_to(code.test), nodes.Text(")")]
            if line.children:
                equation.parent.insert(equation.parent.index(equation) + 1, line)

    def link_to(self, test: str) -> nodes.Node:
        """Link to the repository where there is one, else to the copy that the site carries; print has neither."""
        word = nodes.Text(say("site.triangle.test"))
        if self.config.repository:
            return nodes.reference("", "", word, refuri=f"{self.config.repository}/blob/main/{test}", internal=False)
        if self.app.builder.name == "html":
            up = "../" * self.env.docname.count("/")
            return nodes.reference("", "", word, refuri=f"{up}_static/{test}.txt", internal=True)
        return nodes.inline("", "", word)


def copy_tests(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    for test in {code.test for codes in app.env.book_code.values() for code in codes if code.test}:
        source, target = Path(app.srcdir, test), Path(app.outdir, "_static", f"{test}.txt")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())


def link_back(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """The API page is reStructuredText: turn the docstring's MyST role into its twin."""
    lines[:] = [BOOK.sub(r":eq:`\1`", line) for line in lines]


def warn_orphans(app: Sphinx, env: BuildEnvironment) -> None:
    equations = env.get_domain("math").equations
    for label in sorted(equations.keys() - env.book_code.keys() - set(app.config.equations_without_code)):
        log.warning("no function computes equation %r", label, location=equations[label][0], type="book")
    for label in sorted(env.book_code.keys() - equations.keys()):
        names = ", ".join(code.name for code in env.book_code[label])
        log.warning("%s: no page has equation %r", names, label, type="book")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("repository")
    app.setup_extension("sphinx.ext.autodoc")
    app.add_config_value("equations_without_code", [], "env")
    app.add_post_transform(LinkEquations)
    app.connect("env-get-outdated", outdated)
    app.connect("autodoc-process-docstring", link_back)
    app.connect("env-check-consistency", warn_orphans)
    app.connect("build-finished", copy_tests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
