"""What a chapter needs to show things: a figure with words, the package's own source, a measured claim.

The output is plain HTML or Markdown, so it looks the same in JupyterLab, in Colab, on the page and in print.
"""

import ast
import html
import inspect
import io
import re
import textwrap
from urllib.parse import quote

from mha.text import say

try:
    from IPython.display import HTML, Markdown, display
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "mha.book needs IPython: in a checkout, pip install '.[book]'", name=missing.name
    ) from None

# An SVG inside <img> follows the `color-scheme` of the page, hence the reader's switch and not only the system's.
STYLE = "<style>svg{color:#1c2430;fill:currentColor}@media(prefers-color-scheme:dark){svg{color:#dfe5ee}}</style>"
SLIM = (
    (r"(?s)<metadata>.*?</metadata>|<!--.*?-->", ""),
    (r"\s*\n\s*", " "),
    (r"> +<", "><"),
    (r"(?<=[ \"])(-?\d+\.\d\d)\d+", r"\1"),
    (r"#000000", "currentColor"),
)
SAFE_IN_URL = " =:/;,.-()!*"
LONG_DOCSTRING = 8


def show(fig, *, alt, caption="", name=""):
    """Display a Matplotlib figure as an SVG with alternative text; `name` is what `{numref}` refers to."""
    _check_alt(alt)
    if name and not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"name: expected lower-case words joined by hyphens, got {name!r}; for example 'fig-heads'")
    image = f'<img alt="{html.escape(alt)}" src="data:image/svg+xml,{quote(to_svg(fig), safe=SAFE_IN_URL)}">'
    caption = f"<figcaption>{html.escape(caption)}</figcaption>"
    display(HTML(f'<figure class="mha-figure" data-name="{name}">{image}{caption}</figure>'))


def to_svg(fig):
    """Return the figure as a slim SVG, the same bytes each time, whose black follows the page's text colour."""
    import matplotlib as mpl

    from mha.plot import RC

    with mpl.rc_context(RC), io.StringIO() as buffer:
        fig.savefig(buffer, format="svg", bbox_inches="tight")
        svg = "<svg" + buffer.getvalue().partition("<svg")[2]
    for pattern, replacement in SLIM:
        svg = re.sub(pattern, replacement, svg)
    return svg.strip().replace(">", ">" + STYLE, 1)


def source(obj):
    """Display the source of a function or class of the package, under its full name.

    The page turns the name into a link to the API entry. Of a long docstring only the first paragraph is shown.
    """
    code = _shorten_docstring(textwrap.dedent(inspect.getsource(obj)))
    display(Markdown(f"`{obj.__module__}.{obj.__qualname__}`\n\n```python\n{code.rstrip()}\n```"))


def claim(id, measured):
    """Display what this notebook measured for the claim `id` of the ledger; the page draws its box around it."""
    if not re.fullmatch(r"[AB]-[\w-]+", id):
        raise ValueError(f"id: expected the id of a claim in book/claims.yml such as 'A-scale', got {id!r}")
    lead = html.escape(say("book.claim.measured", id=id))
    display(HTML(f'<aside class="mha-claim" data-claim="{id}">{lead}<b>{html.escape(measured)}</b></aside>'))


def table(titles, rows):
    """Display rows of values under their titles, numbers to the right; on the page a wide table scrolls by itself."""
    if uneven := [row for row in rows if len(row) != len(titles)]:
        raise ValueError(f"rows holds one of {len(uneven[0])} values: expected {len(titles)}, one for each title")
    is_number = [isinstance(x, int | float) for x in rows[0]]

    def cells(values, name):
        looks = (' style="text-align: right"' if right else "" for right in is_number)
        told = (f"<{name}{look}>{html.escape(str(x))}</{name}>" for x, look in zip(values, looks, strict=True))
        return f"<tr>{''.join(told)}</tr>"

    head, body = cells(titles, "th"), "".join(cells(row, "td") for row in rows)
    content = f'<table class="table"><thead>{head}</thead><tbody>{body}</tbody></table>'
    display(HTML(f'<div class="pst-scrollable-table-container">{content}</div>'))


def _check_alt(alt):
    is_path = re.search(r"\.(png|svg|jpe?g|gif|webp)\b|^\S*[/\\]\S*$", alt.strip(), re.IGNORECASE)
    if is_path or len(alt.split()) < 4:
        raise ValueError(
            f"alt: expected a sentence that says what the picture shows, got {alt!r}; "
            "mha.alt has a function for each picture of mha.plot"
        )


def _shorten_docstring(code):
    node = ast.parse(code).body[0].body[0]
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        return code
    if node.end_lineno - node.lineno + 1 <= LONG_DOCSTRING:
        return code
    lines = code.splitlines()
    docstring = lines[node.lineno - 1 : node.end_lineno]
    end = next((n for n, line in enumerate(docstring) if not line.strip()), len(docstring))
    indent = " " * node.col_offset
    short = [*docstring[:end], "", f"{indent}{say('book.source.more')}", f'{indent}"""']
    return "\n".join([*lines[: node.lineno - 1], *short, *lines[node.end_lineno :]])
