"""A mask as the arguments of other libraries' attention, each with its own polarity and its own place for queries.

Every conversion returns the arguments that say exactly what `mask.dense(n_q, n_k, q_start)` shows, and leaves out
those whose default says it; or it raises and names what cannot be said.
`mha.masks.convert` does the work and holds the ways back, and a table of which mask goes where.
"""


class Convertible:
    """What a mask says to other libraries."""

    def to_torch_mha(self, n_q, n_k, *, batch=None, num_heads=None, q_start=None):
        """Return the mask arguments of torch.nn.MultiheadAttention, boolean, True = hidden.

        Keys that a sample hides from all queries are its `key_padding_mask`, (b, j); the rest is the `attn_mask`,
        (i, j) or, if samples or heads differ, (b·h, i, j). `batch` and `num_heads` are needed where the mask does not
        tell them apart. A row with nothing to attend to is NaN there and 0 here.
        """
        from mha.masks.convert.torch_mha import to_torch_mha

        return to_torch_mha(self, n_q, n_k, batch=batch, num_heads=num_heads, q_start=q_start)

    def to_sdpa(self, n_q, n_k, q_start=None):
        """Return the arguments of torch's scaled_dot_product_attention that say this mask.

        {} if all is visible; {"is_causal": True} if that is exactly equal, which it is for queries that start at
        slot 0, since torch pins its triangle to the upper left; else {"attn_mask": …}, boolean, True = attend.
        """
        from mha.masks.convert.sdpa import to_sdpa

        return to_sdpa(self, n_q, n_k, q_start)

    def to_flex(self, n_q, n_k, *, size=(128, 128), q_start=None, device="cpu"):
        """Return FlexAttention's BlockMask, built from our tiles of `size`; its `mask_mod` is the rule by slot."""
        from mha.masks.convert.flex import to_flex

        return to_flex(self, n_q, n_k, size=size, q_start=q_start, device=device)

    def to_flash(self, n_q, n_k, q_start=None):
        """Return the arguments of flash-attention: `causal`, or `window_size` with −1 for no bound.

        `lengths` and `segments` pack the batch end to end for flash_attn_varlen_func: `cu_seqlens_q`, `cu_seqlens_k`,
        `max_seqlen_q` and `max_seqlen_k`. Of its keys a sample packs the first n[b], with segments all; of its
        queries all but those that a causal mask or a window puts past the last valid key, which are padding too.
        What these arguments cannot say raises.
        """
        from mha.masks.convert.flash import to_flash

        return to_flash(self, n_q, n_k, q_start)

    def to_onnx(self, n_q, n_k, q_start=None):
        """Return the input `attn_mask`, an array, or the attribute `is_causal` of ONNX's Attention (opset 23).

        True means attend; the triangle is pinned to the upper left. {} if all is visible.
        """
        from mha.masks.convert.sdpa import to_onnx

        return to_onnx(self, n_q, n_k, q_start)
