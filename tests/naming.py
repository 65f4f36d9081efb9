"""Names of tests by their parameters."""

import re

__all__ = ["named"]


def named(parameter):
    """Return the text of a parameter without the address of an object, which differs from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(parameter))
