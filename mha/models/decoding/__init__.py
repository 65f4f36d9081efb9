"""Continue a text with a model that has `caches` and `step`: `Llama`, `GPT`, or a decoder over its source."""

from mha.models.decoding.beams import Beams, beam_search
from mha.models.decoding.sampling import Sampling
from mha.models.decoding.steps import generate, stream

__all__ = ["Beams", "Sampling", "beam_search", "generate", "stream"]
