"""Small results of the pretrained models, committed, so that a page needs neither weights nor network.

`tools/capture.py` makes them; the README of each file is its `about`.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

import numpy as np

from mha.data.unavailable import check_name

__all__ = ["NAMES", "Capture", "capture", "pack_causal", "unpack_causal"]

NAMES = (
    "minilm_changes",
    "minilm_heads",
    "minilm_pair",
    "minilm_positions",
    "minilm_projections",
    "minilm_sentence",
    "minilm_similarity",
    "minilm_stream",
    "minilm_triplets",
    "minilm_words",
    "smollm2_layer",
    "smollm2_next_token",
    "smollm2_pruned",
    "smollm2_repeat",
    "smollm2_sentence",
    "smollm2_similarity",
    "smollm2_stream",
)


@dataclass(frozen=True)
class Capture:
    """What a model did with some tokens: read-only arrays by name, the tokens as shown, and where all came from."""

    name: str
    tokens: tuple[str, ...]
    arrays: MappingProxyType
    about: MappingProxyType

    def __getitem__(self, name):
        return self.arrays[name]

    def __repr__(self):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"Capture({self.name!r}: {shapes})"


def capture(name: str) -> Capture:
    """Return the committed result called `name`, one of `NAMES`.

    `patterns` of a decoder are stored as lower triangles and returned whole: (layers, heads, i, j).
    """
    check_name(name, NAMES)
    here = files(__package__)
    about = json.loads((here / f"{name}.json").read_text(encoding="utf-8"))
    with (here / f"{name}.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    if "patterns_packed" in arrays:
        arrays = {"patterns": unpack_causal(arrays.pop("patterns_packed"), len(about["tokens"])), **arrays}
    for array in arrays.values():
        array.flags.writeable = False
    return Capture(name, tuple(about.pop("tokens")), MappingProxyType(arrays), MappingProxyType(about))


def pack_causal(patterns):
    """Return the lower triangles of (..., n, n) as (..., n(n + 1)/2)."""
    return patterns[..., *np.tril_indices(patterns.shape[-1])]


def unpack_causal(packed, n):
    """Return (..., n, n) with zeros above the diagonal: the inverse of `pack_causal`."""
    patterns = np.zeros((*packed.shape[:-1], n, n), packed.dtype)
    patterns[..., *np.tril_indices(n)] = packed
    return patterns
