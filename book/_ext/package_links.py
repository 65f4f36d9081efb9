"""Make every `mha.…` name that is set as code a link to its entry in the API reference, if it has one."""

import re
from pathlib import Path

from docutils import nodes
from optional_links import optional_link
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
                link = optional_link(self.env.docname, "py", "obj", self.documented(name), literal.deepcopy())
                literal.parent.replace(literal, link)

    def documented(self, name: str) -> str:
        """A function is documented under the door of its floor, whatever file it is written in."""
        root = Path(self.env.srcdir)
        *module, function = name.split(".")
        path = root.joinpath(*module).with_suffix(".py")
        return public_name(root, path, function) if path.exists() else name


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("triangle")
    app.setup_extension("optional_links")
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
