"""What do the key/value heads of a trained model hold that their mean does not?   python benchmarks/pooled_heads.py

SmolLM2 has three key/value heads a layer. Their mean is where Ainslie et al. (2023) begin to train a model with one.
Here nothing is trained: the loss on a book, with the heads as they are, and with their mean in every layer.
"""

import copy

import torch
import torch.nn.functional as F
from provenance import save

from mha.data import load, pretrained
from mha.nn import with_pooled_heads

PASSAGES, LENGTH = 4, 192


@torch.inference_mode()
def loss(model, passages):
    """Return the mean loss in nats a token."""
    logits = torch.cat([model(tokens[None, :-1]) for tokens in passages])
    return float(F.cross_entropy(logits.flatten(0, 1), passages[:, 1:].flatten()))


def main():
    torch.set_num_threads(1)
    known = pretrained("smollm2")
    text = "\n".join(row["text"] for row in load("moby_dick"))
    tokens = known.encode(text[200_000:220_000])[0, 1:]
    passages = tokens[: PASSAGES * LENGTH].reshape(PASSAGES, LENGTH)
    passages = F.pad(passages, (1, 0), value=int(known.encode("")[0, 0]))
    pooled = copy.deepcopy(known.model)
    for block in pooled.blocks:
        block.attention = with_pooled_heads(block.attention, 1)
    found = {"three": round(loss(known.model, passages), 3), "one": round(loss(pooled, passages), 3)}
    print(found)
    setting = {"model": "smollm2", "text": "moby_dick", "passages": PASSAGES, "tokens": LENGTH}
    save("pooled_heads", {"setting": setting, "loss_in_nats": found}, note="nothing was trained after the pooling")


if __name__ == "__main__":
    main()
