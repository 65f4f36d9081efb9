"""What the decoder says next after some beginnings, without any of the heads that matter most there."""

import re

import torch

from mha.analysis.cores import attention_layers, wrapped_cores
from mha.data import pretrained

PROMPTS = (
    "The keys to the old wooden cabinet",
    "The capital of France is",
    " one red two blue three green one red two blue three",
)
RIGHT = (" are", " Paris", " green")
HEADS, WORDS, AT_ONCE = 8, 6, 90


def pruned():
    """Return the tokens, the arrays and what they are, as the other captures have them."""
    known = pretrained("smollm2")
    layers, heads = known.config.num_layers, known.config.num_heads
    one_by_one = torch.cat([torch.ones(1, layers * heads), 1 - torch.eye(layers * heads)]).unflatten(1, (layers, heads))
    subsets = torch.tensor([[n >> k & 1 for k in range(HEADS)] for n in range(2**HEADS)])
    tokens, chosen, effects, shares = [], [], [], []
    for prompt, right in zip(PROMPTS, RIGHT, strict=True):
        rows, (number,) = known.encode(prompt), known.tokenizer.encode(right, add_special_tokens=False).ids
        alone = next_token(known.model, rows, one_by_one)[:, number]
        effect = (alone[0] - alone[1:]).unflatten(0, (layers, heads))
        best = effect.abs().flatten().argsort(descending=True)[:HEADS]
        places = torch.stack([best // heads, best % heads], -1)
        keep = torch.ones(len(subsets), layers, heads)
        for bit, (layer, head) in enumerate(places):
            keep[:, layer, head] -= subsets[:, bit]
        found = next_token(known.model, rows, keep).exp()
        others = found.mean(0).argsort(descending=True)
        words = [number, *others[others != number][: WORDS - 1].tolist()]
        tokens += [re.sub(r"^ ", "␣", known.tokenizer.decode([word])).replace("\n", "↵") for word in words]
        chosen.append(places)
        effects.append(effect)
        shares.append(found[:, words])
    arrays = {
        "heads": torch.stack(chosen).short().numpy(),
        "effects": torch.stack(effects).numpy().round(3).astype("float32"),
        "probabilities": torch.stack(shares).numpy().round(4).astype("float32"),
    }
    return tokens, arrays, _about(known)


@torch.no_grad()
def next_token(model, rows, keep):
    """Return the log-probabilities of the next token for each row of `keep`, (rows, layers, heads), 0 for silence."""
    layers, found = attention_layers(model, "it has no heads"), []
    for part in keep.split(AT_ONCE):
        of_layer = dict(zip(layers, part[..., None, None].unbind(1), strict=True))
        with wrapped_cores(layers, lambda name, layer, of=of_layer: _kept(layer.core, of[name])):
            logits, _ = model.step(rows.expand(len(part), -1), model.caches(), last=True)
        found.append(logits[:, -1].double().log_softmax(-1))
    return torch.cat(found)


def _kept(core, keep):
    return lambda *inputs, **options: core(*inputs, **options) * keep


def _about(known):
    return {
        "model": known.describe(),
        "sentence": " | ".join(PROMPTS),
        "prompts": PROMPTS,
        "from": "written for this book: a verb that agrees with the first noun and not with the second, a fact, and "
        "words that come a second time",
        "arrays": {
            "heads": f"(prompts, {HEADS}, 2): layer and head of those that change the right token's probability most "
            "when one is silenced alone, the largest change first, up or down",
            "effects": "(prompts, layers, heads): ln of the right token's probability, less that without the head",
            "probabilities": f"(prompts, 2^{HEADS} subsets, {WORDS}): of the right token and of the most probable "
            "others on average; bit k of a subset's number says that head k is silenced; tokens, as shown, are these, "
            "prompt after prompt, with a mark for a space in front",
        },
    }
