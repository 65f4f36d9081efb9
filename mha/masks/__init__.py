"""Masks as values: small immutable rules that say which query position may attend to which key position.

Rules see positions, not slots: query slot 0 stands at `q_start`, key slot j at j. True means attend.
"""

from mha.masks.base import And, Mask, Not, Or, Pair, at
from mha.masks.distances import (
    Causal,
    Dilated,
    LogStrided,
    Strided,
    Window,
    causal,
    dilated,
    log_strided,
    strided,
    window,
    window_of,
)
from mha.masks.evaluate import query_start, visible
from mha.masks.slots import (
    Dense,
    KeyPadding,
    Lengths,
    Segments,
    as_mask,
    dense,
    key_padding,
    lengths,
    padding_positions,
    segment_positions,
    segments,
)

__all__ = [
    "Mask",
    "as_mask",
    "causal",
    "dense",
    "dilated",
    "key_padding",
    "lengths",
    "log_strided",
    "padding_positions",
    "query_start",
    "segment_positions",
    "segments",
    "strided",
    "visible",
    "window",
    "window_of",
]
