"""What a part of a model does to its answer: put the part of one pass into another, or leave a token out.

A score is a function of the model's output that returns one number for each sample, (batch,). A clean and a corrupted
input are equally long and differ in what the score asks for: "The keys to the cabinet" and "The key to the cabinet".
"""

from contextlib import contextmanager

import torch

from mha import masks
from mha.analysis.ablation import chosen_heads
from mha.analysis.cores import attention_layers, wrapped_cores
from mha.analysis.recording import capture
from mha.integers import integer
from mha.nn.block import EncoderBlock

__all__ = [
    "leave_one_out",
    "patched_heads",
    "patched_stream",
    "patching_effects",
    "restored",
    "stream_patching_effects",
]


@contextmanager
def patched_heads(model, heads, recording, *, positions=None):
    """Let heads find what they found in a recorded pass, until the block ends.   Book: {eq}`patched-head`

    `heads` are pairs (layer, head) as in `without_heads`, `recording` is from `capture`, and `positions` lists the
    queries whose results are replaced, all by default. ::

        with capture(model) as clean:
            model(tokens)
        with patched_heads(model, {(18, 6)}, clean):
            model(other_tokens)

    Both passes are whole ones, of one shape. Vig et al. (2020), Meng et al. (2022).
    """
    layers = attention_layers(model, "it has no heads")
    chosen = chosen_heads(layers, heads)
    with wrapped_cores(
        {name: layers[name] for name in chosen},
        lambda name, layer: _patcher(layer, chosen[name], recording[name].heads, positions),
    ):
        yield model


def _patcher(layer, numbers, given, positions):
    core, rows = layer.core, slice(None) if positions is None else list(positions)
    places = [place for place, head in enumerate(layer.head_ids) if head in numbers]

    def patch(q, k, v, **options):
        found = core(q, k, v, **options).clone()
        _check_shape(given, found)
        for place in places:
            found[..., place, rows, :] = given[..., place, rows, :].to(found)
        return found

    return patch


@contextmanager
def patched_stream(model, layer, state, *, positions=None):
    """Let the stream after block `layer` be `state` (batch, length, d_model), until the block ends.

    `positions` lists the tokens whose state is replaced, all by default: then nothing of the input is left. Layer −1 is
    what the first block reads. `follow_stream(model, tokens).states[2 * (layer + 1)]` is the state of a clean pass.
    """
    blocks = _blocks(model)
    layer, rows = integer("layer", layer), slice(None) if positions is None else list(positions)
    if not -1 <= layer < len(blocks):
        raise ValueError(f"layer is {layer}: expected -1 … {len(blocks) - 1}")

    def replaced(x):
        _check_shape(state, x)
        x = x.clone()
        x[..., rows, :] = torch.as_tensor(state)[..., rows, :].to(x)
        return x

    if layer < 0:
        hook = blocks[0].register_forward_pre_hook(lambda part, given: (replaced(given[0]), *given[1:]))
    else:
        hook = blocks[layer].register_forward_hook(lambda part, given, output: replaced(output))
    try:
        yield model
    finally:
        hook.remove()


def _blocks(model):
    blocks = [part for part in model.modules() if isinstance(part, EncoderBlock)]
    if not blocks:
        raise ValueError(f"model is a {type(model).__name__} without an EncoderBlock: expected a model made of them")
    return blocks


def _check_shape(given, found):
    if tuple(given.shape) != tuple(found.shape):
        raise ValueError(
            f"the recorded pass has shape {tuple(given.shape)} and this one {tuple(found.shape)}: expected equal shapes"
        )


def restored(patched, clean, corrupted):
    """Return how much of the clean score is back: 0 for the corrupted pass, 1 for the clean.   Book: {eq}`restored`

    Parts work together, so the shares of several parts need not add up to 1, and a share may lie outside 0 … 1.
    """
    gap = clean - corrupted
    if not (abs(gap) > 0).all():
        raise ValueError("clean and corrupted have the same score in a sample: there is nothing to restore")
    return (patched - corrupted) / gap


@torch.no_grad()
def patching_effects(model, clean, corrupted, score, *, positions=None, normalised=True):
    """Return what each head alone restores in the corrupted pass: (layers, heads, batch).

    Each head in turn is given what it found in the clean pass. Not `normalised`, it is the change of the score itself.
    Heads stand by the numbers that they had at first; those that are gone are NaN.
    """
    layers = attention_layers(model, "it has no heads")
    with capture(model, detach=True) as recording:
        ends = score(model(clean))
    start = score(model(corrupted))

    def effect(name, head):
        with patched_heads(model, {(name, head)}, recording, positions=positions):
            patched = score(model(corrupted))
        return restored(patched, ends, start) if normalised else patched - start

    built = max(layer.built_with[0] for layer in layers.values())
    found = [[torch.full_like(start, torch.nan) for _ in range(built)] for _ in layers]
    for row, (name, layer) in zip(found, layers.items(), strict=True):
        for head in layer.head_ids:
            row[head] = effect(name, head)
    return torch.stack([torch.stack(heads) for heads in found])


@torch.no_grad()
def stream_patching_effects(model, clean, corrupted, score, *, normalised=True):
    """Return what the stream of one token restores, before the first block and after each: (layers + 1, length, batch).

    In the corrupted pass, one state of one token is replaced by that of the clean pass.
    """
    states = _states(model, clean)
    ends, start = score(model(clean)), score(model(corrupted))

    def effect(layer, position):
        with patched_stream(model, layer, states[layer + 1], positions=[position]):
            patched = score(model(corrupted))
        return restored(patched, ends, start) if normalised else patched - start

    length = states[0].shape[-2]
    found = [[effect(layer - 1, place) for place in range(length)] for layer in range(len(states))]
    return torch.stack([torch.stack(places) for places in found])


def _states(model, tokens):
    """Return what the first block reads and what each block leaves."""
    blocks, states = _blocks(model), []
    hooks = [blocks[0].register_forward_pre_hook(lambda part, given: states.append(given[0]))]
    hooks += [block.register_forward_hook(lambda part, given, output: states.append(output)) for block in blocks]
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return states


@torch.no_grad()
def leave_one_out(model, tokens, score, *, replacement=None):
    """Return how much the score falls when each token in turn is left out: (batch, length).   Book: {eq}`leave-one-out`

    Left out means hidden from every query by a mask, so that the others keep their places; with a `replacement`, the
    number of a token, that one stands there instead. Li et al. (2016).
    """
    whole, found = score(model(tokens)), []
    for place in range(tokens.shape[-1]):
        if replacement is None:
            keep = torch.ones_like(tokens, dtype=torch.bool)
            keep[:, place] = False
            left = score(model(tokens, mask=masks.key_padding(keep)))
        else:
            others = tokens.clone()
            others[:, place] = replacement
            left = score(model(others))
        found.append(whole - left)
    return torch.stack(found, dim=-1)
