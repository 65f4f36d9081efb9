"""The Transformer: layer norm, the order of a block, what a decoder reads, who sees whom, and how much is learned."""

import numpy as np

from mha import reference
from mha.exercises.exercise import Exercise
from mha.exercises.trial import agree


def layer_norm(x, gain, bias, eps):
    return reference.layer_norm(x, gain, bias, eps=eps)


def pre_norm_block(x, attention, feed, attention_norm, feed_norm):
    x = x + attention(attention_norm(x))
    return x + feed(feed_norm(x))


def decoder_block(x, memory, self_attention, cross_attention, feed, norm):
    x = norm(x + self_attention(x, np.tri(len(x), dtype=bool)))
    x = norm(x + cross_attention(x, memory))
    return norm(x + feed(x))


def who_sees_whom(n_source, n_target):
    source = np.arange(n_source + n_target) < n_source
    past = np.tri(n_source + n_target, dtype=bool)
    return np.where(source[:, None], source, source | past)


def transformer_parameters(d_model, d_mlp, num_layers, vocab_size):
    attention, feed, norm = _parts(d_model, d_mlp)
    encoder, decoder = attention + feed + 2 * norm, 2 * attention + feed + 3 * norm
    return num_layers * (encoder + decoder) + vocab_size * d_model


def _normed(center=np.mean, spread=lambda x, eps: np.sqrt(x.var(-1, keepdims=True) + eps), finish=None):
    """Build a wrong layer norm from one wrong part."""

    def layer_norm(x, gain, bias, eps):
        normed = (x - center(x, axis=-1, keepdims=True)) / spread(x, eps)
        return finish(normed, gain, bias) if finish else normed * gain + bias

    return layer_norm


def _vectors(rng, n, d):
    x = rng.standard_normal((n, d)) * 3 + rng.standard_normal((n, 1))
    x[-1] = x[-1, 0]  # a constant vector: its variance is 0
    return x, rng.standard_normal(d) + 2, rng.standard_normal(d), 1e-3


NORM = Exercise(
    id="transformer-1",
    solve=layer_norm,
    cases=lambda rng: [
        (np.array([[0.0, 2.0, 2.0, 8.0], [1.0, 1.0, 5.0, 5.0]]), np.ones(4), np.zeros(4), 0.0),
        _vectors(rng, 3, 5),
        _vectors(rng, 7, 11),
    ],
    mistakes={
        "over-tokens": lambda x, gain, bias, eps: (x - x.mean(0)) / np.sqrt(x.var(0) + eps) * gain + bias,
        "whole-array": lambda x, gain, bias, eps: (x - x.mean()) / np.sqrt(x.var() + eps) * gain + bias,
        "mean-kept": _normed(center=lambda x, axis, keepdims: 0.0),
        "rms": lambda x, gain, bias, eps: x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gain + bias,
        "variance": _normed(spread=lambda x, eps: x.var(-1, keepdims=True) + eps),
        "length": _normed(spread=lambda x, eps: np.sqrt(x.var(-1, keepdims=True) * x.shape[-1] + eps)),
        "bessel": _normed(spread=lambda x, eps: np.sqrt(x.var(-1, keepdims=True, ddof=1) + eps)),
        "no-eps": _normed(spread=lambda x, eps: x.std(-1, keepdims=True)),
        "eps-outside": _normed(spread=lambda x, eps: x.std(-1, keepdims=True) + eps),
        "bias-first": _normed(finish=lambda normed, gain, bias: (normed + bias) * gain),
        "no-gain": _normed(finish=lambda normed, gain, bias: normed + bias),
    },
    properties={
        "centred": lambda output, x, gain, bias, eps: agree(((output - bias) / gain).mean(-1), np.zeros(len(x)), 1e-9),
    },
)


class _Layer:
    """A layer on a stream (n, d): a little of everything, so that no two orders of layers agree."""

    def __init__(self, rng, d):
        self.w = rng.standard_normal((d, d)) / np.sqrt(d)

    def __call__(self, x):
        return np.tanh(x @ self.w) + x.mean(0)

    def __repr__(self):
        return "a layer"


class _Norm:
    """A layer norm with a gain of its own."""

    def __init__(self, rng, d):
        self.gain = 1 + rng.random(d)

    def __call__(self, x):
        return reference.layer_norm(x, self.gain)

    def __repr__(self):
        return "a norm"


def _block(rng, n, d):
    return 2 * rng.standard_normal((n, d)), *(make(rng, d) for make in (_Layer, _Layer, _Norm, _Norm))


def _post_norm(x, attention, feed, attention_norm, feed_norm):
    x = attention_norm(x + attention(x))
    return feed_norm(x + feed(x))


def _stream_normed(x, attention, feed, attention_norm, feed_norm):
    x = attention_norm(x)
    x = feed_norm(x + attention(x))
    return x + feed(x)


def _without_attention_stream(x, attention, feed, attention_norm, feed_norm):
    x = attention(attention_norm(x))
    return x + feed(feed_norm(x))


def _found_fed(x, attention, feed, attention_norm, feed_norm):
    found = attention(attention_norm(x))
    return x + found + feed(feed_norm(found))


PRE_NORM = Exercise(
    id="transformer-2",
    solve=pre_norm_block,
    cases=lambda rng: [_block(rng, 1, 3), _block(rng, 3, 5), _block(rng, 7, 11)],
    mistakes={
        "post-norm": _post_norm,
        "stream-normed": _stream_normed,
        "one-norm": lambda x, attention, feed, norm, _: pre_norm_block(x, attention, feed, norm, norm),
        "no-norm": lambda x, attention, feed, *_: x + attention(x) + feed(x + attention(x)),
        "no-first-residual": _without_attention_stream,
        "no-second-residual": lambda x, attention, feed, one, two: feed(two(x + attention(one(x)))),
        "parallel": lambda x, attention, feed, one, two: x + attention(one(x)) + feed(two(x)),
        "feed-reads-found": _found_fed,
        "feed-first": lambda x, attention, feed, one, two: pre_norm_block(x, feed, attention, two, one),
        "norm-at-end": lambda x, attention, feed, one, two: two(pre_norm_block(x, attention, feed, one, two)),
    },
)


class _SelfAttention:
    def __init__(self, rng, d):
        self.w = rng.standard_normal((3, d, d)) / np.sqrt(d)

    def __call__(self, x, mask):
        q, k, v = (x[None] @ w for w in self.w)
        return reference.attention(q, k, v, mask=mask)[0]

    def __repr__(self):
        return "self_attention(x, mask)"


class _CrossAttention(_SelfAttention):
    def __call__(self, x, memory):
        q, k, v = (y[None] @ w for y, w in zip((x, memory, memory), self.w, strict=True))
        return reference.attention(q, k, v)[0]

    def __repr__(self):
        return "cross_attention(x, memory)"


def _decoding(rng, n, m, d):
    parts = (make(rng, d) for make in (_SelfAttention, _CrossAttention, _Layer, _Norm))
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), *parts


def _masked_by(mask):
    """Build a decoder block whose self-attention has another mask."""

    def decoder_block(x, memory, self_attention, cross_attention, feed, norm):
        x = norm(x + self_attention(x, mask(len(x))))
        x = norm(x + cross_attention(x, memory))
        return norm(x + feed(x))

    return decoder_block


def _memory_first(x, memory, self_attention, cross_attention, feed, norm):
    x = norm(x + cross_attention(x, memory))
    x = norm(x + self_attention(x, np.tri(len(x), dtype=bool)))
    return norm(x + feed(x))


def _one_norm(x, memory, self_attention, cross_attention, feed, norm):
    x = x + self_attention(x, np.tri(len(x), dtype=bool))
    x = x + cross_attention(x, memory)
    return norm(x + feed(x))


def _pre_norm_decoder(x, memory, self_attention, cross_attention, feed, norm):
    x = x + self_attention(norm(x), np.tri(len(x), dtype=bool))
    x = x + cross_attention(norm(x), memory)
    return x + feed(norm(x))


def _no_cross_residual(x, memory, self_attention, cross_attention, feed, norm):
    x = norm(x + self_attention(x, np.tri(len(x), dtype=bool)))
    x = norm(cross_attention(x, memory))
    return norm(x + feed(x))


def _no_cross(x, memory, self_attention, cross_attention, feed, norm):
    x = norm(x + self_attention(x, np.tri(len(x), dtype=bool)))
    return norm(x + feed(x))


def _fed_twice(x, memory, self_attention, cross_attention, feed, norm):
    x = norm(x + self_attention(x, np.tri(len(x), dtype=bool)))
    x = norm(x + feed(x))
    x = norm(x + cross_attention(x, memory))
    return norm(x + feed(x))


DECODER = Exercise(
    id="transformer-3",
    solve=decoder_block,
    cases=lambda rng: [_decoding(rng, 2, 3, 5), _decoding(rng, 5, 2, 7), _decoding(rng, 7, 11, 3)],
    mistakes={
        "no-mask": _masked_by(lambda n: np.ones((n, n), bool)),
        "future": _masked_by(lambda n: np.tri(n, dtype=bool).T),
        "not-itself": _masked_by(lambda n: np.tri(n, k=-1, dtype=bool)),
        "memory-first": _memory_first,
        "reads-itself": lambda x, memory, *parts: decoder_block(x, x, *parts),
        "no-cross": _no_cross,
        "no-cross-residual": _no_cross_residual,
        "memory-normed": lambda x, memory, own, cross, feed, norm: decoder_block(
            x, norm(memory), own, cross, feed, norm
        ),
        "one-norm": _one_norm,
        "pre-norm": _pre_norm_decoder,
        "fed-twice": _fed_twice,
    },
)


def _groups(n_source, n_target):
    """Return which of the tokens are of the source, and which pairs are not of the future."""
    return np.arange(n_source + n_target) < n_source, np.tri(n_source + n_target, dtype=bool)


def _causal_source(n_source, n_target):
    return _groups(n_source, n_target)[1]


def _all_but_source(n_source, n_target):
    source, _ = _groups(n_source, n_target)
    return source | ~source[:, None]


def _two_worlds(n_source, n_target):
    source, past = _groups(n_source, n_target)
    return (source[:, None] == source) & (source | past)


def _source_reads_on(n_source, n_target):
    source, past = _groups(n_source, n_target)
    return source[:, None] | source | past


def _strict(n_source, n_target):
    return who_sees_whom(n_source, n_target) & ~np.diag(~_groups(n_source, n_target)[0])


SIGHT = Exercise(
    id="transformer-4",
    solve=who_sees_whom,
    cases=lambda rng: [(2, 3), (3, 2), (1, 5), (5, 1), (7, 4)],
    mistakes={
        "causal-source": _causal_source,
        "target-sees-future": _all_but_source,
        "two-worlds": _two_worlds,
        "source-sees-target": _source_reads_on,
        "all": lambda n_source, n_target: np.ones((n_source + n_target,) * 2, bool),
        "transposed": lambda n_source, n_target: who_sees_whom(n_source, n_target).T,
        "not-itself": _strict,
        "hidden": lambda n_source, n_target: ~who_sees_whom(n_source, n_target),
        "target-first": lambda n_source, n_target: np.roll(who_sees_whom(n_source, n_target), n_target, (0, 1)),
    },
    properties={
        "sees-itself": lambda output, n_source, n_target: output.diagonal().all(),
    },
)


def _parts(d_model, d_mlp):
    """Return the parameters of an attention, of a feed-forward layer and of a norm."""
    return 4 * d_model**2 + 4 * d_model, 2 * d_model * d_mlp + d_mlp + d_model, 2 * d_model


def _counted(attentions=3, feeds=2, norms=5, tables=1, extra=lambda d_model, d_mlp: 0):
    """Count with wrong numbers of parts in a pair of layers."""

    def transformer_parameters(d_model, d_mlp, num_layers, vocab_size):
        attention, feed, norm = _parts(d_model, d_mlp)
        pair = attentions * attention + feeds * feed + norms * norm
        return num_layers * (pair + extra(d_model, d_mlp)) + tables * vocab_size * d_model

    return transformer_parameters


COUNT = Exercise(
    id="transformer-5",
    solve=transformer_parameters,
    cases=lambda rng: [(2, 3, 1, 5), (512, 2048, 6, 37000), (1024, 4096, 6, 37000), (11, 7, 3, 13)],
    mistakes={
        "one-attention": _counted(attentions=2, norms=4),
        "feed-after-each": _counted(feeds=3),
        "no-biases": _counted(extra=lambda d_model, d_mlp: -(12 * d_model + 2 * (d_mlp + d_model))),
        "no-norms": _counted(norms=0),
        "norm-without-bias": _counted(norms=2.5),
        "two-tables": _counted(tables=2),
        "three-tables": _counted(tables=3),
        "no-table": _counted(tables=0),
        "encoder-only": _counted(attentions=1, feeds=1, norms=2),
        "final-norms": lambda d_model, *sizes: transformer_parameters(d_model, *sizes) + 4 * d_model,
    },
    tolerance=1e-12,
)

EXERCISES = (NORM, PRE_NORM, DECODER, SIGHT, COUNT)
