"""Show the attention of a decoder to the conformance kit."""

import torch

from mha.conformance.adapter import Adapter
from mha.conformance.arrays import Torch
from mha.conformance.broken.decoder import Decoder

SUPPORTS = frozenset({"mask", "causal", "causal-with-mask", "grouped", "value-width", "float16", "gradient", "rotate"})


def adapter(decoder: type[Decoder]) -> Adapter:
    """Return the steps of a decoder class, from the mask to the weighted values, as `verify` wants them."""

    def attend(q, k, v, *, mask=None, causal=False):
        if causal:
            see = decoder.visible(q.shape[-2], k.shape[-2] - q.shape[-2])
            mask = see if mask is None else see & mask
        k, v = (decoder.shared(rows, q.shape[1]) for rows in (k, v))
        return decoder.attend(q, k, v, mask=mask)

    return Adapter(
        name=decoder.__name__,
        attend=attend,
        rotate=lambda x, positions: decoder.rotate(x, torch.as_tensor(positions)),
        arrays=Torch(),
        supports=SUPPORTS,
    )
