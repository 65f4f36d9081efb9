"""Top-k attention: each query keeps the keys of its highest scores (Zhao et al. 2019; Gupta et al. 2021)."""

import torch

from mha import shapes
from mha.integers import count
from mha.nn import checks, formula
from mha.nn.dot_product import attention, scores
from mha.nn.hidden import Selected, select
from mha.nn.modes import own_precision
from mha.nn.visible import visible

__all__ = ["top_k_attention", "top_keys"]


def top_keys(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    *,
    num_keys,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    q_start=None,
) -> "Bool[Tensor, '*b h i j']":
    """Tell which keys each query keeps: the `num_keys` visible ones of the highest scores, all where it sees fewer.

    Of equal scores the earlier key is kept, so that no query ever has more than `num_keys`.
    """
    checks.tensors(q=q, k=k)
    call = shapes.check(q, k, mask=mask, bias=bias, scale=scale, softcap=softcap, q_start=q_start)
    return _kept(call, q, k, bias, num_keys)


def top_k_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    num_keys,
    mask=None,
    bias=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    dropout=None,
) -> "Float[Tensor, '*b h i e']":
    """Attend to the `num_keys` keys of the highest scores; the softmax runs over them alone.

    The gradient passes through the kept scores; the choice has none. It costs all n² scores. With `functools.partial`
    this is the core of a `MultiHeadAttention`.
    """
    checks.tensors(q=q, k=k, v=v)
    options = {"bias": bias, "scale": scale, "softcap": softcap, "q_start": q_start}
    call = shapes.check(q, k, v, mask=mask, sinks=sinks, dropout=dropout, **options)
    kept = _kept(call, q, k, bias, num_keys).expand(call.weights_shape)
    kept = kept.reshape(call.batch, *call.weights_shape[-3:])
    return attention(q, k, v, mask=kept, sinks=sinks, dropout=dropout, **options)


def highest(s, number):
    """Tell which entries of each row are among its `number` highest; −inf is never, the earlier of equals is first."""
    first = s.nan_to_num(torch.inf, torch.inf, -torch.inf)  # a NaN that a query sees is kept, to be seen in its output
    number = min(count("num_keys", number, least=1), s.shape[-1])
    last = first.topk(number).values[..., -1:]
    above, equal = first > last, first == last
    room = number - above.sum(-1, keepdim=True)
    return (above | (equal & (equal.cumsum(-1) <= room))) & (s != -torch.inf)


@torch.no_grad()
def _kept(call, q, k, bias, num_keys):
    q, k = formula.alike(q, k)
    with own_precision(q):
        see = visible(call, q.device, bias)
        given = Selected(q, k, None) if see is None else select(q, k, None, see)
        s, poison = scores(call, given, see, bias)
    return highest(s if poison is None else s + poison, num_keys)
