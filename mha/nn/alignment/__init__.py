"""Alignment of a decoder's states with an encoder's, on torch tensors: the meaning of `mha.reference.alignment`."""

from mha.nn.alignment.context import Alignment, alignment_weights, context_vectors
from mha.nn.alignment.local import CenterPredictor, predicted_centers
from mha.nn.alignment.scores import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    additive_scores,
    concat_scores,
    dot_scores,
    general_scores,
)

__all__ = [
    "AdditiveScore",
    "Alignment",
    "CenterPredictor",
    "ConcatScore",
    "DotScore",
    "GeneralScore",
    "additive_scores",
    "alignment_weights",
    "concat_scores",
    "context_vectors",
    "dot_scores",
    "general_scores",
    "predicted_centers",
]
