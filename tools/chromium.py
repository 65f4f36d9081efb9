"""Find Chromium: the program that CHROMIUM names, else one of the usual names."""

import os
import shutil

MISSING = "no Chromium: install the package chromium, or name the program in CHROMIUM"


def program() -> str | None:
    """Return the path of Chromium or Chrome, None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
