"""A model whose weights are written by hand, so that what each of its heads does is known and a method can be tried."""

import torch
from torch import nn

from mha import masks
from mha.integers import count
from mha.models.tokens import check_length, check_tokens
from mha.nn.heads import MultiHeadAttention

__all__ = ["InductionModel"]


class InductionModel(nn.Module):
    """Two layers of two heads that copy: after "a b … a" they say "b". Elhage et al. (2021), in one-hot vectors.

    The stream has four strips: the token, its position, the token before it, and the answer. Head 0 of layer 0 looks
    at the previous token and writes it into the third strip. Head 1 of layer 1 looks for the places whose token before
    is the current token, and writes what stands there into the answer: the logits. Head 1 of layer 0 looks everywhere
    alike, and head 0 of layer 1 looks exactly where the induction head looks; both write nothing.

    Token 0 starts a text and is not used again. `sharpness` is the score of a match.
    """

    def __init__(self, vocab_size, max_length, *, sharpness=30.0, dtype=torch.float64):
        super().__init__()
        self.vocab_size, self.max_length = count("vocab_size", vocab_size, 2), count("max_length", max_length, 2)
        v, n = self.vocab_size, self.max_length
        token, place, before, answer = torch.arange(3 * v + n).split([v, n, v, v])
        self.answer = slice(int(answer[0]), None)
        self.embed = nn.Embedding(v, 3 * v + n, dtype=dtype)
        self.positions = nn.Embedding(n, 3 * v + n, dtype=dtype)
        sizes = {"d_head": max(v, n), "bias": False, "scale": sharpness, "dtype": dtype}
        self.layers = nn.ModuleList(MultiHeadAttention(3 * v + n, 2, **sizes) for _ in range(2))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
            self.embed.weight[:, token] = torch.eye(v, dtype=dtype)
            self.positions.weight[:, place] = torch.eye(n, dtype=dtype)
            first, second = self.layers
            _reads(first.q_proj, 0, place[1:])  # place i asks for i − 1
            _reads(first.k_proj, 0, place)
            _reads(first.v_proj, 0, token)
            _writes(first.out_proj, 0, before)
            for head in (0, 1):
                _reads(second.q_proj, head, token)
                _reads(second.k_proj, head, before)
            _reads(second.v_proj, 1, token)
            _writes(second.out_proj, 1, answer)

    def forward(self, tokens, *, mask=None):
        """Return the answer at each token (batch, length, vocabulary): 1 in all, shared by the matches."""
        check_tokens("tokens", tokens, self.vocab_size)
        check_length("tokens", tokens.shape[-1], self.max_length)
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[-1]]
        visible = masks.causal if mask is None else masks.causal & mask
        for layer in self.layers:
            x = x + layer(x, mask=visible)
        return x[..., self.answer]


def _reads(linear, head, columns):
    """Let a head read these columns of the stream as its own first ones."""
    rows = torch.arange(len(columns)) + head * (linear.out_features // 2)
    linear.weight[rows, columns] = 1


def _writes(linear, head, columns):
    """Let what a head found in its first columns be added to these columns of the stream."""
    rows = torch.arange(len(columns)) + head * (linear.in_features // 2)
    linear.weight[columns, rows] = 1
