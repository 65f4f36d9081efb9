"""BERT: what is hidden and how, the loss of a guess, what depends on what, one vector for a sentence."""

import numpy as np

from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree

MASK = 0  # the token [MASK] of the first exercise


def corrupt(tokens, chosen, kind, others):
    return _corrupt(tokens, chosen, kind, others)


def masked_loss(logits, tokens, chosen):
    nats = -_log_softmax(logits)[np.arange(len(tokens)), tokens]
    return nats[chosen].mean()


def may_move(visible, layers, i):
    reached = np.arange(len(visible)) == i
    for _ in range(layers):
        reached = reached | visible[:, reached].any(axis=1)
    return reached


def pooled(states, keep):
    return states[keep].mean(axis=0)


def hidden_tokens():
    return 0.15 * 0.8 * 500


def _corrupt(tokens, chosen, kind, others, share=0.15, hidden=0.8, random=0.1, instead=MASK):
    is_chosen = chosen < share
    corrupted = np.where(is_chosen & (kind < hidden), instead, tokens)
    return np.where(is_chosen & (kind >= hidden) & (kind < hidden + random), others, corrupted)


def _corrupted(**change):
    return lambda tokens, chosen, kind, others: _corrupt(tokens, chosen, kind, others, **change)


def _draws(rng, n):
    return rng.integers(1, 97, n), rng.random(n), rng.random(n), rng.integers(1, 97, n)


CORRUPT = Exercise(
    id="bert-1",
    solve=corrupt,
    cases=lambda rng: [
        (
            np.arange(1, 6),
            np.array([0.1, 0.1, 0.1, 0.2, 0.9]),
            np.array([0.7, 0.85, 0.95, 0.1, 0.85]),
            np.arange(11, 16),
        ),
        _draws(rng, 997),
    ],
    mistakes={
        "all-hidden": _corrupted(hidden=1.0, random=0.0),
        "rest-random": _corrupted(random=0.2),
        "rest-kept": _corrupted(random=0.0),
        "shares-of-all": lambda tokens, chosen, kind, others: np.where(
            chosen < 0.15 * 0.8, MASK, np.where(chosen < 0.15 * 0.9, others, tokens)
        ),
        "chosen-the-others": lambda tokens, chosen, kind, others: _corrupt(tokens, 1 - chosen, kind, others, 0.85),
        "random-and-hidden-exchanged": _corrupted(hidden=0.1, random=0.8),
        "all-are-chosen": _corrupted(share=1.0),
    },
    properties={
        "not-chosen-stay": lambda output, tokens, chosen, kind, others: (output == tokens)[chosen >= 0.15].all(),
    },
)


def _log_softmax(logits, axis=-1):
    shifted = logits - logits.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _nats(logits, tokens):
    return -_log_softmax(logits)[np.arange(len(tokens)), tokens]


LOSS = Exercise(
    id="bert-2",
    solve=masked_loss,
    cases=lambda rng: [
        (
            np.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.2, 0.3, 0.5]]),
            np.array([0, 2, 1]),
            np.array([True, False, True]),
        ),
        (rng.normal(0, 3, (7, 11)), rng.integers(0, 11, 7), np.array([0, 1, 0, 0, 1, 1, 0], bool)),
        (1000 + rng.normal(0, 3, (5, 3)), rng.integers(0, 3, 5), np.array([0, 1, 0, 0, 0], bool)),
    ],
    mistakes={
        "all-places": lambda logits, tokens, chosen: _nats(logits, tokens).mean(),
        "others": lambda logits, tokens, chosen: _nats(logits, tokens)[~chosen].mean(),
        "sum": lambda logits, tokens, chosen: _nats(logits, tokens)[chosen].sum(),
        "divided-by-all": lambda logits, tokens, chosen: _nats(logits, tokens)[chosen].sum() / len(tokens),
        "wrong-axis": lambda logits, tokens, chosen: (
            -_log_softmax(logits, 0)[np.arange(len(tokens)), tokens][chosen].mean()
        ),
        "no-softmax": lambda logits, tokens, chosen: -logits[np.arange(len(tokens)), tokens][chosen].mean(),
        "bits": lambda logits, tokens, chosen: masked_loss(logits, tokens, chosen) / np.log(2),
        "log-of-the-mean": lambda logits, tokens, chosen: -np.log(np.exp(-_nats(logits, tokens)[chosen]).mean()),
        "sign": lambda logits, tokens, chosen: -masked_loss(logits, tokens, chosen),
    },
    properties={"not-negative": lambda output, logits, tokens, chosen: output >= 0},
)


def _one_layer(visible, layers, i):
    return may_move(visible, 1, i)


REACH = Exercise(
    id="bert-3",
    solve=may_move,
    cases=lambda rng: [
        (np.tri(4, dtype=bool), 2, 1),
        (np.ones((5, 5), bool), 1, 3),
        (np.ones((5, 5), bool), 0, 3),
        (np.abs(np.subtract.outer(np.arange(11), np.arange(11))) <= 2, 2, 4),
        (np.tri(7, dtype=bool) & ~np.tri(7, k=-3, dtype=bool), 2, 1),
        (np.eye(6, k=-1, dtype=bool), 3, 0),
    ],
    mistakes={
        "transposed": lambda visible, layers, i: may_move(visible.T, layers, i),
        "one-layer": _one_layer,
        "one-too-many": lambda visible, layers, i: may_move(visible, layers + 1, i),
        "everything": lambda visible, layers, i: np.ones(len(visible), bool),
        "without-residual": lambda visible, layers, i: np.linalg.matrix_power(visible.astype(int), layers)[:, i] > 0,
        "complement": lambda visible, layers, i: ~may_move(visible, layers, i),
    },
    properties={"own-output": lambda output, visible, layers, i: bool(output[i])},
)

POOLED = Exercise(
    id="bert-4",
    solve=pooled,
    cases=lambda rng: [
        (np.array([[2.0, 0.0], [4.0, 2.0], [9.0, 9.0]]), np.array([True, True, False])),
        (rng.normal(size=(7, 3)), np.array([1, 1, 1, 1, 0, 0, 0], bool)),
        (rng.normal(size=(5, 2)), np.array([0, 0, 1, 1, 1], bool)),
        (rng.normal(size=(4, 3)), np.ones(4, bool)),
    ],
    mistakes={
        "padding-too": lambda states, keep: states.mean(axis=0),
        "zeros-counted": lambda states, keep: (states * keep[:, None]).mean(axis=0),
        "padding-in-the-sum": lambda states, keep: states.sum(axis=0) / keep.sum(),
        "first": lambda states, keep: states[keep][0],
        "largest": lambda states, keep: states[keep].max(axis=0),
        "sum": lambda states, keep: states[keep].sum(axis=0),
        "over-width": lambda states, keep: states.mean(axis=1),
        "length-one": lambda states, keep: pooled(states, keep) / np.linalg.norm(pooled(states, keep)),
    },
    properties={
        "padding-is-not-read": lambda output, states, keep: agree(
            output, (states * keep[:, None]).sum(0) / keep.sum(), 1e-9
        ),
    },
)

HIDDEN = Exercise(
    id="bert-5",
    solve=hidden_tokens,
    mistakes={
        "chosen": lambda: 0.15 * 500,
        "random-too": lambda: 0.15 * 0.9 * 500,
        "of-all": lambda: 0.8 * 500,
        "kept": lambda: 0.15 * 0.1 * 500,
        "not-hidden": lambda: 500 - 0.15 * 0.8 * 500,
    },
    tolerance=1e-3,
)

EXERCISES = (CORRUPT, LOSS, REACH, POOLED, HIDDEN)
