"""Which part of a data set a row belongs to: by a hash of what it is about, the same for ever."""

import hashlib
import re

__all__ = ["chapter", "emoji_base", "part", "word_base"]

_PERSONS = re.compile("[\U0001f3fb-\U0001f3ff\U0001f468\U0001f469\U0001f9d1\u200d\ufe0f\u2640\u2642]")
_ENDING = re.compile(r"(ing|er|ed|ly|e)?s?$")


def emoji_base(row) -> str:
    """Return an emoji without skin tone, sex and person: 👨‍🍳, 👩‍🍳 and 🧑‍🍳 (man, woman, person: cook) are one."""
    return _PERSONS.sub("", row["emoji"])


def word_base(row) -> str:
    """Return the first six letters of a word without its ending: boat, boats, boated and boating are one."""
    return re.sub(r"(.)\1$", r"\1", _ENDING.sub("", row["word"]))[:6]


def chapter(row) -> str:
    """Return book and chapter of a verse, so that neighbours stay together."""
    return f"{row['book']} {row['chapter']}"


def part(base: str) -> str:
    """Return "test" for a tenth of all bases, "validation" for a twentieth, "train" for the others."""
    place = int.from_bytes(hashlib.sha256(base.encode("utf-8")).digest()[:8]) % 20
    return "test" if place < 2 else "validation" if place == 2 else "train"
