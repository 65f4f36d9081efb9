"""The one error for data that is not here."""

from difflib import get_close_matches


class DataUnavailable(RuntimeError):
    """Data or weights are not on this machine and were not to be had; the message says what to run."""


def missing_package(absent):
    """Return the error for an optional package whose import failed with `absent`."""
    extra = "torch" if absent.name in ("torch", "einops") else "data"
    return DataUnavailable(
        f"{absent.name} is not installed: install the extra `{extra}`, in a checkout by: pip install '.[{extra}]'"
    )


def check_name(name, known):
    """Raise unless `name` is one of `known`."""
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}: expected a string, one of {', '.join(sorted(known))}")
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"name is {name!r}: expected one of {', '.join(sorted(known))}{hint}")


def check_source(source, known):
    """Raise unless `source` is one of `known`."""
    if source not in known:
        raise ValueError(f"source is {source!r}: expected one of {', '.join(map(repr, known))}")
