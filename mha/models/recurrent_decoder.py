"""The decoders of `Recurrent`: what a step knows of the source, and when it gets to know it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mha import masks
from mha.nn import alignment as align

__all__ = ["AttentionAfter", "AttentionBefore", "FixedContext", "Memory", "State", "decoder"]


@dataclass(frozen=True)
class Memory:
    """What the encoder leaves: a state for each source token, and what follows from all of them once."""

    rows: Any  # (b, j, d)
    keys: Any  # the rows as the score compares them, or None
    summary: Any  # (b, d), the last state of each direction
    keep: Any  # (b, j), or None

    def options(self):
        if self.keep is None:
            return {}
        return {"mask": masks.key_padding(self.keep), "lengths": self.keep.sum(-1)}


@dataclass(frozen=True)
class State:
    """Where the decoder is in each sample: its hidden state, and the memory that it reads."""

    hidden: Any  # (b, d)
    memory: Memory

    def reorder(self, order):
        """Return the state of the samples in `order`, which may repeat some and leave out others, as beams do."""
        rows = vars(self.memory).items()
        memory = Memory(**{name: None if x is None else x[order] for name, x in rows})
        return State(self.hidden[order], memory)


class FixedContext(nn.Module):
    """Every step reads the same vector, the encoder's last state (Cho et al. 2014)."""

    def __init__(self, config):
        super().__init__()
        self.gru = nn.GRU(config.d_embed + config.d_model, config.d_model, batch_first=True)

    def keys(self, rows):
        return None

    def forward(self, x, state):
        """Return the hidden states of these steps, the context vectors that go with them, and the last hidden state."""
        contexts = state.memory.summary[:, None].expand(-1, x.shape[1], -1)
        states, last = self.gru(torch.cat([x, contexts], -1), state.hidden[None])
        return states, contexts, last[0]

    def weights(self, x, state):
        raise ValueError('attention is None: this model has no alignment; expected one of "additive", "dot", …')


class AttentionBefore(nn.Module):
    """A step's context comes from the state before it and enters the recurrence (Bahdanau et al. 2015)."""

    def __init__(self, config, score):
        super().__init__()
        self.alignment = align.Alignment(score)
        self.gru = nn.GRU(config.d_embed + config.d_model, config.d_model, batch_first=True)

    def keys(self, rows):
        return self.alignment.score.keys(rows)

    def forward(self, x, state):
        memory, hidden, states, contexts = state.memory, state.hidden, [], []
        options = memory.options()
        for i in range(x.shape[1]):
            context = self.alignment(hidden[:, None], memory.rows, keys=memory.keys, **options)
            out, last = self.gru(torch.cat([x[:, i : i + 1], context], -1), hidden[None])
            hidden = last[0]
            states.append(out)
            contexts.append(context)
        return torch.cat(states, 1), torch.cat(contexts, 1), hidden

    def weights(self, x, state):
        states = torch.cat([state.hidden[:, None], self(x, state)[0]], 1)[:, :-1]
        return self.alignment.weights(states, state.memory.rows, **state.memory.options())


class AttentionAfter(nn.Module):
    """A step's context comes from the state after it and does not enter the recurrence (Luong et al. 2015).

    So one product serves all steps of a known target. Input feeding, which would tie them together again, is left out.
    """

    def __init__(self, config, score, **local):
        super().__init__()
        self.alignment = align.Alignment(score, **local)
        self.gru = nn.GRU(config.d_embed, config.d_model, batch_first=True)

    def keys(self, rows):
        return self.alignment.score.keys(rows)

    def forward(self, x, state):
        states, last = self.gru(x, state.hidden[None])
        memory = state.memory
        return states, self.alignment(states, memory.rows, keys=memory.keys, **memory.options()), last[0]

    def weights(self, x, state):
        return self.alignment.weights(self(x, state)[0], state.memory.rows, **state.memory.options())


def decoder(config):
    """Return the decoder that `attention` of a `RecurrentConfig` names."""
    d, form = config.d_model, config.attention
    if form is None:
        return FixedContext(config)
    if form == "additive":
        return AttentionBefore(config, align.AdditiveScore(d, d, d))
    if form == "local":
        local = {"predictor": align.CenterPredictor(d, d), "window": config.window}
        return AttentionAfter(config, align.GeneralScore(d, d), **local)
    scores = {"dot": align.DotScore, "general": lambda: align.GeneralScore(d, d)}
    scores["concat"] = lambda: align.ConcatScore(d, d, d)
    if form not in scores:
        raise ValueError(f'attention is {form!r}: expected None, "additive", "local" or one of {sorted(scores)}')
    return AttentionAfter(config, scores[form]())
