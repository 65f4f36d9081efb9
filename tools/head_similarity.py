"""What the captures of head similarity are made of: distances of maps, similarities of outputs, and their baselines."""

import numpy as np
import torch

from mha.analysis import capture as record
from mha.analysis.metrics import rank_correlation
from mha.analysis.similarity import output_similarities, pattern_distances, shuffled_keys
from mha.data import load, pretrained
from mha.models.start import draw_weights

MAP_TOKENS, OUTPUT_TOKENS = (
    96,
    256,
)  # maps of 36 315 pairs of heads are dear; outputs need many more tokens than columns
PASSAGES = (1, 41)
WORDS = {"smollm2": slice(1, None), "minilm": slice(1, -1)}  # without the tokens that begin and end a text
MEASURES = {
    "maps": "Jensen-Shannon distance of the maps of two heads",
    "words": "the same without the tokens that begin and end the text, each row divided by what is left of it",
    "outputs": f"linear CKA of what two heads add to the stream, over the words of {OUTPUT_TOKENS} tokens",
}
CHANCE = {
    "permuted": "in the model with the entries of each matrix shuffled",
    "drawn": "in the model with weights as before training",
    "shuffled": "beside heads whose keys were shuffled in each row; for outputs, whose tokens were",
}
ARRAYS = {key: f"{told}, in steps of 1/255: upper triangle, row by row" for key, told in MEASURES.items()}
ARRAYS |= {
    "self": "(3, heads): distance of the maps of a head on two passages, words alone; mean and least to another head",
    "again": "rank correlation of maps, words and outputs of all pairs on two passages",
}
ARRAYS |= {
    f"{key}_{kind}": f"deciles of `{key}` {told}: of all pairs, and of the most alike to each head, (2, 11)"
    for key in MEASURES
    for kind, told in CHANCE.items()
}


def likeness_of(name):
    """Return tokens, arrays and about of a capture: how alike the heads of a model are, and how alike by chance."""
    model, words = pretrained(name), WORDS[name]
    passages = [_passage(model, chapter) for chapter in PASSAGES]
    (maps, outputs), (other_maps, other_outputs) = (_heads_of(model, x) for x in passages)
    seen = np.tri(MAP_TOKENS, dtype=bool) if name == "smollm2" else np.ones((MAP_TOKENS, MAP_TOKENS), bool)
    arrays = _measured(maps, outputs, seen, words)
    again = _measured(other_maps, other_outputs, seen, words)
    triangle = np.triu_indices(len(maps), 1)
    chance = {"permuted": permuted, "drawn": drawn}
    quantiles = {}
    for kind, change in chance.items():
        heads = _heads_of(change(pretrained(name)), passages[0])
        quantiles |= {f"{key}_{kind}": _deciles(x, key) for key, x in _measured(*heads, seen, words).items()}
    quantiles |= {f"{key}_shuffled": _deciles(x, key) for key, x in _shuffled(maps, outputs, seen, words).items()}
    arrays = {key: x[triangle] for key, x in arrays.items()}
    spread = [rank_correlation(x, again[key][triangle]) for key, x in arrays.items()]
    across = pattern_distances(maps[:, words, words], other_maps[:, words, words], visible=seen[words, words])
    strangers = np.where(np.eye(len(maps), dtype=bool), np.nan, across)
    itself = np.stack([across.diagonal(), np.nanmean(strangers, 1), np.nanmin(strangers, 1)])
    arrays = {key: np.rint(255 * x).astype(np.uint8) for key, x in arrays.items()}
    others = {"self": itself, "again": np.array(spread)} | quantiles
    arrays |= {key: x.astype(np.float16) for key, x in others.items()}
    about = {
        "model": model.describe(),
        "sentence": model.tokenizer.decode(passages[0][0, 1:41].tolist()) + " …",
        "from": f"Moby Dick, chapter {PASSAGES[0]}; the second passage is from chapter {PASSAGES[1]}",
        "map_tokens": MAP_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "arrays": ARRAYS,
    }
    return model.tokens(passages[0][0, :MAP_TOKENS]), arrays, about


def permuted(known):
    """Give the matrices of each block the same numbers in other places."""
    generator = torch.Generator().manual_seed(0)
    for part in known.model.blocks.modules():
        if isinstance(part, torch.nn.Linear):
            places = torch.randperm(part.weight.numel(), generator=generator)
            part.weight.data = part.weight.data.flatten()[places].view_as(part.weight)
    return known


def drawn(known):
    """Draw all weights as before training."""
    torch.manual_seed(0)
    draw_weights(known.model)
    return known


def _passage(known, chapter):
    """Return the first tokens of a chapter between the tokens that begin and end a text."""
    numbers, edges = known.encode(load("moby_dick")["text"][chapter - 1][:4000]), known.encode("")
    return torch.cat([numbers[:, : OUTPUT_TOKENS + 1 - edges.shape[1]], edges[:, 1:]], dim=1)


@torch.no_grad()
def _heads_of(known, numbers):
    """Return the maps on the first tokens, (heads, i, j), and what each head adds at all, (heads, tokens, d_model)."""
    start = numbers[:, :MAP_TOKENS].clone()
    start[:, -1] = numbers[:, -1] if known.name == "minilm" else start[:, -1]
    maps = known.model.attention_maps(start)[:, 0].flatten(0, 1).double().numpy()
    with record(known.model) as seen:
        known.model(numbers)
    outputs = [
        torch.einsum("hnd,mhd->hnm", call.heads[0], call.layer.out_proj.weight.unflatten(1, (call.layer.num_heads, -1)))
        for call in seen.calls
    ]
    return maps, torch.cat(outputs).double().numpy()


def _measured(maps, outputs, seen, words):
    return {
        "maps": pattern_distances(maps, visible=seen),
        "words": pattern_distances(maps[:, words, words], visible=seen[words, words]),
        "outputs": output_similarities(outputs[:, words]),
    }


def _shuffled(maps, outputs, seen, words):
    rng, seen_words = np.random.default_rng(0), seen[words, words]
    of_words = maps[:, words, words]
    return {
        "maps": pattern_distances(maps, shuffled_keys(maps, rng, visible=seen), visible=seen),
        "words": pattern_distances(of_words, shuffled_keys(of_words, rng, visible=seen_words), visible=seen_words),
        "outputs": output_similarities(
            outputs[:, words], outputs[:, words][:, rng.permutation(outputs[:, words].shape[1])]
        ),
    }


def _deciles(found, key):
    """Return deciles of all pairs of two heads, and of the most alike to each head."""
    others = np.where(np.eye(len(found), dtype=bool), np.nan, found)
    nearest = np.nanmax(others, 1) if key == "outputs" else np.nanmin(others, 1)
    return np.stack([np.nanquantile(x, np.linspace(0, 1, 11)) for x in (others, nearest)])
