"""Masks as values: small immutable rules that say which query position may attend to which key position."""

from mha.masks.base import (
    And,
    Causal,
    Dense,
    Lengths,
    Mask,
    Not,
    Or,
    Pair,
    Window,
    as_mask,
    at,
    causal,
    dense,
    lengths,
    query_start,
    visible,
    window,
    window_of,
)

__all__ = ["Mask", "as_mask", "causal", "dense", "lengths", "query_start", "visible", "window", "window_of"]
