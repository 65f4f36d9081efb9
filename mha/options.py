"""What other libraries call the options of attention: who writes one of these names is told ours."""

import functools

__all__ = ["hinted"]

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


def hinted(function):
    """Let a function answer another library's option with its own; every other error stays as it is."""

    @functools.wraps(function)
    def call(*args, **options):
        try:
            return function(*args, **options)
        except TypeError:
            foreign = next((name for name in options if name in OURS), None)
            if foreign is None:
                raise
        raise TypeError(f"{function.__name__} has no option {foreign}: {OURS[foreign]}")

    return call
