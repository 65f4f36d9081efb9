"""A recurrent encoder–decoder, without attention (Cho et al. 2014) or with it (Bahdanau, Luong et al. 2015).

A GRU reads the source, both ways unless told otherwise; a GRU writes the target. What it knows of the source while it
writes is one fixed vector, or a mixture of all the encoder's states that is made anew at each step.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn

from mha.models.recurrent_decoder import Memory, State, decoder
from mha.models.start import check_counts
from mha.models.tokens import check_tokens

__all__ = ["Recurrent", "RecurrentConfig"]


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


class Recurrent(nn.Module):
    """Source and target tokens, (b, j) and (b, i), to the logits of the target's next tokens (b, i, vocabulary)."""

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        check_counts(config, "source_vocab", "target_vocab", "d_embed")
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
        self.decoder = decoder(config)
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
        check_tokens("source", source, self.config.source_vocab)
        lengths = _lengths(source, keep)
        if not len(source):  # torch packs no empty batch
            rows = self.output.weight.new_zeros(0, source.shape[1], self.config.d_model)
            return Memory(rows, self.decoder.keys(rows), rows.sum(1), keep)
        x = self.dropout(self.source_embed(source))
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.clamp(min=1).cpu(), True, enforce_sorted=False)
        states, last = self.encoder(packed)
        rows, _ = nn.utils.rnn.pad_packed_sequence(states, True, total_length=source.shape[1])
        empty = (lengths == 0)[:, None]
        rows, summary = rows.masked_fill(empty[..., None], 0.0), last.transpose(0, 1).flatten(1).masked_fill(empty, 0.0)
        return Memory(rows, self.decoder.keys(rows), summary, keep)

    def _decode(self, target, state):
        check_tokens("target", target, self.config.target_vocab)
        if len(target) != len(state.hidden):
            raise ValueError(f"target has {len(target)} samples and source has {len(state.hidden)}: expected as many")
        if target.numel() == 0:  # torch's GRU takes no empty sequence
            return self.output.weight.new_zeros(*target.shape, self.config.target_vocab), state
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
        if bool(torch.as_tensor(padding).any()):
            raise ValueError(f"padding is {padding!r}: expected 0, every target begins with its first token")
        return [self.state]

    def step(self, tokens, caches, *, last=False):
        """Return the logits of the next tokens, or of the last one alone, and the state after these tokens."""
        logits, state = self.model._decode(tokens, *caches)
        return (logits[:, -1:] if last else logits), [state]


def _lengths(source, keep):
    """Return how many tokens each source has, and raise unless the padding stands behind them."""
    if source.shape[1] == 0:
        raise ValueError(f"source has shape {tuple(source.shape)}: expected a slot at least; source_keep may hide it")
    if keep is None:
        return torch.full((len(source),), source.shape[1])
    if keep.shape != source.shape or keep.dtype != torch.bool:
        got = f"shape {tuple(keep.shape)} and dtype {keep.dtype}"
        raise ValueError(f"source_keep has {got}: expected booleans {tuple(source.shape)}, True = a real token")
    if bool((~keep[:, :-1] & keep[:, 1:]).any()):
        raise ValueError("source_keep is False before a real token: expected all padding behind the tokens")
    return keep.sum(-1)
