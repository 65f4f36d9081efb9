"""Give each page that shows a widget the widget's module, style and the small loader; other pages get nothing."""

import json
import re
from pathlib import Path

from mha.widgets import base

WIDGET = re.compile(r'data-widget="(\w+)"')


def write_sources(app):
    """Write each module as a classic script that holds its text, because modules do not load from file://."""
    if app.builder.format != "html":
        return
    out = Path(app.outdir, "_static", "widgets")
    out.mkdir(parents=True, exist_ok=True)
    style = base.HERE / "widget.css"
    (out / style.name).write_text(style.read_text(encoding="utf-8"), encoding="utf-8")
    for path in sorted(base.HERE.glob("*.js")):
        if path.name != "common.js":
            source = json.dumps(base.module_source(path.stem))
            (out / path.name).write_text(f"(window.mhaWidgets ??= {{}}).{path.stem} = {source};\n", encoding="utf-8")


def add_scripts(app, pagename, templatename, context, doctree):
    kinds = sorted(set(WIDGET.findall(context.get("body") or "")))
    if kinds:
        app.add_css_file("widgets/widget.css")
        for file in [*(f"widgets/{kind}.js" for kind in kinds), "hydrate.js"]:
            app.add_js_file(file, loading_method="defer")


def setup(app):
    app.connect("builder-inited", write_sources)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
