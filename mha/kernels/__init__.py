"""Attention in Triton: the meaning of `mha.reference`, at the speed of the device."""
