"""FlexAttention: a boolean mask as a `mask_mod`, a bias and a cap as a `score_mod`, run eagerly on a CPU."""

import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from mha.conformance.adapter import Adapter
from mha.conformance.arrays import Torch


def function(name):
    """Return the adapter of the function; causal and windows are mask functions that a caller writes.

    On a CPU it has neither a backward pass nor the largest scores.
    """
    return Adapter(
        name=name,
        attend=lambda *inputs, **options: _run(*inputs, **options)[0],
        as_given=lambda q, k, v, *, mask=None: _run(q, k, v, mask=mask)[0],
        stats=_stats,
        arrays=Torch(),
        supports=frozenset({"mask", "bias", "scale", "softcap", "grouped", "value-width", "float16", "lse"}),
        packages=("torch",),
        isolated=True,
    )


def _stats(*inputs, **options):
    return {"lse": _run(*inputs, **options, return_aux=AuxRequest(lse=True))[1].lse}


def _run(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, return_aux=None):
    sizes = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    block_mask = score_mod = None
    if mask is not None:
        see = mask.expand(sizes)
        block_mask = create_block_mask(lambda b, h, i, j: see[b, h, i, j], *sizes, device="cpu")
    if bias is not None or softcap is not None:
        added = None if bias is None else bias.expand(sizes)

        def score_mod(score, b, h, i, j):
            score = score if softcap is None else softcap * torch.tanh(score / softcap)
            return score if added is None else score + added[b, h, i, j]

    found = flex_attention(
        q, k, v, score_mod, block_mask, scale, enable_gqa=q.shape[1] != k.shape[1], return_aux=return_aux
    )
    return found if return_aux is not None else (found, None)
