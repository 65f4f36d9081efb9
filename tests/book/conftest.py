"""Small books, built in a second each, in which one fault is planted."""

import warnings
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Built(NamedTuple):
    pages: dict[str, str]
    warnings: str


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Build a book from a mapping of file names to texts with some of our extensions; give its pages and warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    monkeypatch.syspath_prepend(ROOT / "book/_ext")

    def run(files, extensions, **config):
        source = tmp_path / "source"
        monkeypatch.syspath_prepend(source)
        for name, text in {"pyproject.toml": '[tool.mha]\nRepository = ""\n', **files}.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        messages = StringIO()
        settings = {
            "extensions": ["myst_parser", *extensions],
            "myst_enable_extensions": ["dollarmath"],
            "nitpicky": True,
            "numfig": True,
            "root_doc": "index",
            "html_theme": "basic",
            **config,
        }
        with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
            warnings.simplefilter("ignore")
            out = tmp_path / "out"
            Sphinx(source, None, out, tmp_path / "trees", "html", settings, None, messages, freshenv=True).build()
        pages = {path.stem: path.read_text() for path in out.glob("*.html")}
        return Built(pages, messages.getvalue())

    return run
