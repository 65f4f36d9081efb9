"""What a state-space layer remembers of a sequence: as much after a million tokens as after one."""

from dataclasses import dataclass
from typing import Any

import torch

from mha.integers import count, integers
from mha.nn.cache import Cache, check_order

__all__ = ["StateCache"]


@dataclass(frozen=True, eq=False, repr=False)
class StateCache:
    """The last inputs of the convolution (b, c, w − 1) and the state (b, h, d, e); an empty one: `StateCache()`.

    The next token of a sample stands at position `lengths`, one integer or one for each sample, (b,), as in `Cache`:
    `StateCache(-padding)` waits for sequences that are padded on the left. It is a value: a step returns a new one.
    """

    lengths: Any = 0
    inputs: Any = None
    state: Any = None

    def __post_init__(self):
        object.__setattr__(self, "lengths", Cache(self.lengths).lengths)

    def positions(self, n, device=None):
        """Return where the next n tokens stand: (n,), or (b, n) if the samples differ."""
        return Cache(self.lengths).positions(n, device)

    def slots_after(self, n):
        """Return the number of tokens of the longest sample when n more have come."""
        return Cache(self.lengths).slots_after(n)

    def after(self, n, inputs, state):
        """Return the cache n tokens later."""
        return StateCache(self.lengths + n, inputs, state)

    def crop(self, n):
        """Return the cache itself if it has no token at position n or later: a state cannot take a token back."""
        longest = self.slots_after(0)
        if count("n", n) < longest:
            raise ValueError(
                f"n is {n}: expected at least {longest}, for a state forgets no last tokens; keep an older one"
            )
        return self

    def reorder(self, order):
        """Return the cache of the samples in `order`, which may repeat some and leave out others, as beams do."""
        order = torch.as_tensor(integers("order", order, "the numbers of the samples to keep"))
        check_order(order, self)
        lengths = self.lengths if isinstance(self.lengths, int) else self.lengths[order.to(self.lengths.device)]
        return StateCache(lengths, *(x.index_select(0, order.to(x.device)) for x in self.rows))

    @property
    def rows(self):
        """All that is kept: nothing before the first step."""
        return () if self.state is None else (self.inputs, self.state)

    def __repr__(self):
        lengths = self.lengths if isinstance(self.lengths, int) else self.lengths.tolist()
        shape = None if self.state is None else tuple(self.state.shape)
        return f"StateCache(lengths={lengths}, state of shape {shape})"
