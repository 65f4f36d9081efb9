"""What a multi-head layer refuses when it is built or called."""

import torch

from mha import shapes
from mha.integers import count
from mha.nn import checks
from mha.nn.cache import Cache
from mha.nn.rotary import Rotary

__all__ = [
    "check_cache",
    "check_choice",
    "check_flags",
    "check_input",
    "check_options",
    "check_position",
    "check_probability",
    "check_sizes",
    "check_unplaced",
    "contexts",
]


def check_input(name, x, linear):
    """Raise unless a linear layer can take `x`."""
    checks.tensors(**{name: x})
    shapes.check_input(name, x, linear.in_features)
    weight = linear.weight
    if x.dtype is getattr(weight, "dtype", None) or torch.is_autocast_enabled(x.device.type):
        return
    if not isinstance(weight, torch.Tensor) or not weight.is_floating_point():  # a quantized layer casts by itself
        return
    raise TypeError(f"{name} has dtype {x.dtype}: expected {weight.dtype}, the dtype of the weights; x.to(…) converts")


def check_sizes(d_model, num_heads, num_kv_heads, d_head, d_key_in, d_value_in):
    """Raise unless the sizes of a multi-head layer fit each other; without `d_head` the heads share the model width."""
    sizes = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    sizes |= {"d_key_in": d_key_in, "d_value_in": d_value_in} | ({} if d_head is None else {"d_head": d_head})
    for name, size in sizes.items():
        count(name, size, least=1)
    shapes.check_groups(num_heads, num_kv_heads)
    if d_head is None:
        shapes.check_heads(d_model, num_heads)


def check_cache(cache, x):
    """Raise unless a step can go on from `cache` with the rows of `x`."""
    if not isinstance(cache, Cache):
        raise TypeError(f"cache is {cache!r}: expected mha.nn.Cache; a sequence starts with Cache()")
    if not isinstance(cache.lengths, int) and isinstance(x, torch.Tensor) and x.shape[:-2] != cache.lengths.shape:
        raise ValueError(
            f"x has shape {tuple(x.shape)}: expected ({len(cache.lengths)}, length, width), "
            "for the cache has a length for each sample"
        )


def contexts(x, context):
    """Return the input for the keys and the input for the values: x itself where there is no context."""
    if context is None:
        return x, x
    if isinstance(context, tuple) and len(context) != 2:
        raise ValueError(f"context is a tuple of {len(context)}: expected one input, or (for keys, for values)")
    pair = context if isinstance(context, tuple) else (context, context)
    return tuple(x if given is None else given for given in pair)


def check_position(position):
    """Raise unless this is a position scheme."""
    methods = "rotate", "bias", "content_bias"
    if isinstance(position, type) or not any(callable(getattr(position, name, None)) for name in methods):
        raise TypeError(
            f"position is {position!r}: expected an object with rotate(x, positions), such as Rotary(), "
            "or with bias(q_positions, k_positions) or content_bias(q, k, q_positions, k_positions, scale)"
        )


def check_unplaced(position):
    """Raise if a layer has a position scheme, which a remembered context does not know."""
    if position is not None:
        raise ValueError(
            f"position is {position!r}: expected None, for remember and recall place nothing; forward does"
        )


def check_flags(**flags):
    """Raise unless these options of a layer are True or False."""
    hints = {"bias": "a bias on the scores is an argument of the call", "sinks": "True learns one logit a query head"}
    for name, value in flags.items():
        if not isinstance(value, bool):
            hint = f"; {hints[name]}" if name in hints else ""
            raise TypeError(f"{name} is {value!r}: expected True or False{hint}")


def check_choice(name, value, known):
    """Raise unless an option is one of the known words."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}: expected one of {', '.join(map(repr, known))}")


def check_probability(name, value):
    """Raise unless a number of a layer is a probability of dropping."""
    if not 0 <= checks.number(name, value) < 1:
        raise ValueError(f"{name} is {value}: expected 0 ≤ {name} < 1, the probability of dropping a number")


def check_options(d_head, position, scale, softcap, dropout, core, dtype, *, width="d_head"):
    """Raise unless each option of a multi-head layer is of the kind that its first pass will need."""
    if position is not None:
        check_position(position)
    turning = getattr(position, "width", None)
    if isinstance(position, Rotary) and turning is None and d_head % 2:
        raise ValueError(f"{width} is {d_head}: expected an even width, for Rotary turns pairs of coordinates")
    if isinstance(position, Rotary) and turning is not None and turning > d_head:
        raise ValueError(f"{width} is {d_head}: expected at least {turning}, the coordinates that {position} turns")
    if scale is not None:
        checks.number("scale", scale)
    if softcap is not None:
        checks.positive("softcap", softcap, hint=", or None for no cap")
    if not 0 <= checks.number("dropout", dropout) < 1:
        raise ValueError(f"dropout is {dropout}: expected 0 ≤ dropout < 1, the probability of dropping a weight")
    if not callable(core):
        raise TypeError(f"core is {core!r}: expected a function with the arguments of mha.nn.attention")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype is {dtype!r}: expected a floating-point dtype of torch")
