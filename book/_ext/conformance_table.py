"""The conformance page: the matrix of the committed results, and every case with its rule and public report."""

import json
import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from mha.conformance import GROUPS
from mha.conformance.report import STATUSES, key
from mha.text import say, template

RESULTS = "mha/data/results/conformance.json"
WIDEST = 88  # letters of a result that are shown


class FromResults(SphinxDirective):
    """A part of the page that reads the result file."""

    def results(self) -> dict[str, Any]:
        path = Path(self.env.srcdir, RESULTS)
        self.env.note_dependency(str(path))
        return json.loads(path.read_text("utf-8"))


class Adapters(FromResults):
    """The numbered adapters, with versions and how many cases came to which result; below, how each was called."""

    def run(self) -> list[nodes.Node]:
        results = self.results()
        words = template("conformance.page")
        heads = [words["number"], words["adapter"], words["versions"], *map(symbol, STATUSES[:4])]
        rows = [summary(number, report) for number, report in enumerate(results["adapters"], 1)]
        provenance = results["provenance"]
        when = say("conformance.page.measured", date=provenance["date"], python=provenance["python"])
        called = nodes.enumerated_list("", *(call(report["name"]) for report in results["adapters"]))
        return [html(table("conformance-adapters", heads, rows)), nodes.paragraph("", when), called]


class Matrix(FromResults):
    """Cases down, adapters across, a table for each group."""

    def run(self) -> list[nodes.Node]:
        reports = self.results()["adapters"]
        first = [f"<th>{escape(template('conformance.page')['case'])}</th>"]
        numbers = [f'<th title="{escape(one["name"])}">{number}</th>' for number, one in enumerate(reports, 1)]
        rows = [f"<thead><tr>{''.join(first + numbers)}</tr></thead>"]
        for group, cases in GROUPS.items():
            title = escape(template("conformance.groups")[group])
            rows.append(f'<tbody><tr><th colspan="{len(reports) + 1}">{title}</th></tr>')
            rows += [row(case.name, reports) for case in cases]
            rows.append("</tbody>")
        return [html(f'<div class="mha-matrix" tabindex="0"><table>{"".join(rows)}</table></div>')]


class Cases(FromResults):
    """Every case: its rule, its kind, the report behind it, and what differed where."""

    def run(self) -> list[nodes.Node]:
        reports = self.results()["adapters"]
        found: list[nodes.Node] = []
        for group, cases in GROUPS.items():
            found.append(nodes.rubric("", template("conformance.groups")[group]))
            entries = [self.entry(case, reports) for case in cases]
            found.append(nodes.definition_list("", *entries, classes=["conformance-cases"]))
        return found

    def entry(self, case: Any, reports: list[dict[str, Any]]) -> nodes.definition_list_item:
        term = nodes.term("", "", nodes.literal("", case.name), ids=[anchor(case.name)])
        said = nodes.paragraph("", case.rule)
        said += nodes.inline("", f" ({template('conformance.kinds')[case.kind]})", classes=["kind"])
        if case.report:
            repository, number = case.report.split("#")
            address = f"https://github.com/{repository}/issues/{number}"
            said += [nodes.Text(" "), nodes.reference("", case.report, refuri=address)]
        body = [said]
        if differing := differences(reports, case.name):
            items = [nodes.list_item("", nodes.paragraph("", line)) for line in differing]
            body.append(nodes.bullet_list("", *items, classes=["differences"]))
        return nodes.definition_list_item("", term, nodes.definition("", *body))


def row(name: str, reports: list[dict[str, Any]]) -> str:
    cells = "".join(f"<td>{symbol(report['results'][name], report['name'])}</td>" for report in reports)
    return f'<tr><th><a href="#{anchor(name)}">{escape(name)}</a></th>{cells}</tr>'


def summary(number: int, report: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{package}&nbsp;{version}" for package, version in report["versions"].items())
    counts = [str(report["counts"].get(status, 0)) for status in STATUSES[:4]]
    return [str(number), f"<code>{escape(report['name'])}</code>", versions, *counts]


def call(name: str) -> nodes.list_item:
    """Say how a function was called."""
    words = template("conformance.called")[name].split("`")
    parts = [nodes.literal("", word) if at % 2 else nodes.Text(word) for at, word in enumerate(words)]
    return nodes.list_item("", nodes.paragraph("", "", nodes.literal("", name), nodes.Text(": "), *parts))


def differences(reports: list[dict[str, Any]], name: str) -> list[str]:
    """Say what came where it differs, and from which functions."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for one in report["differences"]:
            if one["case"] == name:
                found.setdefault(difference(one), []).append(report["name"])
    return [f"{', '.join(names)}: {said}" for said, names in found.items()]


def difference(one: dict[str, str]) -> str:
    """Return the convention if it is a known one, else what was expected and what came."""
    if "detail" in one:
        return template("conformance.conventions")[one["detail"]]
    status = template("conformance.status")[key(one["status"])]
    expected, got = short(one["expected"]), short(one["got"])
    if not expected:
        return say("conformance.page.raised", status=status, got=got)
    return say("conformance.page.came", status=status, expected=expected, got=got)


def short(text: str) -> str:
    """Return the beginning of a text, without the colours of a terminal."""
    return textwrap.shorten(re.sub(r"\x1b\[\d+m", "", text), WIDEST, placeholder=" …")


def symbol(status: str, adapter: str = "") -> str:
    """Return the symbol of a result, with its word for those who cannot see it or its colour."""
    word, mark = (template(f"conformance.{room}")[key(status)] for room in ("status", "symbols"))
    said = f"{adapter}: {word}" if adapter else word
    return f'<span class="{key(status)}" role="img" aria-label="{escape(said)}" title="{escape(said)}">{mark}</span>'


def table(name: str, heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for cells in rows)
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="mha-matrix {name}" tabindex="0">{inner}</div>'


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def anchor(name: str) -> str:
    return f"case-{name}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("conformance-adapters", Adapters)
    app.add_directive("conformance-matrix", Matrix)
    app.add_directive("conformance-cases", Cases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
