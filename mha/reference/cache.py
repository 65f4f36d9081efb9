"""A key/value cache: what a sequence has shown so far, kept so that its next rows need only themselves."""

from dataclasses import dataclass

import numpy as np

from mha import masks
from mha.reference.dot_product import attention


@dataclass(frozen=True, eq=False)
class Cache:
    """For each sample, the keys and values of its rows so far, each (g, n, width); an empty one is `Cache()`.

    The next row of a sample stands at position `lengths`. Rows at negative positions are padding and are not kept:
    `Cache(-padding)` waits for sequences that are padded on the left.
    """

    lengths: np.ndarray | int = 0
    samples: tuple[tuple[np.ndarray, ...], ...] = ()

    def append(self, *new: "Float[Array, 'b g n width']"):
        """Return the cache with these rows behind those of each sample."""
        starts = np.broadcast_to(self.lengths, len(new[0]))
        kept = [[x[b][:, max(0, -start) :] for x in new] for b, start in enumerate(starts)]
        before = self.samples or [[x[:, :0] for x in rows] for rows in kept]
        samples = (
            tuple(np.concatenate(pair, axis=-2) for pair in zip(*sample, strict=True))
            for sample in zip(before, kept, strict=True)
        )
        return Cache(starts + new[0].shape[-2], tuple(samples))

    def crop(self, n):
        """Return the cache without the rows at position n and later; n may differ by sample."""
        ends = np.broadcast_to(n, len(self.samples))
        samples = (tuple(x[:, :end] for x in sample) for sample, end in zip(self.samples, ends, strict=True))
        return Cache(np.minimum(self.lengths, ends), tuple(samples))

    def reorder(self, order):
        """Return the cache of the samples in `order`, which may repeat some and leave out others."""
        return Cache(np.asarray(self.lengths)[order], tuple(self.samples[b] for b in order))

    @property
    def rows(self) -> "tuple[Float[Array, 'b g slots width'], ...]":
        """What `append` was given, in one array each: position is slot, zero where a sample has ended."""
        slots = max((sample[0].shape[-2] for sample in self.samples), default=0)
        padded = ([np.pad(x, ((0, 0), (0, slots - x.shape[-2]), (0, 0))) for x in sample] for sample in self.samples)
        return tuple(np.stack(samples) for samples in zip(*padded, strict=True))


def cached_attention(q, k, v, cache, *, mask=None, **options):
    """Append k and v to the cache and attend from q to all it holds: output and cache.   Book: {eq}`cached-attention`.

    The mask is about all keys, old and new: (n, slots). If it knows how many keys of a sample are valid
    (`masks.lengths`), the cache keeps no others. Without v the keys are the values too.
    """
    starts = np.broadcast_to(cache.lengths, len(q))
    cache = cache.append(k) if v is None else cache.append(k, v)
    mask = None if mask is None else masks.as_mask(mask)
    valid = None if mask is None else mask.valid_lengths()
    held = masks.lengths(np.maximum(cache.lengths, 0))
    mask = held if mask is None else mask & held
    output = attention(q, cache.rows[0], cache.rows[-1], mask=mask, q_start=starts, **options)
    return output, cache if valid is None else cache.crop(valid)


def paged_attention(q, k_pages, v_pages, page_table, lengths, *, mask=None, **options):
    """Attend to keys and values that lie in pages, anywhere and in any order.

    Slot j of sample b is slot j mod (page size) of page `page_table[b, j // (page size)]`. A sample sees its first
    `lengths[b]` slots; entries and slots behind may hold anything. Samples may share pages.
    """
    batch, (table, n) = len(q), map(np.shape, (page_table, lengths))
    if len(table) != 2 or table[0] != batch or n != (batch,):
        raise ValueError(f"page_table has shape {table} and lengths has {n}: expected ({batch}, p) and ({batch},)")
    lengths = np.minimum(lengths, page_table.shape[1] * k_pages.shape[-2])
    held = masks.lengths(lengths)
    k, v = (gather_pages(pages, page_table, lengths) for pages in (k_pages, v_pages))
    return attention(q, k, v, mask=held if mask is None else masks.as_mask(mask) & held, **options)


def gather_pages(
    pages: "Float[Array, 'pages g page d']", page_table: "Int[Array, 'b p']", lengths: "Int[Array, ' b']"
) -> "Float[Array, 'b g j d']":
    """Return what `page_table` says lies in each sample's slots; zero in those behind its length."""
    num_kv_heads, page_size, width = pages.shape[1:]
    n_k = page_table.shape[1] * page_size
    rows = np.zeros((len(page_table), num_kv_heads, n_k, width))
    for b, j in np.ndindex(len(page_table), n_k):
        if j < lengths[b]:
            page = page_table[b, j // page_size]
            if not 0 <= page < len(pages):
                raise ValueError(f"page_table sends sample {b} to page {page}: expected 0 to {len(pages) - 1}")
            rows[b, :, j] = pages[page, :, j % page_size]
    return rows
