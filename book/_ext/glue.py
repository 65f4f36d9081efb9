"""Keep a comma or a bracket on the line of the inline formula that it touches; browsers would break between them."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

OPENING = re.compile(r"[(\[“‘]+$")
CLOSING = re.compile(r"^[^\s\w]+")


class GlueMaths(SphinxPostTransform):
    default_priority = 900  # after everything that looks at words

    def run(self, **kwargs: object) -> None:
        for maths in list(self.document.findall(nodes.math)):
            parent = maths.parent
            at = parent.index(maths)
            before = self.cut(parent, at - 1, OPENING) if at else ""
            after = self.cut(parent, at + 1, CLOSING) if at + 1 < len(parent) else ""
            if before or after:
                glued = nodes.inline("", "", nodes.Text(before), maths.deepcopy(), nodes.Text(after), classes=["glue"])
                parent.replace(maths, glued)

    def cut(self, parent: nodes.Element, at: int, pattern: re.Pattern[str]) -> str:
        """Take the matching end off the text that stands there, and return it."""
        text = parent[at]
        if not isinstance(text, nodes.Text) or not (found := pattern.search(text)):
            return ""
        parent[at] = nodes.Text(pattern.sub("", text))
        return found[0]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(GlueMaths)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
