"""Make every `mha.…` name that is set as code a link to its entry in the API reference, if it has one."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from triangle import public_name

NAME = re.compile(r"mha(\.\w+)+")


class LinkNames(SphinxPostTransform):
    default_priority = 6  # after outputs are chosen, before references are resolved

    def run(self, **kwargs: object) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext()
            linked = isinstance(literal.parent, pending_xref | nodes.reference | nodes.title)
            if NAME.fullmatch(name) and not linked:
                link = pending_xref(
                    "",
                    refdoc=self.env.docname,
                    refdomain="py",
                    reftype="obj",
                    reftarget=self.documented(name),
                    mha_optional=True,
                )
                literal.parent.replace(literal, link)
                link += literal

    def documented(self, name: str) -> str:
        """A function is documented under the door of its floor, whatever file it is written in."""
        root = Path(self.env.srcdir)
        *module, function = name.split(".")
        path = root.joinpath(*module).with_suffix(".py")
        return public_name(root, path, function) if path.exists() else name


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("triangle")
    app.setup_extension("claim_boxes")  # which keeps the words of a name without an entry
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
