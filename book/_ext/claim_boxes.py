"""Claims of the source documents: the box in a chapter, and the ledger that lists them all.

A record of `book/claims.yml` holds the words; a cell ending in `claim(id, measured)` prints the number.
The box joins the two, and a number that differs from its record is a warning.
"""

import html
import re
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from optional_links import optional_link
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from mha.text import say, template

log = logging.getLogger(__name__)

Record = dict[str, Any]
PRINTED = re.compile(r'<aside class="mha-claim" data-claim="(?P<id>[\w-]+)">.*?<b>(?P<measured>.*?)</b>', re.DOTALL)
INLINE = re.compile(r"\$(?P<dollar>[^$]+)\$|\\\((?P<paren>.+?)\\\)|`(?P<code>[^`]+)`")


def read_claims(root: Path) -> dict[str, Record]:
    return {record["id"]: record for record in yaml.safe_load((root / "book/claims.yml").read_text())}


def inline(text: str) -> list[nodes.Node]:
    """Words with `$maths$` and `code`, which is all that a record may hold."""
    parts, end = [], 0
    for found in INLINE.finditer(text):
        parts.append(nodes.Text(text[end : found.start()]))
        maths = found["dollar"] or found["paren"]
        parts.append(nodes.math("", maths) if maths else nodes.literal("", found["code"]))
        end = found.end()
    return [*parts, nodes.Text(text[end:])]


def paragraph(text: str, place: nodes.Node, *classes: str) -> nodes.paragraph:
    """A paragraph that can be translated, which needs a source and a line."""
    node = nodes.paragraph(text, "", *inline(text), classes=list(classes))
    node.source, node.line = place.source or place.document["source"], place.line or 0
    return node


def line(kind: str, *parts: nodes.Node) -> nodes.paragraph:
    return nodes.paragraph("", "", *parts, classes=[kind])


def box(record: Record, link: nodes.Node, place: nodes.Node, ids: list[str]) -> nodes.container:
    """The claim, in both languages, with its verdict, its number and its explanation."""
    slug, known = record["verdict"].replace(",", "").replace(" ", "-"), template("site.claims.verdicts")
    if slug not in known:
        expected = ", ".join(known.values())
        raise ExtensionError(f"claim {record['id']}: verdict is {record['verdict']!r}: expected one of {expected}")
    verdict = nodes.inline("", known[slug], classes=["verdict", slug])
    head = nodes.container("", line("claim-id", link), line("claim-verdict", verdict), classes=["claim-head"])
    claim = nodes.container("", head, paragraph(record["claim"], place, "claim-text"), classes=["claim", slug], ids=ids)
    for section, sentence in record["claim_ja"].items():
        quoted = nodes.inline("", "", *inline(sentence), classes=["language-ja"])
        claim += line("claim-ja", quoted, nodes.inline("", f" {section}", classes=["section"]))
    if record["measured"]:
        lead = nodes.Text(say("site.claims.measured", evidence=record["evidence"]))
        claim += line("claim-measured", lead, nodes.strong("", "", *inline(record["measured"])))
    claim += paragraph(record["sentence"], place)
    return claim


class DrawClaims(SphinxTransform):
    """Replace what `claim(id, measured)` printed by the box of its record."""

    default_priority = 8  # before translation

    def apply(self) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            if not (found := PRINTED.search(raw.astext())):
                continue
            name, measured = found["id"], html.unescape(found["measured"])
            record = self.env.claims.get(name)
            if record is None:
                log.warning("claim %r has no record in book/claims.yml", name, location=raw, type="book")
                continue
            if record["measured"] != measured:
                log.warning(
                    "claim %s: measured %r, recorded %r: run tools/claims.py --update",
                    name,
                    measured,
                    record["measured"],
                    location=raw,
                    type="book",
                )
            label, docname = f"claim-{name.lower()}", self.env.docname
            title = say("site.claims.title", id=name)
            link = optional_link(docname, "std", "ref", f"ledger-{name.lower()}", nodes.inline("", title))
            raw.parent.replace(raw, box(record | {"measured": measured}, link, raw, [label]))
            register(self.env, docname, label, title)


class ClaimLedger(SphinxDirective):
    """Every record, in the order of the file, with a link to the experiment."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(Path(self.env.srcdir, "book/claims.yml")))
        boxes = []
        for name, record in self.env.claims.items():
            place = nodes.paragraph()
            place.source, place.line = self.get_source_info()
            label, title = f"ledger-{name.lower()}", say("site.claims.title", id=name)
            link = optional_link(self.env.docname, "std", "ref", f"claim-{name.lower()}", nodes.inline("", title))
            boxes.append(box(record, link, place, [label]))
            register(self.env, self.env.docname, label, title)
        return boxes


def register(env: BuildEnvironment, docname: str, label: str, title: str) -> None:
    env.domains["std"].labels[label] = docname, label, title
    env.domains["std"].anonlabels[label] = docname, label


def load(app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set) -> set[str]:
    """Read the records, and every page again when they have changed."""
    before, env.claims = getattr(env, "claims", None), read_claims(Path(app.srcdir))
    return set() if before in (None, env.claims) else env.found_docs


def warn_missing(app: Sphinx, env: BuildEnvironment) -> None:
    labels = env.domains["std"].labels
    for name, record in env.claims.items():
        page = f"notebooks/{record['chapter']}"
        if page in env.found_docs and f"claim-{name.lower()}" not in labels:
            log.warning("claim %s is not shown in its chapter", name, location=page, type="book")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("optional_links")
    app.add_transform(DrawClaims)
    app.add_directive("claim-ledger", ClaimLedger)
    app.connect("env-get-outdated", load)
    app.connect("env-check-consistency", warn_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
