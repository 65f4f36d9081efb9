"""Attention that leaves most pairs out, where a mask alone does not say it."""

from mha.nn.sparse.block_selection import BlockSelection, block_selection_attention, chosen_blocks, pooled_blocks
from mha.nn.sparse.longformer import LongformerAttention, longformer_attention
from mha.nn.sparse.routing import Routing, cluster_members, moved_centroids, routing_attention
from mha.nn.sparse.top_k import top_k_attention, top_keys
from mha.nn.sparse.windows import WindowAttention, window_attention, window_slots

__all__ = [
    "BlockSelection",
    "LongformerAttention",
    "Routing",
    "WindowAttention",
    "block_selection_attention",
    "chosen_blocks",
    "cluster_members",
    "longformer_attention",
    "moved_centroids",
    "pooled_blocks",
    "routing_attention",
    "top_k_attention",
    "top_keys",
    "window_attention",
    "window_slots",
]
