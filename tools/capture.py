"""Make the captured results of `mha.data.capture` from the real models: python tools/capture.py [NAME ...]

Needs the weights: python -m mha.data fetch all. The same weights give the same numbers up to the last digits kept.
"""

import datetime
import json
import re
import sys
from importlib.metadata import version
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import torch

from head_similarity import likeness_of
from mha.analysis import capture as record
from mha.analysis.patterns import entropy, induction_score, previous_token_score, sink_score
from mha.analysis.stream import follow_stream, stream_sizes
from mha.data import load, pretrained
from mha.data.captures import pack_causal
from mha.masks import lengths
from mha.models.probe import layer_heads
from pruned_prompts import pruned

HERE = Path(__file__).parent.parent / "mha" / "data" / "captures"
SHOWN_WORDS, SCORED_WORDS, DRAWS = 20, 50, 5
PASSAGE_TOKENS, LOWEST_EXPONENT = 64, -60
NAMED_TOKENS, TOKEN_GROUPS = 40, 80
PROMPTS = [
    "The capital of France is",
    "When Mary and John went to the store, John gave a drink to",
    "Call me Ishmael. Some years ago, I thought I would sail about a little and see the watery part of the",
    "My favourite animal is the",
]


def smollm2_sentence():
    """Every head of the decoder on one sentence whose second half takes up words of the first."""
    sentence = "That same ocean rolls now; that same ocean destroyed the wrecked ships of last year."
    model = pretrained("smollm2")
    numbers = model.encode(sentence)
    arrays = {
        "ids": numbers[0].numpy().astype(np.int32),
        "patterns_packed": pack_causal(model.attention_maps(sentence).numpy()).astype(np.float16),
    }
    about = {
        "model": model.describe(),
        "sentence": sentence,
        "from": "Moby Dick, chapter 58",
        "arrays": {
            "ids": "token numbers; the first is the start token <|endoftext|>, shown as <start>",
            "patterns": "weights of every head: (30 layers, 9 heads, queries, keys), rounded to float16",
        },
    }
    return model.tokens(numbers[0]), arrays, about


def smollm2_repeat():
    """Every head of the decoder on random words said twice, which only an induction head can foresee."""
    model = pretrained("smollm2")
    words = _common_words(model.tokenizer)
    shown = _twice(model, words, SHOWN_WORDS, seed=0)
    scores, losses = [], []
    for seed in range(DRAWS):
        numbers = _twice(model, words, SCORED_WORDS, seed)
        scores.append(_scores(model.model.attention_maps(numbers)[:, 0].numpy(), SCORED_WORDS))
        losses.append(_losses(model.model, numbers))
    previous, induction, sink = np.mean(scores, axis=0)
    first, second = np.split(np.mean(losses, axis=0), 2)
    patterns = model.model.attention_maps(shown)[:, 0].numpy()
    arrays = {
        "ids": shown[0].numpy().astype(np.int32),
        "patterns_packed": (np.round(pack_causal(patterns) * 1024) / 1024).astype(np.float16),
        "previous_token": previous.astype(np.float32),
        "induction": induction.astype(np.float32),
        "sink": sink.astype(np.float32),
        "loss_first": first.astype(np.float32),
        "loss_second": second.astype(np.float32),
    }
    about = {
        "model": model.describe(),
        "sentence": model.tokenizer.decode(shown[0].tolist()),
        "from": f"{len(words)} frequent words of Moby Dick, one token each, drawn without replacement; patterns: "
        f"seed 0, {SHOWN_WORDS} words; scores and losses: mean of seeds 0 to {DRAWS - 1}, {SCORED_WORDS} words each",
        "period": SHOWN_WORDS,
        "scored_period": SCORED_WORDS,
        "arrays": {
            "ids": "token numbers: the start token, then the words twice",
            "patterns": "weights of every head: (30 layers, 9 heads, queries, keys), rounded to 1/1024",
            "previous_token": "(layers, heads): mean weight on the token before, all queries but the first",
            "induction": "(layers, heads): mean weight on the token after the same word's first time, second copy",
            "sink": "(layers, heads): mean weight on the start token, all queries but the first",
            "loss_first": "nats to foresee each word of the first copy, from the tokens before it",
            "loss_second": "nats to foresee each word of the second copy, from the tokens before it",
        },
    }
    return model.tokens(shown[0]), arrays, about


@torch.no_grad()
def smollm2_next_token():
    """What the decoder would say next after four beginnings: the first tokens one by one, the others in groups."""
    model = pretrained("smollm2")
    logits = np.stack([model.model(model.encode(prompt))[0, -1].double().numpy() for prompt in PROMPTS])
    order = np.argsort(-logits, -1, kind="stable")
    logits = np.take_along_axis(logits, order, -1)
    ends = np.unique(np.geomspace(NAMED_TOKENS, logits.shape[-1], TOKEN_GROUPS + 1).astype(int))
    groups = [logits[:, start:end] for start, end in pairwise(ends)]
    arrays = {
        "candidates": order[:, :NAMED_TOKENS].astype(np.int32),
        "logits": logits[:, :NAMED_TOKENS].round(3),
        "group_logits": np.stack([np.log(np.exp(group).mean(-1)) for group in groups], -1).round(3),
        "group_counts": np.diff(ends).astype(np.int32),
    }
    about = {
        "model": model.describe(),
        "sentence": " | ".join(PROMPTS),
        "prompts": PROMPTS,
        "from": "beginnings that leave more or less open what comes next; the third is from Moby Dick, chapter 1",
        "arrays": {
            "candidates": f"(prompts, {NAMED_TOKENS}): the most probable next tokens, best first; tokens, as shown, "
            "are these, prompt after prompt, with a mark for a space in front",
            "logits": "their logits, rounded to three decimals",
            "group_logits": "(prompts, groups): of the other tokens, in groups of neighbouring ranks, the logit that "
            "each would have if those of a group were equally probable",
            "group_counts": "(groups,): how many tokens each group has",
        },
    }
    shown = [model.tokenizer.decode([number]) for number in arrays["candidates"].ravel().tolist()]
    return [re.sub(r"^ ", "␣", token).replace("\n", "↵") for token in shown], arrays, about


def smollm2_layer():
    """One layer of the decoder on a passage; of all layers, how large numbers get and how small gradients."""
    model, layer = pretrained("smollm2"), 18
    numbers = model.encode(load("moby_dick")["text"][0][:1000])[:, :PASSAGE_TOKENS]
    streams, calls = _one_training_pass(model.model, numbers)
    products = [_visible_products(call) for call in calls]
    gradients = {
        "queries": [call.q.grad[..., 1:-1, :] for call in calls],
        "scores": [_score_gradients(call) for call in calls],
    }
    arrays = {
        "ids": numbers[0].numpy().astype(np.int32),
        **{name: getattr(calls[layer], name)[0].detach().numpy().round(3) for name in "qkv"},
        "largest_stream": np.array([float(x.abs().max()) for x in streams], np.float32),
        "largest_product": np.array([float(x.abs().max()) for x in products], np.float32),
        "largest_score": np.array([float(x.max()) / 8 for x in products], np.float32),
        "exponents": np.arange(LOWEST_EXPONENT, 1),
        **{f"{name}_by_exponent": _counts_by_exponent(found) for name, found in gradients.items()},
    }
    about = {
        "model": model.describe(),
        "sentence": model.tokenizer.decode(numbers[0].tolist()),
        "from": f"Moby Dick, chapter 1, the first {PASSAGE_TOKENS} tokens",
        "layer": layer,
        "arrays": {
            "ids": "token numbers; the first is the start token <|endoftext|>, shown as <start>",
            "q": "queries of layer `layer`: (9 heads, length, 64), positions applied, rounded to three decimals",
            "k": "keys: (3 heads, length, 64)",
            "v": "values",
            "largest_stream": "largest absolute value of what enters each layer: (30 layers,)",
            "largest_product": "largest absolute q·k of each layer, visible pairs, before the scale",
            "largest_score": "largest score of each layer, after the scale 1/8",
            "exponents": "whole exponents e; the first takes what is below it, zeros too",
            "queries_by_exponent": "how many gradients of queries have 2^e ≤ |gradient| < 2^(e+1): all layers, "
            "all queries but the first and the last, whose gradients are 0",
            "scores_by_exponent": "the same for gradients of scores, visible pairs of the same queries",
        },
    }
    return model.tokens(numbers[0]), arrays, about


def minilm_sentence():
    """Every head of the encoder on a short sentence, and all of the layer whose heads differ most."""
    sentence = "He was full of the fire of the hunt."
    model = pretrained("minilm")
    numbers = model.encode(sentence)
    patterns = model.attention_maps(sentence).numpy()
    spread = [_spread(heads) for heads in patterns.astype(np.float64)]
    layer = int(np.argmax(spread))
    q, k, v, _ = (x[0].numpy() for x in layer_heads(model.model, numbers, layer))
    out = model.model.blocks[layer].attention.out_proj
    arrays = {
        "ids": numbers[0].numpy().astype(np.int32),
        "patterns": patterns.astype(np.float16),
        "q": q.round(3),
        "k": k.round(3),
        "v": v.round(3),
        "w_o": out.weight.T.detach().numpy().astype(np.float16),
        "b_o": out.bias.detach().numpy().astype(np.float16),
    }
    about = {
        "model": model.describe(),
        "sentence": sentence,
        "from": "Moby Dick, chapter 93",
        "layer": layer,
        "spread": [round(x, 4) for x in spread],
        "chosen": "the layer of largest spread: Jensen-Shannon divergence in nats, mean over pairs of heads and rows",
        "arrays": {
            "ids": "token numbers",
            "patterns": "weights of every head: (6 layers, 12 heads, queries, keys), rounded to float16",
            "q": "queries of layer `layer`: (12 heads, length, 32), rounded to three decimals; so k and v",
            "k": "keys",
            "v": "values",
            "w_o": "output projection of that layer as the papers write it, X W: (heads · 32, 384), rounded to float16",
            "b_o": "its bias",
        },
    }
    return model.tokens(numbers[0]), arrays, about


def minilm_projections():
    """What one head of the encoder is given, and its three projections."""
    sentence = "He was full of the fire of the hunt."
    model, (layer, head) = pretrained("minilm"), (1, 7)
    numbers = model.encode(sentence)
    attention, own = model.model.blocks[layer].attention, slice(32 * head, 32 * (head + 1))
    inputs = []
    hook = attention.register_forward_pre_hook(lambda module, args: inputs.append(args[0][0].detach().numpy()))
    model.model(numbers)
    hook.remove()
    arrays = {"ids": numbers[0].numpy().astype(np.int32), "x": inputs[0].round(3)}
    for letter in "qkv":
        projection = getattr(attention, f"{letter}_proj")
        arrays[f"w_{letter}"] = projection.weight[own].T.detach().numpy().astype(np.float16)
        arrays[f"b_{letter}"] = projection.bias[own].detach().numpy().astype(np.float16)
    shape = "as the papers write it, X W: (384, 32), rounded to float16"
    about = {
        "model": model.describe(),
        "sentence": sentence,
        "from": "Moby Dick, chapter 93",
        "layer": layer,
        "head": head,
        "arrays": {
            "ids": "token numbers",
            "x": "input of layer `layer`: (length, 384), rounded to three decimals",
            "w_q": f"projection of head `head` for queries, {shape}; so w_k and w_v",
            "b_q": "its bias; so b_k and b_v",
            "w_k": "for keys",
            "b_k": "its bias",
            "w_v": "for values",
            "b_v": "its bias",
        },
    }
    return model.tokens(numbers[0]), arrays, about


def minilm_stream():
    """What each layer of the encoder adds to each token of a short sentence, in lengths and cosines."""
    return _stream("minilm", "post")


def smollm2_stream():
    """The same of the decoder, whose norms stand before its layers."""
    return _stream("smollm2", "pre")


def _stream(name, order):
    sentence = "He was full of the fire of the hunt."
    model = pretrained(name)
    numbers = model.encode(sentence)
    sizes = stream_sizes(*(x[:, 0] for x in follow_stream(model.model, numbers)))
    layers = "two for each block: attention, then the feed-forward layer"
    about = {
        "model": model.describe(),
        "sentence": sentence,
        "from": "Moby Dick, chapter 93",
        "order": order,
        "arrays": {
            "ids": "token numbers",
            "norm": f"length of each token before the first layer and after each ({layers}): (layers + 1, length)",
            "added_norm": "length of what each layer adds: (layers, length)",
            "added_cosine": "cosine of what is added and what it is added to",
            "start_cosine": "cosine of each token with what enters the first block: (layers + 1, length)",
        },
    }
    arrays = {key: value.astype(np.float32) for key, value in sizes._asdict().items()}
    return model.tokens(numbers[0]), {"ids": numbers[0].numpy().astype(np.int32), **arrays}, about


def minilm_words():
    """Vectors of single words: the encoder's last hidden states, averaged and set to length 1."""
    words = ["dog", "sparrow", "whale", "spider", "ant", "cat", "penguin", "shark", "tarantula", "wasp", "bee", "table"]
    model = pretrained("minilm")
    means = [model.model(model.encode(word))[0].mean(0).detach().numpy() for word in words]
    vectors = np.array([mean / np.linalg.norm(mean) for mean in means])
    about = {
        "model": model.describe(),
        "sentence": " ".join(words),
        "from": "chosen for the dictionary of the chapter",
        "arrays": {"vectors": "(words, 384), each of length 1, rounded to float16"},
    }
    return words, {"vectors": vectors.astype(np.float16)}, about


def minilm_pair():
    """Every token of two sentences that say the same, as the encoder's last layer leaves it."""
    sentences = "The captain saw the white whale at dawn.", "At sunrise a pale whale was seen by the skipper."
    model = pretrained("minilm")
    numbers = [model.encode(sentence)[0] for sentence in sentences]
    states = [model.model(ids[None])[0].detach().numpy() for ids in numbers]
    vectors = np.concatenate([x / np.linalg.norm(x, axis=-1, keepdims=True) for x in states])
    ids = torch.cat(numbers)
    about = {
        "model": model.describe(),
        "sentence": " ".join(sentences),
        "from": "written for this book",
        "length_of_first": len(numbers[0]),
        "arrays": {
            "ids": "token numbers of both",
            "vectors": "(both lengths, 384): last hidden states, each of length 1, rounded to float16",
        },
    }
    return model.tokens(ids), {"ids": ids.numpy().astype(np.int32), "vectors": vectors.astype(np.float16)}, about


def minilm_positions():
    """The encoder's table of learned positions, in a few numbers, and what moving a sentence along it changes."""
    sentence = "He was full of the fire of the hunt."
    model = pretrained("minilm")
    numbers = model.encode(sentence)
    table = model.model.positions.weight.detach().double().numpy()
    axes, spectrum, _ = np.linalg.svd(table - table.mean(0), full_matrices=False)
    directions = table / np.linalg.norm(table, axis=-1, keepdims=True)
    cosines = directions @ directions.T
    starts = np.array([0, 1, 2, 8, 64, 200, 400, 500])
    means, kept = (np.array([_mean_state(model, numbers, n, first) for n in starts]) for first in (0, 1))
    arrays = {
        "norms": np.linalg.norm(table, axis=-1).astype(np.float16),
        "spectrum": spectrum.astype(np.float32),
        "components": (axes * spectrum)[:, :4].astype(np.float16),
        "cosines": cosines[:64, :64].astype(np.float16),
        "by_distance": np.array([cosines.diagonal(k).mean() for k in range(65)], np.float32),
        "starts": starts.astype(np.int32),
        "alike": (means @ means[0]).astype(np.float32),
        "alike_kept": (kept @ means[0]).astype(np.float32),
    }
    about = {
        "model": model.describe(),
        "sentence": sentence,
        "from": "Moby Dick, chapter 93; the table is the model's own",
        "arrays": {
            "norms": "length of the vector of each of the 512 positions, rounded to float16",
            "spectrum": "singular values of the table (512, 384) less its mean row",
            "components": "the four largest principal components of each position: (512, 4), rounded to float16",
            "cosines": "cosine of the vectors of the first 64 positions: (64, 64), rounded to float16",
            "by_distance": "mean cosine of two positions 0 to 64 apart",
            "starts": "position of the sentence's first token",
            "alike": "cosine of the sentence's mean state at each start with that at start 0",
            "alike_kept": "the same with the start token kept at position 0",
        },
    }
    return model.tokens(numbers[0]), arrays, about


def minilm_changes():
    """How far the states of an encoder and of a decoder move when one word of a sentence is exchanged."""
    words = ["the", "boat", "lay", "at", "the", "bank", "of", "the", "river"]
    others = ["a", "ship", "stood", "near", "one", "edge", "by", "a", "city"]
    encoder, decoder = pretrained("minilm"), pretrained("smollm2")
    depths = range(7)
    moved = {}
    for key, model, step, space in (("encoder", encoder, 1, ""), ("decoder", decoder, 5, " ")):
        states = [
            _streams(model, space + " ".join([*words[:i], other, *words[i + 1 :]])) for i, other in enumerate(others)
        ]
        before = _streams(model, space + " ".join(words))
        moved[key] = np.stack([np.linalg.norm(x - before, axis=-1) for x in states], axis=1)[::step]
        moved[key] /= np.linalg.norm(before, axis=-1)[::step, None]
    about = {
        "model": f"{encoder.describe()}; {decoder.describe()}",
        "sentence": " ".join(words),
        "from": "written for this book",
        "others": others,
        "encoder_layers": list(depths),
        "decoder_layers": [5 * n for n in depths],
        "arrays": {
            "encoder": "length of the change of each state over the length of the state: (7 depths, 9 words exchanged, "
            "11 tokens: [CLS], the words, [SEP]); depth 0 is what enters the first layer",
            "decoder": "the same of the decoder: (7 depths, 9 words exchanged, 10 tokens: the start token, the words)",
        },
    }
    return words, {key: x.astype(np.float32) for key, x in moved.items()}, about


def minilm_triplets():
    """Sentences, their paraphrases and two kinds of sentences that share more words: how near the encoder puts them."""
    model = pretrained("minilm")
    lines = (Path(__file__).parent / "sentence_triplets.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines]
    sentences = [sentence for row in rows for sentence in row]
    pooled = {
        "mean": [_unit(_states(model, x).mean(0)) for x in sentences],
        "first": [_unit(_states(model, x)[0]) for x in sentences],
        "words_alone": [_unit(_inputs(model, x)[1:-1].mean(0)) for x in sentences],
    }
    cosines = {}
    for name, vectors in pooled.items():
        x = np.stack(vectors).reshape(len(rows), 4, -1)
        cosines[name] = np.einsum("nd,nkd->nk", x[:, 0], x[:, 1:]).astype(np.float32)
    swapped = ["The whale killed the man.", "The man killed the whale."]
    order = np.prod([_unit(_states(model, x).mean(0)) for x in swapped], axis=0).sum()
    about = {
        "model": model.describe(),
        "sentence": "24 sentences, each with a paraphrase, a contrary and a sentence about something else",
        "from": "written for this book, in tools/sentence_triplets.txt; the last two share more words than the second",
        "swapped": swapped,
        "arrays": {
            "mean": "cosine of each sentence with its paraphrase, its contrary and the other: (24, 3); mean of all "
            "states of the last layer",
            "first": "the same with the state of [CLS] in place of the mean",
            "words_alone": "the same with the mean of the word embeddings, before any layer",
            "order": "cosine of two sentences of the same words in another order, by the mean",
        },
    }
    return sentences, {**cosines, "order": np.array([order], np.float32)}, about


def minilm_heads():
    """Every head of the encoder on a passage, in a few numbers, and what padding changes."""
    model = pretrained("minilm")
    numbers = model.encode(load("moby_dick")["text"][0])[:, : 4 * PASSAGE_TOKENS - 1]
    numbers = torch.cat([numbers, model.encode("")[:, -1:]], dim=-1)
    patterns = model.model.attention_maps(numbers)[:, 0].numpy().astype(np.float64)
    backwards = patterns[..., ::-1, ::-1]
    scores = {
        "previous_token": previous_token_score(patterns),
        "next_token": previous_token_score(backwards),
        "on_first": sink_score(patterns),
        "on_last": sink_score(backwards),
        "entropy": entropy(patterns),
    }
    n = numbers.shape[-1]
    padded = torch.nn.functional.pad(numbers, (0, 37))
    with torch.no_grad():
        states = model.model(padded, mask=lengths(torch.tensor([n])))[0, :n] - model.model(numbers)[0]
    about = {
        "model": model.describe(),
        "sentence": model.tokenizer.decode(numbers[0, :40].tolist()) + " …",
        "from": f"Moby Dick, chapter 1, the first {n - 2} tokens between [CLS] and [SEP]",
        "length": n,
        "arrays": {
            "previous_token": "(6 layers, 12 heads): mean weight on the token before, all queries but the first",
            "next_token": "mean weight on the token after, all queries but the last",
            "on_first": "mean weight on [CLS], all queries but itself",
            "on_last": "mean weight on [SEP], all queries but itself",
            "entropy": "mean entropy of the rows in nats",
            "padding": "largest change of a state by 37 padding tokens that are hidden; the states are about 1 in size",
        },
    }
    padding = np.array([float(states.abs().max())], np.float32)
    arrays = {name: score.astype(np.float32) for name, score in scores.items()}
    return model.tokens(numbers[0]), {**arrays, "padding": padding}, about


def minilm_similarity():
    """How alike the heads of the encoder are on a passage, and how alike they are by chance."""
    return likeness_of("minilm")


def smollm2_similarity():
    """How alike the heads of the decoder are on a passage, and how alike they are by chance."""
    return likeness_of("smollm2")


def smollm2_pruned():
    """What the decoder says next without any of the heads that matter most: every subset of eight, three beginnings."""
    return pruned()


@torch.no_grad()
def _streams(model, text):
    """Return what enters the first layer and what leaves each: (layers + 1, length, d_model)."""
    streams, blocks = [], model.model.blocks
    hooks = [blocks[0].register_forward_pre_hook(lambda part, args: streams.append(args[0]))]
    hooks += [block.register_forward_hook(lambda part, args, output: streams.append(output)) for block in blocks]
    model.model(model.encode(text))
    for hook in hooks:
        hook.remove()
    return torch.cat(streams).double().numpy()


def _inputs(model, text):
    return model.model.embed(model.encode(text)[0]).detach().numpy()


def _states(model, text):
    return model.model(model.encode(text))[0].detach().numpy()


def _unit(vector):
    return vector / np.linalg.norm(vector)


@torch.no_grad()
def _mean_state(model, numbers, start, first):
    """Return the mean last state, of length 1, with the tokens from the `first` on moved by `start` positions."""
    table, n = model.model.positions.weight, numbers.shape[-1]
    kept = table[:n].clone()
    table[first:n] = table[start + first : start + n].clone()
    mean = model.model(numbers)[0].mean(0).numpy()
    table[:n] = kept
    return mean / np.linalg.norm(mean)


def _one_training_pass(model, numbers):
    """Return what enters each layer, and the calls of attention with the gradients of the mean loss of next tokens."""
    streams = []
    hooks = [
        block.register_forward_pre_hook(lambda part, args: streams.append(args[0].detach())) for block in model.blocks
    ]
    with record(model) as seen:
        logits = model(numbers)[0, :-1]
    for hook in hooks:
        hook.remove()
    for call in seen.calls:
        call.q.retain_grad()
        call.heads.retain_grad()
    torch.nn.functional.cross_entropy(logits, numbers[0, 1:]).backward()
    return streams, seen.calls


def _visible_products(call):
    q, k = call.q.detach(), call.k.detach()
    products = torch.einsum("bgrid,bgjd->bgrij", q.unflatten(1, (k.shape[1], -1)), k)
    return products[..., torch.ones(products.shape[-2:], dtype=torch.bool).tril()]


def _score_gradients(call):
    """Return the gradients of the scores of visible pairs, from those of what the heads found."""
    weights, found, d_found = (x.detach().double() for x in (call.weights, call.heads, call.heads.grad))
    values = call.v.detach().double().repeat_interleave(call.q.shape[1] // call.v.shape[1], 1)
    d_weights = d_found @ values.mT - (d_found * found).sum(-1, keepdim=True)
    see = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    see[[0, -1]] = False  # one key alone, and no next token: gradients of 0
    return (weights * d_weights)[..., see]


def _counts_by_exponent(gradients):
    sizes = np.abs(np.concatenate([x.detach().double().numpy().ravel() for x in gradients]))
    with np.errstate(divide="ignore"):
        exponents = np.maximum(np.floor(np.log2(sizes)), LOWEST_EXPONENT).astype(int)
    return np.bincount(exponents - LOWEST_EXPONENT, minlength=1 - LOWEST_EXPONENT)


def _common_words(tokenizer):
    """Return the token numbers of lower-case words that stand at least 20 times in Moby Dick and are one token."""
    text = " ".join(load("moby_dick")["text"]).split()
    words, counts = np.unique([word for word in text if word.isascii() and word.isalpha()], return_counts=True)
    often = [word for word in words[counts >= 20] if 3 <= len(word) <= 6 and word.islower()]
    numbers = (tokenizer.token_to_id(f"Ġ{word}") for word in often)
    return [number for number in numbers if number is not None]


def _twice(model, words, count, seed):
    drawn = np.random.default_rng(seed).choice(words, count, replace=False).tolist()
    return torch.cat([model.encode(""), torch.tensor([drawn + drawn])], dim=-1)


def _scores(patterns, period):
    """Return three scores of each head on a run of one start token and `period` words, twice."""
    words = patterns[..., 1:, 1:]
    return previous_token_score(patterns), induction_score(words, period), sink_score(patterns)


@torch.no_grad()
def _losses(model, numbers):
    logits = model(numbers)[0, :-1]
    return torch.nn.functional.cross_entropy(logits, numbers[0, 1:], reduction="none").numpy()


def _spread(heads):
    """Return the mean Jensen-Shannon divergence between two heads of (heads, i, j)."""
    pairs = [(p, q, (p + q) / 2) for p, q in combinations(heads, 2)]
    return float(np.mean([(_divergence(p, m) + _divergence(q, m)) / 2 for p, q, m in pairs]))


def _divergence(p, m):
    return (p * np.log(np.divide(p, m, where=p > 0, out=np.ones_like(p)))).sum(axis=-1)


MAKERS = (
    minilm_changes,
    minilm_heads,
    minilm_pair,
    minilm_positions,
    minilm_projections,
    minilm_sentence,
    minilm_similarity,
    minilm_stream,
    minilm_triplets,
    minilm_words,
    smollm2_layer,
    smollm2_next_token,
    smollm2_pruned,
    smollm2_repeat,
    smollm2_sentence,
    smollm2_similarity,
    smollm2_stream,
)


def main(*names):
    """Write the named captures, or all."""
    torch.set_num_threads(1)
    makers = {maker.__name__: maker for maker in MAKERS}
    for name in names or makers:
        tokens, arrays, about = makers[name]()
        about["command"] = f"python tools/capture.py {name}"
        about["versions"] = {package: version(package) for package in ("mha", "numpy", "tokenizers", "torch")}
        about["date"] = datetime.date.today().isoformat()
        np.savez_compressed(HERE / f"{name}.npz", **arrays)
        text = json.dumps({"tokens": tokens, **about}, ensure_ascii=False, indent=2) + "\n"
        (HERE / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {(HERE / f'{name}.npz').stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
