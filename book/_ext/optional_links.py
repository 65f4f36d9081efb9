"""References to what may not be written yet: they link when the target is there and are plain words when it is not."""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def optional_link(
    docname: str, domain: str, kind: str, target: str, words: nodes.Node, *, use_title: bool = False
) -> pending_xref:
    return pending_xref(
        "",
        words,
        refdoc=docname,
        refdomain=domain,
        reftype=kind,
        reftarget=target,
        refexplicit=not use_title,
        mha_optional=True,
    )


def keep_words(app: Sphinx, env: BuildEnvironment, node: pending_xref, words: nodes.Node) -> nodes.Node | None:
    return words if node.get("mha_optional") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("missing-reference", keep_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
