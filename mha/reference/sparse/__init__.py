"""Attention that leaves most pairs out, where a mask alone does not say it."""

from mha.reference.sparse.block_selection import block_selection_attention, chosen_blocks, pooled_blocks
from mha.reference.sparse.longformer import longformer_attention
from mha.reference.sparse.routing import cluster_members, moved_centroids, routing_attention
from mha.reference.sparse.top_k import top_k_attention, top_keys
from mha.reference.sparse.windows import window_attention, window_slots

__all__ = [
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
