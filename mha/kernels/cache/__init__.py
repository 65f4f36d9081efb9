"""Few queries against the many keys of a cache, which lies in one piece or in pages.   Not differentiable.

The meaning is that of `mha.reference.cache`. What is new here: lengths stay on the device, and nobody waits for them.
"""

from functools import partial

import torch

from mha import shapes
from mha.kernels.cache.band import Band, band_of
from mha.kernels.cache.checks import check, check_pages
from mha.kernels.cache.operator import decode
from mha.options import OURS, hinted

__all__ = ["decode_attention", "decode_attention_lse", "paged_attention", "paged_attention_lse"]

_LSE = "decode_attention_lse and paged_attention_lse return it behind the output"
CACHE = OURS | {
    "block_table": "page_table= of paged_attention",
    "cache_seqlens": "mask=masks.lengths(n), or lengths= of paged_attention",
    "num_splits": "leave it out: sizes and device decide",
    "return_lse": _LSE,
    "return_softmax_lse": _LSE,
}


@partial(hinted, answers=CACHE)
def decode_attention(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    bias=None,
    dropout=None,
    **options,
) -> "Float[Tensor, '*b h i e']":
    """Return the output of `attention` for few queries: a core for the steps of a layer and for `cached_attention`.

    Options as there: mask (causal, window and lengths, joined by &), scale, softcap, sinks, q_start; and precision,
    "ieee" or "tf32x3", how float32 is multiplied. All that a sample's lengths hide may hold anything. A bias, dropout
    and tensors that require a gradient are refused. The keys are split as in Flash-Decoding (Dao et al., 2023).
    """
    for name, given in (("bias", bias), ("dropout", dropout)):
        if given is not None:
            raise ValueError(f"{name} is a {type(given).__name__}: expected None; mha.kernels.attention takes it")
    return decode_attention_lse(q, k, v, **options)[0]


@partial(hinted, answers=CACHE)
def decode_attention_lse(
    q: "Float[Tensor, '*b h i d']",
    k: "Float[Tensor, '*b g j d']",
    v: "Float[Tensor, '*b g j e']",
    *,
    mask=None,
    scale=None,
    softcap=None,
    sinks=None,
    q_start=None,
    precision="ieee",
) -> "tuple[Float[Tensor, '*b h i e'], Float[Tensor, '*b h i']]":
    """Return the output of `decode_attention` and the lse of its rows, float32: what `mha.reference.merge` takes."""
    start = 0 if q_start is None else q_start  # what the kernel finds out for itself need not be computed here
    call = shapes.check(q, k, v, mask=mask, scale=scale, softcap=softcap, sinks=sinks, q_start=start)
    check(q, k, v, sinks, precision)
    q, k, v = (x.expand(*call.batch_shape, *x.shape[-3:]).reshape(call.batch, *x.shape[-3:]) for x in (q, k, v))
    start = None if q_start is None else call.q_start
    out, lse = _decode(q, k, v, None, band_of(call.mask, q.device), start, call, sinks, precision)
    return out.reshape(*call.batch_shape, *out.shape[1:]), lse.reshape(*call.batch_shape, *lse.shape[1:])


@partial(hinted, answers=CACHE)
def paged_attention(
    q: "Float[Tensor, 'b h i d']",
    k_pages: "Float[Tensor, 'pages g page d']",
    v_pages: "Float[Tensor, 'pages g page e']",
    page_table: "Int[Tensor, 'b p']",
    lengths: "Int[Tensor, ' b']",
    **options,
) -> "Float[Tensor, 'b h i e']":
    """Attend to keys and values that lie in pages (Kwon et al., 2023), anywhere and in any order.

    Slot j of sample b is slot j mod (page size) of page `page_table[b, j // (page size)]`. A sample sees its first
    `lengths[b]` slots, at most those of its row of the table; entries and slots behind may hold anything. Samples may
    share pages. Nothing checks that the entries name pages that exist. Options are those of `decode_attention_lse`.
    """
    return paged_attention_lse(q, k_pages, v_pages, page_table, lengths, **options)[0]


@partial(hinted, answers=CACHE)
def paged_attention_lse(
    q, k_pages, v_pages, page_table, lengths, *,
    mask=None, scale=None, softcap=None, sinks=None, q_start=None, precision="ieee",
) -> "tuple[Float[Tensor, 'b h i e'], Float[Tensor, 'b h i']]":  # fmt: skip
    """Return the output of `paged_attention` and the lse of its rows, float32."""
    check_pages(q, k_pages, v_pages, page_table, lengths)
    n_k = page_table.shape[1] * k_pages.shape[2]
    k, v = (x.new_empty(1).expand(len(q), x.shape[1], n_k, x.shape[3]) for x in (k_pages, v_pages))  # for their shapes
    start = 0 if q_start is None else q_start
    call = shapes.check(q, k, v, mask=mask, scale=scale, softcap=softcap, sinks=sinks, q_start=start)
    check(q, k_pages, v_pages, sinks, precision)
    band = band_of(call.mask, q.device) & Band(lengths=lengths)
    start = None if q_start is None else call.q_start
    return _decode(q, k_pages, v_pages, page_table, band, start, call, sinks, precision)


def _decode(q, k, v, page_table, band, start, call, sinks, precision):
    """Run the operator, with the start of all samples as a number or of each as a table."""
    one = start is None or isinstance(start, int)
    start, starts = (start, None) if one else (None, torch.as_tensor(start).to(q.device))
    bounds = band.lengths, starts, start, band.left, band.right
    return decode(q, k, v, sinks, page_table, *bounds, call.scale, call.softcap, precision, None)
