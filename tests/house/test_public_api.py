"""Nobody loses a name by accident, and none becomes public unseen."""

import difflib

from house.public_api import LISTED, listing


def test_the_public_names_are_those_listed():
    listed = LISTED.read_text("utf-8").splitlines()
    changes = list(difflib.unified_diff(listed, listing(), "listed", "found", lineterm="", n=0))
    assert not changes, "\n".join([*changes, "If this is meant: python tests/house/public_api.py"])
