"""The stream of a Transformer: what each layer of each block adds to a token, and what is left of it after."""

from typing import NamedTuple

import numpy as np

__all__ = ["Stream", "StreamSizes", "follow_stream", "stream_sizes"]


class Stream(NamedTuple):
    """What a recording of S layers holds, two for each encoder block: attention, then the feed-forward layer."""

    states: np.ndarray  # (S + 1, batch, length, d_model): before the first layer, and after each
    added: np.ndarray  # (S, batch, length, d_model): what each layer adds, before any norm of the sum


class StreamSizes(NamedTuple):
    """Lengths and directions of a stream; a cosine with a vector of length 0 is 0."""

    norm: np.ndarray  # (S + 1, …): length of each state
    added_norm: np.ndarray  # (S, …): length of what is added to it
    added_cosine: np.ndarray  # (S, …): cosine of what is added and the state it is added to
    start_cosine: np.ndarray  # (S + 1, …): cosine of each state and the first


def stream_sizes(states, added) -> StreamSizes:
    """Return the sizes of the vectors of a stream, states (S + 1, …, d_model) and additions (S, …, d_model)."""
    states, added = (np.asarray(x, dtype=np.float64) for x in (states, added))
    if states.shape != (len(added) + 1, *added.shape[1:]):
        raise ValueError(
            f"states has shape {states.shape} and added {added.shape}: expected a state before the first addition "
            "and one after each"
        )
    norm, added_norm = (np.linalg.norm(x, axis=-1) for x in (states, added))
    return StreamSizes(norm, added_norm, _cosine(added, states[:-1]), _cosine(states, states[:1]))


def _cosine(x, y):
    lengths = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    return (x * y).sum(-1) / np.where(lengths == 0, 1, lengths)


def follow_stream(model, *inputs, **options) -> Stream:
    """Return the stream through the encoder blocks of `model` in one pass `model(*inputs, **options)`.

    The model is to be in evaluation mode: dropout would come between what a layer finds and what is added.
    """
    from mha.nn.block import EncoderBlock

    blocks = [part for part in model.modules() if isinstance(part, EncoderBlock)]
    if not blocks:
        raise ValueError(f"model is a {type(model).__name__} without an EncoderBlock: expected a model made of them")
    states, added, hooks, found = [], [], [], {}

    def watch(name):
        return lambda part, given, output: found.update({name: _array(output)})

    def close(block, given, output):
        start = _array(given[0])
        middle = start + found["attention"] if block.norm_first else found["attention_norm"]
        states.extend([start, middle])
        added.extend([found["attention"], found["feed_forward"]])
        found["last"] = _array(output)

    for block in blocks:
        names = "attention", "attention_norm", "feed_forward"
        hooks += [getattr(block, name).register_forward_hook(watch(name)) for name in names]
        hooks.append(block.register_forward_hook(close))
    try:
        model(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
    return Stream(np.stack([*states, found["last"]]), np.stack(added))


def _array(x):
    return x.detach().double().cpu().numpy()
