"""Two repairs of the libraries that the book stands on."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def share_html_visitors(app: Sphinx) -> None:
    """sphinx-exercise registers visitors for singlehtml, which then hides everyone else's html visitors."""
    handlers = app.registry.translation_handlers
    if "singlehtml" in handlers:
        handlers["singlehtml"] = {**handlers.get("html", {}), **handlers["singlehtml"]}


def drop_repeated_scripts(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """sphinx-thebe adds its inline script twice, and the second copy is an error on every page."""
    scripts = context.get("script_files", [])
    scripts[:] = {(script.filename or "", script.attributes.get("body")): script for script in scripts}.values()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", share_html_visitors)
    app.connect("html-page-context", drop_repeated_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
