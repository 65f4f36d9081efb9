"""What other libraries call the options of attention: who writes one of these names is told ours."""

import functools

__all__ = ["LAYER", "OURS", "hinted"]

_MASK = "mask= takes booleans, True = attend, and bias= numbers that are added"
_CAUSAL = "mask=masks.causal puts the last query at the last key; with q_start=0 the first stands at the first"
_GROUPED = "leave it out: key heads that are fewer than the query heads serve groups of them"
OURS = {
    "attention_mask": _MASK,
    "attn_bias": _MASK,
    "attn_mask": _MASK,
    "block_mask": "mask= takes a mask of mha.masks",
    "causal": _CAUSAL,
    "dropout_p": "dropout=Dropout(p, seed), of mha.dropout",
    "enable_gqa": _GROUPED,
    "is_causal": _CAUSAL,
    "key_padding_mask": "mask=masks.key_padding(keep) or masks.lengths(n), True = attend",
    "need_weights": "attention_weights gives the weights",
    "score_mod": "bias= adds to the scores, and softcap= bounds them",
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
