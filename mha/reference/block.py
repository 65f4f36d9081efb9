"""The blocks of a Transformer: layers that add to a stream, each with a norm before it or behind (Vaswani et al. 2017).

A block is made of functions: `attention` takes the stream (…, length, d_model) and returns as much, with its weights
already in it, and so do `feed` and the norms. Any layer fits, and what is added to the stream is all that it does.
"""

from mha import shapes


def residual(x: "Float[Array, '*b n m']", layer, norm, *, norm_first=True) -> "Float[Array, '*b n m']":
    """Add to the stream what a layer makes of it: x + layer(norm(x)), or norm(x + layer(x)).   Book: {eq}`residual`.

    The first order is called pre-norm, the second, that of the first Transformer, post-norm (Xiong et al. 2020).
    """
    x = shapes.float64("x", x)
    shapes.check_rank("x", x, ("length", "width"))
    found = layer(norm(x)) if norm_first else layer(x)
    shapes.check_shape("what the layer returns", found, x.shape)
    return x + found if norm_first else norm(x + found)


def encoder_block(x: "Float[Array, '*b n m']", attention, feed, *, norms, norm_first=True) -> "Float[Array, '*b n m']":
    """Let tokens take from each other, then let each think alone.   Book: {eq}`encoder-block`.

    `norms` are those of attention and of the feed-forward layer.
    """
    attention_norm, feed_forward_norm = _norms(norms, ("attention", "the feed-forward layer"))
    x = residual(x, attention, attention_norm, norm_first=norm_first)
    return residual(x, feed, feed_forward_norm, norm_first=norm_first)


def decoder_block(
    x: "Float[Array, '*b n m']",
    memory: "Float[Array, '*b s c']",
    attention,
    cross_attention,
    feed,
    *,
    norms,
    norm_first=True,
) -> "Float[Array, '*b n m']":
    """Let tokens take from each other, then from the memory, then let each think alone.   Book: {eq}`decoder-block`.

    `attention(x)` should hide what is to come, `cross_attention(x, memory)` reads what the encoder has made of the
    source; no norm of this block acts on it. `norms` are those of the three layers in their order.
    """
    attention_norm, cross_norm, feed_forward_norm = _norms(
        norms, ("attention", "cross-attention", "the feed-forward layer")
    )
    memory = shapes.float64("memory", memory)
    x = residual(x, attention, attention_norm, norm_first=norm_first)
    x = residual(x, lambda x: cross_attention(x, memory), cross_norm, norm_first=norm_first)
    return residual(x, feed, feed_forward_norm, norm_first=norm_first)


def _norms(norms, of):
    if not isinstance(norms, tuple | list) or len(norms) != len(of):
        got = f"has {len(norms)} entries" if hasattr(norms, "__len__") else f"is a {type(norms).__name__}"
        raise ValueError(f"norms {got}: expected {len(of)} functions, those of {', '.join(of)}")
    return norms
