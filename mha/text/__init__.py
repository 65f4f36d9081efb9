"""Every string that a reader sees outside Markdown, so that another language is another folder.

Strings live in `mha/text/<language>/<room>.toml` and are named `room.key` or `room.section.key`.
"""

import functools
import operator
import string
import tomllib
from importlib.resources import files

LANGUAGE = "en"


@functools.cache
def _room(language, room):
    path = files(__package__) / language / f"{room}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def template(name):
    """Return the raw string (or table of strings) called `name`, with its placeholders unfilled."""
    room, *keys = name.split(".")
    try:
        return functools.reduce(operator.getitem, keys, _room(LANGUAGE, room))
    except (FileNotFoundError, KeyError, TypeError):
        raise KeyError(f"no text {name!r} in mha/text/{LANGUAGE}/{room}.toml") from None


def say(name, /, **values):
    """Return the string called `name`, its `{placeholders}` filled from `values` by `str.format`.

    Every placeholder must be given and every value must be used: a mismatch raises, so that no
    sentence silently loses its number.
    """
    text = template(name)
    wanted = {field.split(".")[0].split("[")[0] for _, field, _, _ in string.Formatter().parse(text) if field}
    if wanted != values.keys():
        raise ValueError(f"text {name!r} takes {sorted(wanted)}, got {sorted(values)}")
    return text.format(**values)
