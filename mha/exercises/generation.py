"""Generation: the loss of all next tokens, what compares across tokenizations, sampling, ablation, sinks.

Logits are (length, vocabulary); row i is about token i + 1. Projections are written `x @ w`.
"""

import numpy as np

from mha.exercises.exercise import Exercise


def _log_softmax(logits):
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def _softmax(logits):
    return np.exp(_log_softmax(logits))


def next_token_loss(logits, tokens):
    rows = np.arange(len(tokens) - 1)
    return -_log_softmax(logits)[rows, tokens[1:]].mean()


def _looked_up(logits, rows, targets):
    return -_log_softmax(logits)[rows, targets].mean()


def _logits_and_tokens(rng, n, vocabulary):
    return rng.normal(size=(n, vocabulary)), rng.permutation(vocabulary)[:n]


LOSS = Exercise(
    id="generation-1",
    solve=next_token_loss,
    cases=lambda rng: [_logits_and_tokens(rng, 3, 5), _logits_and_tokens(rng, 7, 11), _logits_and_tokens(rng, 2, 3)],
    mistakes={
        "itself": lambda logits, tokens: _looked_up(logits, np.arange(len(tokens)), tokens),
        "backwards": lambda logits, tokens: _looked_up(logits[1:], np.arange(len(tokens) - 1), tokens[:-1]),
        "around": lambda logits, tokens: _looked_up(logits, np.arange(len(tokens)), np.roll(tokens, -1)),
        "two-ahead": lambda logits, tokens: (
            _looked_up(logits, np.arange(len(tokens) - 2), tokens[2:]) if len(tokens) > 2 else np.nan
        ),
        "sum": lambda logits, tokens: next_token_loss(logits, tokens) * (len(tokens) - 1),
        "all-rows": lambda logits, tokens: next_token_loss(logits, tokens) * (len(tokens) - 1) / len(tokens),
        "sign": lambda logits, tokens: -next_token_loss(logits, tokens),
        "bits": lambda logits, tokens: next_token_loss(logits, tokens) / np.log(2),
        "logits": lambda logits, tokens: -logits[np.arange(len(tokens) - 1), tokens[1:]].mean(),
        "probabilities": lambda logits, tokens: _softmax(logits)[np.arange(len(tokens) - 1), tokens[1:]].mean(),
    },
    properties={"positive": lambda loss, logits, tokens: loss > 0},
)


def bits_per_character(loss, num_tokens, num_characters):
    return loss / np.log(2) * num_tokens / num_characters


BITS = Exercise(
    id="generation-2",
    solve=bits_per_character,
    cases=lambda rng: [
        (np.log(2) * np.array([3.0, 12.0]), np.array([20, 10]), np.array([40, 40])),
        (rng.uniform(1, 5, 3), np.array([300, 410, 1471]), np.array([4003, 4003, 4003])),
    ],
    mistakes={
        "bits-per-token": lambda loss, num_tokens, num_characters: loss / np.log(2),
        "nats": lambda loss, num_tokens, num_characters: loss * num_tokens / num_characters,
        "times-log-2": lambda loss, num_tokens, num_characters: loss * np.log(2) * num_tokens / num_characters,
        "upside-down": lambda loss, num_tokens, num_characters: loss / np.log(2) * num_characters / num_tokens,
        "total": lambda loss, num_tokens, num_characters: loss / np.log(2) * num_tokens,
        "mean-already": lambda loss, num_tokens, num_characters: loss / np.log(2) / num_characters,
    },
)


def top_p(logits, p):
    probabilities = _softmax(logits)
    order = np.argsort(-probabilities)
    before = np.cumsum(probabilities[order]) - probabilities[order]
    return _kept(probabilities, order[before < p])


def _kept(probabilities, which, *, renormalise=True):
    kept = np.zeros_like(probabilities)
    kept[which] = probabilities[which]
    return kept / kept.sum() if renormalise and kept.sum() else kept


def _top_p_variant(logits, p, *, crossing=True, ascending=False, renormalise=True):
    probabilities = _softmax(logits)
    order = np.argsort(probabilities if ascending else -probabilities)
    sums = np.cumsum(probabilities[order])
    return _kept(probabilities, order[(sums - probabilities[order] if crossing else sums) < p], renormalise=renormalise)


def _equal_share(logits, p):
    kept = top_p(logits, p) > 0
    return kept / kept.sum()


TOP_P = Exercise(
    id="generation-3",
    solve=top_p,
    cases=lambda rng: [
        (np.log([0.1, 0.4, 0.3, 0.2]), 0.65),
        (np.log([0.5, 0.05, 0.15, 0.3]), 0.4),
        (rng.normal(size=11), 0.77),
        (rng.normal(size=7), 1.0),
    ],
    mistakes={
        "without-crossing": lambda logits, p: _top_p_variant(logits, p, crossing=False),
        "least-likely": lambda logits, p: _top_p_variant(logits, p, ascending=True),
        "not-renormalised": lambda logits, p: _top_p_variant(logits, p, renormalise=False),
        "min-p": lambda logits, p: _kept(_softmax(logits), _softmax(logits) >= p * _softmax(logits).max()),
        "equal": _equal_share,
        "nothing-cut": lambda logits, p: _softmax(logits),
    },
    properties={
        "sums-to-one": lambda kept, logits, p: abs(kept.sum() - 1) < 1e-9,
        "keeps-the-best": lambda kept, logits, p: kept[logits.argmax()] > 0,
    },
)


def without_head(w_o, head, num_heads):
    strips = w_o.reshape(num_heads, -1, w_o.shape[-1]).copy()
    strips[head] = 0
    return strips.reshape(w_o.shape)


def _without(w_o, rows=slice(0), columns=slice(None)):
    ablated = w_o.copy()
    ablated[rows, columns] = 0
    return ablated


def _width(w_o, num_heads):
    return len(w_o) // num_heads


ABLATION = Exercise(
    id="generation-4",
    solve=without_head,
    cases=lambda rng: [
        (np.arange(1.0, 17.0).reshape(4, 4), 1, 2),
        (np.arange(1.0, 61.0).reshape(6, 10), 0, 2),
        (rng.normal(size=(15, 6)), 4, 5),
    ],
    mistakes={
        "columns": lambda w_o, head, num_heads: _without(
            w_o,
            slice(None),
            slice(head * w_o.shape[1] // num_heads, (head + 1) * w_o.shape[1] // num_heads),
        ),
        "one-row": lambda w_o, head, num_heads: _without(w_o, head),
        "interleaved": lambda w_o, head, num_heads: _without(w_o, slice(head, None, num_heads)),
        "the-others": lambda w_o, head, num_heads: w_o - without_head(w_o, head, num_heads),
        "next-head": lambda w_o, head, num_heads: without_head(w_o, (head + 1) % num_heads, num_heads),
        "count-as-width": lambda w_o, head, num_heads: _without(w_o, slice(head * num_heads, (head + 1) * num_heads)),
        "removed": lambda w_o, head, num_heads: np.delete(
            w_o, np.arange(head * _width(w_o, num_heads), (head + 1) * _width(w_o, num_heads)), axis=0
        ),
        "rescaled": lambda w_o, head, num_heads: (
            without_head(w_o, head, num_heads) * num_heads / (num_heads - 1) if num_heads > 1 else w_o
        ),
    },
)


def window_with_sinks(n, window, sinks):
    i, j = np.arange(n)[:, None], np.arange(n)
    return (j <= i) & ((i - j < window) | (j < sinks))


def _places(n):
    return np.arange(n)[:, None], np.arange(n)


def _sees(rule):
    return lambda n, window, sinks: rule(*_places(n), window, sinks)


WINDOW = Exercise(
    id="generation-5",
    solve=window_with_sinks,
    cases=lambda rng: [(5, 2, 1), (11, 3, 4), (7, 1, 0), (13, 4, 2)],
    mistakes={
        "sees-ahead": _sees(lambda i, j, window, sinks: (abs(i - j) < window) | (j < sinks)),
        "future-sinks": _sees(lambda i, j, window, sinks: ((j <= i) & (i - j < window)) | (j < sinks)),
        "one-too-many": _sees(lambda i, j, window, sinks: (j <= i) & ((i - j <= window) | (j < sinks))),
        "one-sink-more": _sees(lambda i, j, window, sinks: (j <= i) & ((i - j < window) | (j <= sinks))),
        "no-sinks": _sees(lambda i, j, window, sinks: (j <= i) & (i - j < window)),
        "queries": _sees(lambda i, j, window, sinks: (j <= i) & ((i - j < window) | (i < sinks))),
        "both": _sees(lambda i, j, window, sinks: (j <= i) & (i - j < window) & (j < sinks)),
        "hides": _sees(lambda i, j, window, sinks: ~((j <= i) & ((i - j < window) | (j < sinks)))),
    },
    properties={
        "sees-itself": lambda sees, n, window, sinks: np.diagonal(sees).all(),
        "no-future": lambda sees, n, window, sinks: not np.triu(sees, 1).any(),
    },
)

EXERCISES = (LOSS, BITS, TOP_P, ABLATION, WINDOW)
