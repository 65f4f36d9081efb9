"""Small models of every kind that decoding takes, with weights drawn wide."""

from functools import cache

import torch

from exact import redraw
from mha.models.gpt import GPT, GPTConfig
from mha.models.llama import Llama, LlamaConfig
from mha.models.recurrent import Recurrent, RecurrentConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig

KINDS = ("llama", "gpt", "alibi", "seq2seq", "recurrent")
WITH_SOURCE = ("seq2seq", "recurrent")
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 1, 0, 0], [6, 0, 0, 0, 0]])
KEEP = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]


@cache
def model(kind, vocabulary):
    sizes = {"num_layers": 2, "d_model": 12, "d_mlp": 17}
    if kind == "llama":
        one = Llama(LlamaConfig(vocabulary, num_heads=6, num_kv_heads=2, rope_base=100.0, norm_eps=1e-5, **sizes))
    elif kind == "seq2seq":
        one = Seq2Seq(Seq2SeqConfig(8, vocabulary, num_heads=3, **sizes))
    elif kind == "recurrent":
        one = Recurrent(RecurrentConfig(8, vocabulary, d_embed=5, d_model=6, attention="additive"))
    else:
        position = "learned" if kind == "gpt" else kind
        one = GPT(GPTConfig(vocabulary, 31, num_heads=3, position=position, **sizes))
    return redraw(one, seed=5).double()


def decoder(kind, vocabulary, rows=slice(None)):
    """Return what decoding takes; over these rows of `SOURCE`, if it reads one."""
    one = model(kind, vocabulary)
    return one.given(SOURCE[rows], keep=KEEP[rows]) if kind in WITH_SOURCE else one


@torch.no_grad()
def whole(kind, vocabulary, texts, row):
    """Return the logits after each token of the texts, in one pass without caches; over one row of `SOURCE`."""
    one = model(kind, vocabulary)
    if kind not in WITH_SOURCE:
        return one(texts)
    source, keep = SOURCE[row, : KEEP[row].sum()], KEEP[row, KEEP[row]]
    return one(source.expand(len(texts), -1), texts, source_keep=keep.expand(len(texts), -1))
