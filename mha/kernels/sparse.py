"""Block-sparse attention: the kernels of `dot_product`, which visit the listed tiles and no others."""

from mha import masks
from mha.kernels.dot_product import attention
from mha.options import hinted

__all__ = ["sparse_attention"]


@hinted
def sparse_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    blocks,
    *,
    size=None,
    mask=None,
    **options,
) -> "Float[Tensor, '*b h i e']":
    """Attend within the listed blocks of the score matrix; there, a `mask` says which pairs count.

    `blocks` and `size` are those of `mha.masks.in_blocks`: a boolean array of blocks, or the `Tiles` of a mask; or
    `blocks` is what it made of them, outside of a graph of `torch.compile`. Time, forward and backward, goes with the
    listed blocks; a block that is a multiple of the kernel's tile and that the mask shows whole costs no look at its
    pairs. The other options are those of `attention`.
    """
    listed = masks.in_blocks(blocks, size)
    return attention(q, k, v, mask=listed if mask is None else listed & masks.as_mask(mask), **options)
