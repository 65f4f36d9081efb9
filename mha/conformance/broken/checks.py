"""Tests of a whole model, where the conformance kit sees one attention. Each returns an error, 0 where all is right.

`model(tokens, cache=None, keep=None)` returns logits (b, n, vocabulary) and a cache; `tokens` are (b, n).
"""

import copy

import torch


@torch.no_grad()
def future_error(model, tokens):
    """Change the last token to the next number: how far do the logits before it move?

    There are at least two tokens, and the last of a text is not the highest of the vocabulary.
    """
    other = tokens.clone()
    other[:, -1] += 1
    return float((model(tokens)[0] - model(other)[0])[:, :-1].abs().max())


@torch.no_grad()
def cache_error(model, tokens):
    """Feed one token at a time: how far from the whole text?   Book: {eq}`loss-in-use`."""
    rows, cache = [], None
    for token in tokens.unbind(1):
        logits, cache = model(token[:, None], cache)
        rows.append(logits)
    return float((model(tokens)[0] - torch.cat(rows, 1)).abs().max())


@torch.no_grad()
def padding_error(model, tokens):
    """Put three tokens of padding in front: how far do the real logits move?"""
    front = torch.zeros_like(tokens[:, :1]).expand(-1, 3)
    keep = torch.cat([torch.zeros_like(front), torch.ones_like(tokens)], 1).bool()
    padded = model(torch.cat([front, tokens], 1), keep=keep)[0][:, 3:]
    return float((model(tokens)[0] - padded).abs().max())


@torch.no_grad()
def pooling_error(model, tokens):
    """Put three tokens of padding behind: how far does the mean of the sequence move?"""
    keep = torch.ones_like(tokens).bool()
    behind = torch.zeros_like(tokens[:, :3])
    more, longer = torch.cat([tokens, behind], 1), torch.cat([keep, behind.bool()], 1)
    alone, padded = (model.pooled(model.stream(x, keep=k)[0], k) for x, k in ((tokens, keep), (more, longer)))
    return float((alone - padded).abs().max())


@torch.no_grad()
def repeat_error(model, tokens):
    """Ask twice: how far are the answers from each other?"""
    return float((model(tokens)[0] - model(tokens)[0]).abs().max())


@torch.no_grad()
def residual_error(model, tokens):
    """Let no layer add anything: how far is the stream from the embeddings?"""
    silent = _silenced(model)
    return float((silent.stream(tokens)[0] - silent.embed(tokens)).abs().max())


@torch.no_grad()
def last_norm_error(model, tokens):
    """Make the stream a hundred times as large: how far do the logits move?"""
    silent = _silenced(model)
    silent.embed.weight *= 100
    before = silent(tokens)[0]
    silent.embed.weight *= 100
    return float((before - silent(tokens)[0]).abs().max())


@torch.no_grad()
def distance_error(model, tokens):
    """Let all contents be alike: by how much does some other key outweigh the token itself?"""
    places = torch.arange(tokens.shape[1])
    bias = model.bias(places, places, model.num_heads)
    mask = model.visible(len(places), 0)
    scores = torch.zeros(mask.shape) if bias is None else bias
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return float((weights.amax(-1) - weights.diagonal(dim1=-2, dim2=-1)).max())


def _silenced(model):
    silent = copy.deepcopy(model)
    for layer in silent.layers:
        for part in (layer.out_proj, layer.feed[-1]):
            part.weight.zero_()
            part.bias.zero_()
    return silent


CHECKS = {
    check.__name__: check
    for check in (
        future_error,
        cache_error,
        padding_error,
        pooling_error,
        repeat_error,
        residual_error,
        last_norm_error,
        distance_error,
    )
}
