"""Masks to and from other libraries. The methods `mask.to_…` lead here."""

from mha.masks.convert.flash import to_flash
from mha.masks.convert.flex import from_mask_mod, to_flex
from mha.masks.convert.sdpa import to_onnx, to_sdpa
from mha.masks.convert.torch_mha import from_torch_mha, to_torch_mha

__all__ = ["from_mask_mod", "from_torch_mha", "to_flash", "to_flex", "to_onnx", "to_sdpa", "to_torch_mha"]
