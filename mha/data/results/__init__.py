"""Measurements that the pages read, committed with their provenance; the scripts in `benchmarks/` make them."""

import json
from importlib.resources import files

from mha.data.unavailable import check_name

__all__ = ["result"]


def result(name: str) -> dict:
    """Return the committed measurement called `name`: `provenance`, `setting`, and the numbers."""
    here = files(__package__)
    check_name(name, sorted(entry.name[:-5] for entry in here.iterdir() if entry.name.endswith(".json")))
    return json.loads((here / f"{name}.json").read_text(encoding="utf-8"))
