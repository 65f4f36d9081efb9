"""Number the figures and widgets that notebooks print as HTML, and refuse a picture without words."""

import html
import re
from urllib.parse import unquote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

log = logging.getLogger(__name__)

FIGURE = re.compile(
    r'<figure class="(?P<kind>mha-\w+)" data-name="(?P<name>[^"]+)"(?P<data>[^>]*)>'
    r"(?P<body>.*?)<figcaption>(?P<caption>.*?)</figcaption></figure>",
    re.DOTALL,
)
IMAGE = re.compile(r"<img\b[^>]*>")
ALT = re.compile(r'\balt="([^"]*)"')
WIDTH = re.compile(r'<svg\b[^>]*? width="([\d.]+)pt"')


def legible(body: str) -> str:
    """A narrow screen shrinks a picture to this width and no further: its letters of 9 pt stay at 8 px."""
    width = WIDTH.search(unquote(body))
    return f' style="--legible: {0.93 * float(width[1]):.0f}px"' if width else ""


class NumberFigures(SphinxTransform):
    """Turn a printed `<figure>` into a figure of the book: "Fig. 4.1", `{numref}`, also for widgets."""

    default_priority = 700  # before the domains collect labels

    def apply(self) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            self.check_alt(raw)
            if found := FIGURE.fullmatch(raw.astext().strip()):
                kind = found["kind"]
                frame = f'<div class="{kind}-body"{found["data"]}{legible(found["body"])}>{found["body"]}</div>'
                body = nodes.raw("", frame, format="html")
                caption = nodes.caption("", html.unescape(found["caption"]))
                figure = nodes.figure("", body, caption, classes=[kind], names=[found["name"]])
                figure.source, figure.line = raw.source, raw.line
                self.document.note_explicit_target(figure)
                raw.parent.replace(raw, figure)

    def check_alt(self, raw: nodes.raw) -> None:
        for image in IMAGE.findall(raw.astext()):
            alt = ALT.search(image)
            if not alt or len(alt[1].split()) < 4:
                log.warning("a picture needs an alt text of at least four words", location=raw, type="book")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NumberFigures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
