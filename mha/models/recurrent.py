"""A recurrent encoder–decoder, without attention (Cho et al. 2014) or with it (Bahdanau, Luong et al. 2015).

A GRU reads the source, both ways unless told otherwise; a GRU writes the target. What it knows of the source while it
writes is one fixed vector, or a mixture of all the encoder's states that is made anew at each step.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from mha import masks
from mha.nn import alignment as align

__all__ = ["Recurrent", "RecurrentConfig", "State"]


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of a model; each direction of the encoder has half of `d_model`, so that both sides have one width.

    `attention` is None, "additive" (Bahdanau et al. 2015), or "dot", "general", "concat" or "local"
    (local-p over the general score), as Luong et al. (2015) place them; `window` is the half width of "local".
    """

    source_vocab: int
    target_vocab: int
    d_embed: int = 64
    d_model: int = 128
    attention: str | None = None
    bidirectional: bool = True
    window: int = 5
    dropout: float = 0.0


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
        none = hidden.new_zeros(len(hidden), 0, hidden.shape[-1])  # a target without a token
        return torch.cat([none, *states], 1), torch.cat([none, *contexts], 1), hidden

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


class Recurrent(nn.Module):
    """Source and target tokens, (b, j) and (b, i), to the logits of the target's next tokens (b, i, vocabulary)."""

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        sides = 1 + config.bidirectional
        if config.d_model % sides:
            raise ValueError(f"d_model is {config.d_model}: expected an even number, half for each direction")
        self.source_embed = nn.Embedding(config.source_vocab, config.d_embed)
        self.target_embed = nn.Embedding(config.target_vocab, config.d_embed)
        self.encoder = nn.GRU(
            config.d_embed, config.d_model // sides, batch_first=True, bidirectional=config.bidirectional
        )
        self.bridge = nn.Linear(config.d_model, config.d_model)
        self.decoder = _decoder(config)
        self.join = nn.Linear(2 * config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.target_vocab)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source, target, *, source_keep=None):
        """Return the logits; `target` begins with a token that stands for the beginning, teacher forcing the rest.

        `source_keep` (b, j) is False where the source is padding, which stands behind the tokens.
        """
        return self._decode(target, self.start(source, keep=source_keep))[0]

    def attention_maps(self, source, target, *, source_keep=None) -> torch.Tensor:
        """Return the weights of each step on the source: (1 layer, b, 1 head, i, j)."""
        with torch.no_grad():
            state = self.start(source, keep=source_keep)
            return self.decoder.weights(self.dropout(self.target_embed(target)), state)[None, :, None]

    def start(self, source, *, keep=None) -> State:
        """Read the source, and return the state in which the decoder begins."""
        memory = self._encode(source, keep)
        return State(torch.tanh(self.bridge(memory.summary)), memory)

    def given(self, source, *, keep=None):
        """Return the decoder bound to this source, with `caches` and `step`, as the decoding functions take it."""
        return Given(self, self.start(source, keep=keep))

    def _encode(self, source, keep):
        x = self.dropout(self.source_embed(source))
        lengths = _lengths(source, keep)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.clamp(min=1).cpu(), True, enforce_sorted=False)
        states, last = self.encoder(packed)
        rows, _ = nn.utils.rnn.pad_packed_sequence(states, True, total_length=source.shape[1])
        empty = (lengths == 0)[:, None]
        rows, summary = rows.masked_fill(empty[..., None], 0.0), last.transpose(0, 1).flatten(1).masked_fill(empty, 0.0)
        return Memory(rows, self.decoder.keys(rows), summary, keep)

    def _decode(self, target, state):
        states, contexts, hidden = self.decoder(self.dropout(self.target_embed(target)), state)
        joined = torch.tanh(self.join(torch.cat([states, contexts], -1)))
        return self.output(self.dropout(joined)), replace(state, hidden=hidden)


@dataclass(frozen=True)
class Given:
    """A decoder with its source, read once."""

    model: Recurrent
    state: State

    def caches(self, padding=0):
        """Return the state before the first token; a target has no padding in front."""
        if padding != 0:
            raise ValueError(f"padding is {padding!r}: expected 0, every target begins with its first token")
        return [self.state]

    def step(self, tokens, caches, *, last=False):
        """Return the logits of the next tokens, or of the last one alone, and the state after these tokens."""
        logits, state = self.model._decode(tokens, *caches)
        return (logits[:, -1:] if last else logits), [state]


def _decoder(config):
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


def _lengths(source, keep):
    """Return how many tokens each source has, and raise unless the padding stands behind them."""
    if keep is None:
        return torch.full((len(source),), source.shape[1])
    if keep.shape != source.shape or keep.dtype != torch.bool:
        got = f"shape {tuple(keep.shape)} and dtype {keep.dtype}"
        raise ValueError(f"source_keep has {got}: expected booleans {tuple(source.shape)}, True = a real token")
    if bool((~keep[:, :-1] & keep[:, 1:]).any()):
        raise ValueError("source_keep is False before a real token: expected all padding behind the tokens")
    return keep.sum(-1)
