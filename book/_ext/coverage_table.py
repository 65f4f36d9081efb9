"""Which chapter mirrors which section of the two source documents, gaps included."""

from pathlib import Path

import yaml
from docutils import nodes
from optional_links import optional_link
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from mha.text import say, template


class CoverageTable(SphinxDirective):
    """A table of one document: section, title, and the place in the book or the chapter that will hold it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir, "book/coverage.yml")
        self.env.note_dependency(str(path))
        document = yaml.safe_load(path.read_text())[self.arguments[0]]
        rows = [self.row(number, **entry) for number, entry in document.items()]
        header = nodes.thead("", self.cells(*([nodes.Text(word)] for word in template("site.coverage.header"))))
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (12, 48, 40)), header, cols=3)
        group += nodes.tbody("", *rows)
        return [nodes.table("", group, classes=["coverage"])]

    def row(self, number: str, title: str, chapter: str, label: str = "", preview: str = "") -> nodes.row:
        words = nodes.inline("", say("site.coverage.not_yet", chapter=chapter), classes=["not-yet"])
        place = [self.link_to(label, words) if label else words]
        if preview:
            glimpse = self.link_to(preview, nodes.inline("", "–"))
            place += [nodes.Text(f" ({say('site.coverage.preview')} "), glimpse, nodes.Text(")")]
        return self.cells([nodes.Text(number)], [nodes.Text(title)], place)

    def link_to(self, label: str, words: nodes.Node) -> nodes.Node:
        return optional_link(self.env.docname, "std", "ref", label, words, use_title=True)

    def cells(self, *contents: list[nodes.Node]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *content)) for content in contents))


def write_again(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """The place of a label is known when all pages are read, so write the page of the table each time."""
    return [page for page in ("book/coverage", "book/claims") if page in env.found_docs]


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("optional_links")
    app.add_directive("coverage-table", CoverageTable)
    app.connect("env-updated", write_again)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
