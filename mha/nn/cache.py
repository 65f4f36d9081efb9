"""A key/value cache: what a sequence has shown so far, kept so that its next rows need only themselves.

Same meaning as `mha.reference.cache`. Rows go into buffers with room to grow, which a cache shares with those made
from it, and only into slots that none of them sees: an old cache stays as it was. Where torch keeps a graph, or traces
one, every cache has buffers of its own.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from mha import masks
from mha.integers import count, integers
from mha.nn import checks
from mha.nn.dot_product import attention
from mha.nn.modes import readable

__all__ = ["Cache", "cached_attention"]


@dataclass(eq=False)
class Room:
    """Buffers (b, g, slots, width), and how many slots, of each sample, hold rows that some cache sees."""

    buffers: tuple[torch.Tensor, ...]
    taken: Any

    def is_free(self, start, slots):
        """Tell whether rows from position `start` on may be written here, up to the last of `slots`."""
        if slots > self.buffers[0].shape[-2] or (
            self.buffers[0].is_inference() and not torch.is_inference_mode_enabled()
        ):
            return False  # torch forbids to write into a tensor of inference mode outside of it
        free = _at_least(start, 0) >= self.taken
        return free if isinstance(free, bool) else bool(free.all())


@dataclass(frozen=True, eq=False, repr=False)
class Cache:
    """The rows that a layer remembers of each sample, keys and values or what else it appends; an empty one: `Cache()`.

    The next row of a sample stands at position `lengths`, one integer for all samples or one for each, (b,). Position
    is slot: `rows` are (b, g, slots, width), and behind a sample's length they may hold anything. Rows at negative
    positions are padding and are not kept: `Cache(-padding)` waits for sequences that are padded on the left.
    """

    lengths: Any = 0
    rows: tuple[torch.Tensor, ...] = ()
    room: Room | None = None

    def __post_init__(self):
        if type(self.lengths) is not int:
            lengths = torch.as_tensor(integers("lengths", self.lengths, "an integer, or one for each sample"))
            object.__setattr__(self, "lengths", _one_if_equal(lengths))

    def append(self, *new: "Float[Tensor, '*b g n width']"):
        """Return the cache with these rows behind those of each sample."""
        _check_rows(self, new)
        start = self.lengths if isinstance(self.lengths, int) else self.lengths.to(new[0].device)
        end = start + new[0].shape[-2]
        slots = self.slots_after(new[0].shape[-2])
        alone = not readable(*new) or _in_graph(*new, *self.rows)
        room = self.room
        if alone or room is None or not room.is_free(start, slots):
            room = Room(self._moved(new, slots, 0 if alone else max(slots // 2, 32)), 0)
        for buffer, rows in zip(room.buffers, new, strict=True):
            _write(buffer, rows, start)
        room.taken = _at_least(end, 0)
        return Cache(end, _cut(room.buffers, slots), None if alone else room)

    def crop(self, n):
        """Return the cache without the rows at position n and later; n may differ by sample."""
        n = count("n", n) if isinstance(n, int) else torch.as_tensor(integers("n", n, "one integer for each sample"))
        both = isinstance(self.lengths, int) and isinstance(n, int)
        lengths = min(self.lengths, n) if both else torch.minimum(*map(torch.as_tensor, (self.lengths, n)))
        return Cache(lengths, _cut(self.rows, max(0, _largest(lengths))), self.room)

    def reorder(self, order):
        """Return the cache of the samples in `order`, which may repeat some and leave out others, as beams do."""
        order = torch.as_tensor(integers("order", order, "the numbers of the samples to keep"))
        check_order(order, self)
        lengths = self.lengths if isinstance(self.lengths, int) else self.lengths[order.to(self.lengths.device)]
        slots = max(0, _largest(lengths))
        if self.room is None:
            return Cache(lengths, _cut(_selected(self.rows, order), slots))
        buffers = _selected(self.room.buffers, order)
        return Cache(lengths, _cut(buffers, slots), Room(buffers, _at_least(lengths, 0)))

    def __repr__(self):
        lengths = self.lengths if isinstance(self.lengths, int) else self.lengths.tolist()
        return f"Cache(lengths={lengths}, rows of shape {[tuple(x.shape) for x in self.rows]})"

    @property
    def slots(self):
        """The number of slots: what the longest sample needs."""
        return self.rows[0].shape[-2] if self.rows else 0

    def slots_after(self, n):
        """Return the number of slots when n more rows have come."""
        return max(0, _largest(self.lengths) + n)

    def positions(self, n, device=None):
        """Return where the next n rows stand: (n,), or (b, n) if the samples differ."""
        if isinstance(self.lengths, int):
            return torch.arange(self.lengths, self.lengths + n, device=device)
        return self.lengths.to(device)[:, None] + torch.arange(n, device=device)

    def _moved(self, new, slots, free):
        """Return copies of the rows, with `free` slots behind those that are needed."""
        buffers = tuple(x.new_zeros(*x.shape[:-2], slots + free, x.shape[-1]) for x in new)
        for buffer, rows in zip(buffers, self.rows, strict=False):
            buffer[..., : self.slots, :] = rows
        return buffers


def cached_attention(q, k, v, cache, *, mask=None, core=attention, **options):
    """Append k and v to the cache and attend from q to all it holds: output and cache.   Book: {eq}`cached-attention`

    The mask is about all keys, old and new: (n, slots). If it knows how many keys of a sample are valid
    (`masks.lengths`), the cache keeps no others. Without v the keys are the values too. `options` are those of `core`.
    """
    start, cache = cache.lengths, cache.append(k) if v is None else cache.append(k, v)
    mask = None if mask is None else masks.as_mask(mask)
    valid = None if mask is None else mask.valid_lengths()
    if not isinstance(cache.lengths, int):
        held = masks.lengths(cache.lengths.clamp(min=0))
        mask = held if mask is None else mask & held
    elif valid is None:
        start = None  # the last row stands at the last key, as in any call
        if q.shape[-2] == 1 and isinstance(mask, masks.Causal) and not getattr(core, "reads_places", False):
            mask = None  # and sees all that there is
    output = core(q, cache.rows[0], cache.rows[-1], mask=mask, q_start=start, **options)
    if output.requires_grad:
        cache = replace(cache, room=None)  # the graph remembers these rows: nobody may write behind them
    return output, cache if valid is None else cache.crop(valid)


def check_order(order, cache):
    """Raise unless these are numbers of samples that a cache has, where they can be read."""
    samples = cache.rows[0].shape[0] if cache.rows else None if isinstance(cache.lengths, int) else len(cache.lengths)
    if samples is None or order.device.type != "cpu" or not readable(order) or not len(order):
        return
    if int(order.min()) < 0 or int(order.max()) >= samples:
        raise ValueError(f"order is {order.tolist()}: expected numbers of samples, 0 to {samples - 1}")


def _check_rows(cache, new):
    checks.tensors(**{f"rows {number}": x for number, x in enumerate(new)})
    first = new[0].shape
    if any(x.ndim < 3 or x.shape[:-1] != first[:-1] for x in new):
        got = ", ".join(str(tuple(x.shape)) for x in new)
        raise ValueError(f"the rows have shapes {got}: expected (b, g, n, width), equal but for the width")
    if not isinstance(cache.lengths, int) and first[:-3] != cache.lengths.shape:
        raise ValueError(
            f"the rows have leading axes {tuple(first[:-3])}: expected {tuple(cache.lengths.shape)}, "
            "for the cache has a length for each sample"
        )
    if cache.rows and not (len(cache.rows) == len(new) and all(map(_alike, cache.rows, new))):
        raise ValueError(
            f"the rows are {_kinds(new)}: expected {_kinds(cache.rows)}, (b, g, width, dtype) of those in the cache"
        )


def _alike(x, y):
    return x.dtype is y.dtype and x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-1]


def _kinds(rows):
    return [(*x.shape[:-2], x.shape[-1], x.dtype) for x in rows]


def _write(buffer, rows, start):
    """Put rows into the slots from `start` on; what stands before slot 0 is padding."""
    if isinstance(start, int):
        if start < 0:
            rows, start = rows[..., -start:, :], 0
        buffer.narrow(-2, start, rows.shape[-2]).copy_(rows)
        return
    slot = start[:, None] + torch.arange(rows.shape[-2], device=rows.device)
    sample, row = (slot >= 0).nonzero(as_tuple=True)
    buffer[sample, :, slot[sample, row]] = rows[sample, :, row]


def _cut(buffers, slots):
    return tuple(x.narrow(-2, 0, slots) for x in buffers)


def _selected(buffers, order):
    return tuple(x.index_select(0, order.to(x.device)) for x in buffers)


def _in_graph(*tensors):
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _largest(lengths):
    return lengths if isinstance(lengths, int) else int(lengths.max()) if len(lengths) else 0


def _one_if_equal(lengths):
    """Return the one number that all lengths are, where it can be read without waiting for a device."""
    if lengths.device.type != "cpu" or not readable(lengths) or not len(lengths):
        return lengths
    low, high = int(lengths.min()), int(lengths.max())
    return low if low == high else lengths


def _at_least(lengths, least):
    return max(lengths, least) if isinstance(lengths, int) else lengths.clamp(min=least)
