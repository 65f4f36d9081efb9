"""Copy MathJax and the text face out of their installed packages, after checking every byte."""

import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


class Part(NamedTuple):
    package: str
    file: str
    sha256: str
    target: str  # below _static


FACE = "font_source_serif_pro/files/"
PARTS = [
    Part(
        "sphinx-mathjax-offline",
        "sphinx-mathjax-offline/static/mathjax/tex-svg-full.js",
        "a4354ff94fd868aea0cc6eaaa79a57fda0588646fc46ee3700a349ee0a11cbe6",
        "tex-svg-full.js",
    ),
    Part(
        "font-source-serif-pro",
        FACE + "SourceSerifPro-Regular.otf",
        "199c8adc83479480d9aa5d942afe8f52085af4e6c2093819b190807702fbcfe2",
        "fonts/serif.otf",
    ),
    Part(
        "font-source-serif-pro",
        FACE + "SourceSerifPro-It.otf",
        "929c92384dee90dfc6d736743e006f31fc7b7e73ab9863726d60a978ff77207c",
        "fonts/serif-italic.otf",
    ),
    Part(
        "font-source-serif-pro",
        FACE + "SourceSerifPro-Semibold.otf",
        "fa0fa85d115316bb1541607373a8e6676f2430f42d38806f2bc0b5f9a8424c91",
        "fonts/serif-semibold.otf",
    ),
    Part(
        "font-source-serif-pro",
        FACE + "SourceSerifPro-SemiboldIt.otf",
        "a9ed6d553fe4ff3a635efc5467c1dfce9747815422c01570b02eb5eda3dc7ea0",
        "fonts/serif-semibold-italic.otf",
    ),
    Part(
        "font-source-serif-pro",
        FACE + "LICENSE.txt",
        "caa697668c3cf3e622753fb202c6c2e29648b94a3499dc7b869a14192e38c553",
        "licences/SourceSerif.txt",
    ),
]


def read(part: Part) -> bytes:
    """Return the file of `part`, or say what is wrong with the installed package."""
    try:
        content = Path(distribution(part.package).locate_file(part.file)).read_bytes()
    except (PackageNotFoundError, FileNotFoundError) as error:
        raise ExtensionError(f'the book needs {part.package}: pip install "mha[book]"') from error
    if (found := hashlib.sha256(content).hexdigest()) != part.sha256:
        raise ExtensionError(
            f"{part.file} of {part.package} is not the file we know: expected {part.sha256}, got {found}"
        )
    return content


def copy_parts(app: Sphinx) -> None:
    if app.builder.format != "html":
        return
    for part in PARTS:
        target = Path(app.outdir, "_static", part.target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(read(part))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", copy_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
