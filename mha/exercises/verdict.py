"""What the reader is told: one mark, one sentence and, where it helps, one small example."""

import html
import textwrap
from dataclasses import dataclass

MARKS = {"right": "✓", "wrong": "✗", "open": "○"}


@dataclass(frozen=True, repr=False)
class Verdict:
    """The outcome of a check. Shown as text in a console and as HTML in a notebook.

    `property` names what failed: a property, a known mistake, or "unanswered"; it is "all" for a right answer.
    """

    id: str
    passed: bool
    property: str
    hint: str
    example: str = ""

    def __bool__(self):
        return self.passed

    def __repr__(self):
        sentence = textwrap.fill(f"{MARKS[state_of(self)]} {self.id}: {self.hint}", 88, subsequent_indent="  ")
        return sentence + ("\n\n" + textwrap.indent(self.example, "  ") if self.example else "")

    def _repr_html_(self):
        sentence = f"<p><strong>{MARKS[state_of(self)]} {self.id}</strong> {html.escape(self.hint)}</p>"
        example = f"<pre>{html.escape(self.example)}</pre>" if self.example else ""
        return f'<div class="mha-verdict mha-verdict-{state_of(self)}" role="status">{sentence}{example}</div>'


def state_of(verdict):
    """Return "right", "wrong" or "open"."""
    return "right" if verdict.passed else "open" if verdict.property == "unanswered" else "wrong"
