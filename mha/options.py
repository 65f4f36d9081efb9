"""What other libraries call the options of attention: who writes one of these names is told ours."""

import functools

__all__ = ["LAYER", "OURS", "hinted"]

_MASK = "mask= takes booleans, True = attend, and bias= numbers that are added"
_CAUSAL = "mask=masks.causal puts the last query at the last key; with q_start=0 the first stands at the first"
_PACKED = "mask=masks.segments(ids), one id per document"
_SINKS = "sinks=, one logit a query head"
_STATS = "attention_stats gives the lse"
_GROUPED = "leave it out: key heads that are fewer than the query heads serve groups of them"
OURS = {
    "alibi_slopes": "bias=mha.kernels.alibi(slopes), or the biases as an array",
    "attention_mask": _MASK,
    "attn_bias": _MASK,
    "attn_mask": _MASK,
    "block_mask": "mask= takes a mask of mha.masks",
    "causal": _CAUSAL,
    "cu_seqlens_k": _PACKED,
    "cu_seqlens_q": _PACKED,
    "dropout_p": "dropout=Dropout(p, seed), of mha.dropout",
    "enable_gqa": _GROUPED,
    "is_causal": _CAUSAL,
    "key_padding_mask": "mask=masks.key_padding(keep) or masks.lengths(n), True = attend",
    "kernel_options": "leave it out: tile sizes follow from the device",
    "learnable_sink": _SINKS,
    "need_weights": "attention_weights gives the weights",
    "return_aux": _STATS,
    "return_lse": _STATS,
    "s_aux": _SINKS,
    "score_mod": "bias= adds to the scores (mha.kernels takes a function of positions, BiasRule), softcap= bounds them",
    "sliding_window": "mask=masks.window_of(total), the query's own position included",
    "sm_scale": "scale=",
    "softmax_scale": "scale=",
    "window_size": "mask=masks.window(left, right), both ends inclusive",
}


LAYER = OURS | {
    "average_attn_weights": "the method weights gives those of each head",
    "dropout_p": "a layer is built with its dropout=",
    "is_causal": "mask=masks.causal, and positions= say where the rows of x stand",
    "key": "the context, one input or a pair for keys and values, comes behind x",
    "need_weights": "the method weights gives them",
    "scale": "a layer is built with its scale=",
    "softcap": "a layer is built with its softcap=",
    "value": "the context, one input or a pair for keys and values, comes behind x",
}


def hinted(function, answers=OURS):
    """Let a function answer another library's option with its own; every other error stays as it is."""

    @functools.wraps(function)
    def call(*args, **options):
        try:
            return function(*args, **options)
        except TypeError:
            foreign = next((name for name in options if name in answers), None)
            if foreign is None:
                raise
        raise TypeError(f"{function.__qualname__} has no option {foreign}: {answers[foreign]}")

    return call
