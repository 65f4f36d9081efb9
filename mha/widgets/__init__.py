"""Pictures that a reader can turn: live in Jupyter and, without a kernel, on the page."""

try:
    import anywidget  # noqa: F401
except ImportError as error:
    raise ImportError("mha.widgets needs anywidget: in a checkout, pip install '.[widgets]'") from error

from mha.widgets.alignments import Alignments
from mha.widgets.base import Widget
from mha.widgets.block import Block
from mha.widgets.changes import Changes
from mha.widgets.cost import Cost
from mha.widgets.dilution import Dilution
from mha.widgets.dot_product import DotProduct
from mha.widgets.explanations import Explanations
from mha.widgets.features import Features
from mha.widgets.flash import Flash
from mha.widgets.head_maps import HeadMaps
from mha.widgets.head_pair import HeadPair
from mha.widgets.heads import Heads
from mha.widgets.lookup import Lookup
from mha.widgets.masks import Masks
from mha.widgets.phases import Phases
from mha.widgets.prune import Prune
from mha.widgets.rounding import Rounding
from mha.widgets.sampling import Sampling
from mha.widgets.slopes import Slopes
from mha.widgets.tiles import Tiles
from mha.widgets.wall import Wall

__all__ = [
    "Alignments",
    "Block",
    "Changes",
    "Cost",
    "Dilution",
    "DotProduct",
    "Explanations",
    "Features",
    "Flash",
    "HeadMaps",
    "HeadPair",
    "Heads",
    "Lookup",
    "Masks",
    "Phases",
    "Prune",
    "Rounding",
    "Sampling",
    "Slopes",
    "Tiles",
    "Wall",
    "Widget",
]
