"""A small decoder whose every step can be replaced, famous bugs planted in it one at a time, and what finds them.

Needs torch. Chapter "Famous bugs" of the book is the tour.
"""

from mha.conformance.broken.catalogue import BUGS, Bug
from mha.conformance.broken.checks import CHECKS
from mha.conformance.broken.decoder import Alibi, Decoder
from mha.conformance.broken.kit import adapter

__all__ = ["BUGS", "CHECKS", "Alibi", "Bug", "Decoder", "adapter"]
