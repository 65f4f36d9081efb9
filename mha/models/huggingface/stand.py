"""A model of transformers that runs on our layers for a while, so that what reads or changes ours works on it."""

from contextlib import contextmanager

import torch
from torch import nn

from mha.models.huggingface.receipt import Receipt

__all__ = ["Stand", "swapped_layers"]

CACHES = "cache", "past_key_values", "layer_past"  # the names of one thing in several versions
BEHIND = "encoder_attention_mask", "cache"  # what BERT gives by place behind the context


class Stand(nn.Module):
    """Stands where a layer of transformers stood: takes its arguments, calls `ours`, answers as it did."""

    def __init__(self, ours, receipt: Receipt, around=None):
        super().__init__()
        self.ours, self.receipt = ours, receipt
        self.around = around  # what theirs does with its output: (found, input) -> output

    def forward(self, hidden_states, attention_mask=None, encoder_hidden_states=None, *given, **others):
        """Return (output, None); the weights are for `capture` to read."""
        others |= {"encoder_hidden_states": encoder_hidden_states} | dict(zip(BEHIND, given, strict=False))
        for name in ("encoder_hidden_states", *CACHES):
            if others.get(name) is not None:
                hint = "; call the model with use_cache=False" if name in CACHES else ""
                raise ValueError(f"{name} is given to a {self.receipt.layer} that is swapped: expected None{hint}")
        options, position_ids = self._visible(attention_mask), others.get("position_ids")
        if self.ours.position is not None and position_ids is not None:
            options["positions"] = position_ids[0] if len(position_ids) == 1 else position_ids
        found = self.ours(hidden_states, **options)
        return (found if self.around is None else self.around(found, hidden_states)), None

    def _visible(self, mask):
        """Return the mask that transformers means, as an option of ours: None leaves what the layer itself hides."""
        if mask is None:
            return {"mask": self.receipt.mask}
        if mask.dtype == torch.bool:
            return {"mask": mask}
        hidden = mask <= torch.finfo(mask.dtype).min
        return {"mask": ~hidden} if bool((hidden | (mask == 0)).all()) else {"bias": mask}


@contextmanager
def swapped_layers(model, convert):
    """Let `convert(layer)`, which is None or (ours, receipt, around), take the place of layers until the block ends."""
    places = [(parent, name, part) for parent in model.modules() for name, part in parent.named_children()]
    stands = [(parent, name, part, convert(part)) for parent, name, part in places]
    stands = [stand for stand in stands if stand[3] is not None]
    try:
        for parent, name, _, made in stands:
            setattr(parent, name, Stand(*made))
        yield len(stands)
    finally:
        for parent, name, part, _ in stands:
            setattr(parent, name, part)
