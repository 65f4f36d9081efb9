r"""Masks to and from other libraries. The methods `mask.to_…` lead here.

What is said of a mask in self-attention, at 6 positions; another length may need another argument, as
`causal & window(9, 0)` does from the eleventh position on:

| mask | torch.nn.MultiheadAttention | SDPA | FlexAttention | flash-attention | ONNX |
| --- | --- | --- | --- | --- | --- |
| `causal` | attn_mask | is_causal | block_mask | causal | is_causal |
| `window(2, 0)` | attn_mask | attn_mask | block_mask | window_size | attn_mask |
| `window(9, 9)` | nothing | nothing | block_mask | window_size | nothing |
| `causal & window(9, 0)` | attn_mask | is_causal | block_mask | window_size | is_causal |
| `lengths([4, 6])` | key_padding_mask | attn_mask | block_mask | cu_seqlens_k | attn_mask |
| `causal & lengths([4, 6])` | attn_mask, key_padding_mask | attn_mask | block_mask | causal, cu_seqlens_k | attn_mask |
| `key_padding([[False] * 2 + [True] * 4])` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `segments([0, 0, 1, 1, 1, 2])` | attn_mask | attn_mask | block_mask | cu_seqlens_k | attn_mask |
| `causal & segments([0, 0, 1, 1, 1, 2])` | attn_mask | attn_mask | block_mask | causal, cu_seqlens_k | attn_mask |
| `prefix(3)` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `causal \| prefix(3)` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `window(1, 1) \| global_tokens([0])` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `causal & strided(2)` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `per_head([causal, window(1, 1)])` | attn_mask | attn_mask | block_mask | not possible | attn_mask |
| `~causal` | attn_mask | attn_mask | block_mask | not possible | attn_mask |

Of packed sequences the row leaves out `max_seqlen_q` and `max_seqlen_k`. From a foreign `mask_mod` only the dense mask
can be had, by `from_mask_mod`. `conversions(mask, n_q, n_k)` answers for any mask.
"""

from mha.masks.convert.flash import to_flash
from mha.masks.convert.flex import from_mask_mod, to_flex
from mha.masks.convert.sdpa import to_onnx, to_sdpa
from mha.masks.convert.table import conversions
from mha.masks.convert.torch_mha import from_torch_mha, to_torch_mha

__all__ = [
    "conversions",
    "from_mask_mod",
    "from_torch_mha",
    "to_flash",
    "to_flex",
    "to_onnx",
    "to_sdpa",
    "to_torch_mha",
]
