"""Beam search: of all continuations, go on with a few of the most probable at every length."""

from dataclasses import dataclass

import torch

from mha.integers import count
from mha.models.decoding.steps import check_start, check_stop
from mha.nn import checks

__all__ = ["Beams", "beam_search"]


@dataclass(frozen=True)
class Beams:
    """Continuations of each sequence, best first; where one has fewer than another, the rest has the score −inf."""

    tokens: torch.Tensor  # (batch, beams, length); behind a stop token, more of it
    scores: torch.Tensor  # (batch, beams)


@torch.inference_mode()
def beam_search(model, tokens, steps, *, width, length_penalty=1.0, stop=None, padding=0):
    """Return the `width` best continuations that were found, with the tokens in front.   Book: {eq}`beam-score`.

    A continuation of n tokens, the `stop` token among them, has the score log-probability / n^length_penalty: at 0 it
    is the log-probability, at 1 the mean of a token. So in transformers; Wu et al. 2016 divide by ((5 + n) / 6)^α.
    Of the `width` most probable at each length those with `stop` are finished, and at the length `steps` all are. The
    most probable others go on, until none of them can come before `width` finished ones. Otherwise as `generate`.
    """
    check_start(tokens, padding)
    steps, width, stop = count("steps", steps, 1), count("width", width, 1), check_stop(stop)
    if not 0 <= checks.number("length_penalty", length_penalty) <= 10:
        raise ValueError(f"length_penalty is {length_penalty}: expected 0 to 10")
    log_p, caches = _read(model, tokens, model.caches(padding))
    live = Beams(tokens[:, None], torch.zeros_like(log_p[:, :1]))
    finished = Beams(tokens[:, None][:, :0], live.scores[:, :0])
    for n in range(1, steps + 1):
        found, parents = _continued(live, log_p, 2 * width)
        ended = _ended(found.tokens[..., -1], stop, n == steps)
        scores = (found.scores / n**length_penalty).masked_fill(~ended, -torch.inf)
        finished = _best_of(finished, Beams(found.tokens[:, :width], scores[:, :width]), width, stop)
        live_scores, kept = found.scores.masked_fill(ended, -torch.inf).topk(min(width, found.scores.shape[1]))
        if bool((_worst(finished, width) >= live_scores[:, 0] / steps**length_penalty).all()):
            break
        live = Beams(_picked(found.tokens, kept), live_scores)
        order = _rows(parents.gather(1, kept), len(log_p))
        log_p, caches = _read(model, live.tokens[..., -1:].flatten(0, 1), [cache.reorder(order) for cache in caches])
    return finished


def _read(model, tokens, caches):
    """Return how probable each next token is, in logarithms, and the longer caches."""
    logits, caches = model.step(tokens, caches, last=True)
    return logits[:, -1].log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32)), caches


def _continued(live, log_p, most):
    """Return the most probable continuations by a token, with their log-probabilities, and which beams they go on."""
    vocabulary = log_p.shape[-1]
    scores = (live.scores[..., None] + log_p.unflatten(0, live.scores.shape)).flatten(1)
    scores, places = scores.topk(min(most, scores.shape[1]))
    parents = places // vocabulary
    return Beams(torch.cat([_picked(live.tokens, parents), (places % vocabulary)[..., None]], -1), scores), parents


def _ended(tokens, stop, is_last):
    if is_last:
        return torch.ones_like(tokens, dtype=torch.bool)
    return torch.zeros_like(tokens, dtype=torch.bool) if stop is None else tokens == stop


def _best_of(finished, new, width, stop):
    """Return the best of the finished continuations and new ones, which are a token longer."""
    longer = torch.nn.functional.pad(finished.tokens, (0, 1), value=0 if stop is None else stop)
    scores = torch.cat([finished.scores, new.scores], 1)
    scores, order = scores.topk(min(width, scores.shape[1]))
    return Beams(_picked(torch.cat([longer, new.tokens], 1), order), scores)


def _worst(finished, width):
    """Return the score that a continuation must pass to be among the finished ones."""
    full = finished.scores.shape[1] == width
    return finished.scores[:, -1] if full else torch.full_like(finished.scores[:, 0], -torch.inf)


def _picked(tokens, order):
    return tokens.gather(1, order[..., None].expand(-1, -1, tokens.shape[-1]))


def _rows(beams, num_rows):
    """Return the numbers of the rows, of so many, that hold these beams of each sequence."""
    first = torch.arange(0, num_rows, num_rows // len(beams), device=beams.device)
    return (first[:, None] + beams).flatten()
