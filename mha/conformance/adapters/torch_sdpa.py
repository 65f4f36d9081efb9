"""`torch.nn.functional.scaled_dot_product_attention`: one argument for masks and biases, causal from the upper left."""

import torch
import torch.nn.functional as F

from mha.conformance.adapter import Adapter
from mha.conformance.arrays import Torch


def function(name):
    """Return the adapter of the function with its defaults on a CPU."""
    return Adapter(
        name=name,
        attend=_attend,
        as_given=lambda q, k, v, *, mask=None: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        arrays=Torch(),
        supports=frozenset(
            {"mask", "bias", "scale", "causal", "grouped", "value-width", "float16", "gradient"}
            | {"second-derivative", "forward-derivative"}
        ),
        conventions=frozenset({"upper-left", "floats-are-added"}),
        packages=("torch",),
        isolated=True,
    )


def merged(mask, bias):
    """Return mask and bias as one argument: boolean if there is no bias, else a bias with −∞ where the mask hides."""
    return mask if bias is None else bias if mask is None else torch.where(mask, bias, -torch.inf)


def _attend(q, k, v, *, mask=None, bias=None, scale=None, causal=False):
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=merged(mask, bias), is_causal=causal, scale=scale, enable_gqa=grouped
    )
