"""FlexAttention's block mask from our tiles, and the evaluation of a foreign mask_mod."""

import numpy as np

from mha.integers import count
from mha.masks.convert.optional import library
from mha.masks.evaluate import query_start
from mha.masks.slots import dense

__all__ = ["from_mask_mod", "to_flex"]

FLEX = "torch.nn.attention.flex_attention"


def to_flex(mask, n_q, n_k, *, size=(128, 128), q_start=None, device="cpu"):
    """Return a BlockMask, its `mask_mod` included; see `Mask.to_flex`."""
    torch, flex = library("torch"), library(FLEX)
    tiles = mask.tiles(n_q, n_k, size=size, q_start=q_start)
    lists = []
    for kind in (tiles.visible & ~tiles.full, tiles.full):
        counts, order = kind.sum(-1), np.argsort(~kind, axis=-1, kind="stable")
        lists += [torch.from_numpy(x.astype(np.int32)).to(device) for x in (counts, order)]
    rule = _mask_mod(mask, query_start(mask, n_q, n_k, q_start), torch, device)
    return flex.BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=size, mask_mod=rule, seq_lengths=(n_q, n_k))


def from_mask_mod(mask_mod, n_q, n_k, *, batch=1, num_heads=1):
    """Return the dense mask that FlexAttention's `mask_mod(b, h, q_idx, kv_idx)` makes: it can only be evaluated."""
    sizes = {"batch": batch, "num_heads": num_heads, "n_q": n_q, "n_k": n_k}
    return dense(library(FLEX).create_mask(mask_mod, *(count(*size) for size in sizes.items()), device="cpu"))


def _mask_mod(mask, start, torch, device):
    """Return the mask's rule as a function of slots."""

    def on_device(table):
        return torch.as_tensor(np.array(table) if isinstance(table, np.ndarray) else table, device=device)

    start = start if isinstance(start, int) else on_device(start)
    rule = mask.placed(start).on_tables(on_device)

    def mask_mod(b, h, q_idx, kv_idx):
        return rule(b, h, q_idx + (start if isinstance(start, int) else start[b]), kv_idx)

    return mask_mod
