"""The few drawing words that Python and JavaScript share: `common.js` says the same ones."""

import html

FAINT = 0.07  # the ground that shows where a visible pair is, even where its weight is 0

# In an <img> the page's style sheet does not reach the picture, so the still brings its own; widget.css says the same.
STYLE = (
    "<style>svg{color:#1c2430}.w{fill:#2f8097}.muted{fill-opacity:.72}"
    "@media(prefers-color-scheme:dark){svg{color:#dfe5ee}}</style>"
)


def number(x):
    """Write `x` with at most three decimals."""
    text = f"{x:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def tag(name, attributes, content=""):
    """Return one element; numbers are shortened and content is taken as it is."""
    written = "".join(
        f" {key}='{value if isinstance(value, str) else number(value)}'" for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def label(x, y, words, attributes=None):
    """Return a text element."""
    return tag("text", {"x": x, "y": y, **(attributes or {})}, html.escape(words))


def shorten(token, limit=9):
    """Return the token, or its beginning and an ellipsis."""
    return token if len(token) <= limit else token[: limit - 1] + "…"


def canvas(width, height, content):
    """Return the whole picture."""
    frame = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": "mha-svg",
        "viewBox": f"0 0 {width} {height}",
        "font-family": "system-ui, sans-serif",
        "font-size": 12,
        "fill": "currentColor",
    }
    return tag("svg", frame, content)
