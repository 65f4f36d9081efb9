"""The Reformer's attention: queries are keys, and only those meet that a random hash puts side by side.

Same meaning as `mha.reference`, by sorting: time and memory are proportional to rounds · length · chunk.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from mha import shapes
from mha.approximations import ask
from mha.integers import count
from mha.nn import checks
from mha.nn.dot_product import attention
from mha.nn.formula import alike, softmax, wide
from mha.nn.linear.sorted_chunks import SortedChunks, after_previous
from mha.nn.linear.visible_keys import hidden_as_zeros, visible_keys
from mha.nn.modes import own_precision, readable
from mha.nn.visible import visible
from mha.options import hinted
from mha.random_matrices import gaussian

__all__ = ["Reformer", "angular_hash", "shared_keys"]

EPSILON = 1e-6  # beside the mean square of a key, as in the authors' code


def shared_keys(q: "Float[Tensor, '*b n d']") -> "Float[Tensor, '*b n d']":
    """Return the keys that queries are: of the same direction, and of length √d."""
    return q * (q.square().mean(-1, keepdim=True) + EPSILON).rsqrt()


def angular_hash(
    x: "Float[Tensor, '*b n d']", rotations: "Float[Tensor, '*b d rounds half']"
) -> "Int[Tensor, '*b rounds n']":
    """Return the bucket of each row in each round: which of ± its projections is the largest.

    Andoni et al. (2015). `rotations` may differ from head to head; with none (half = 0), there is one bucket.
    """
    turned = torch.einsum("...nd,...drx->...rnx", x, rotations)
    both = torch.cat([turned, -turned], -1)
    return both.argmax(-1) if both.shape[-1] else both.new_zeros(both.shape[:-1], dtype=torch.long)


@dataclass(frozen=True)
class Reformer:
    """A core for queries that are also the keys, q and k equal; the keys are brought to length √d here.

    Each round hashes all tokens to `num_buckets`, 1 or an even number, sorts them by bucket, cuts the order into chunks
    and lets a token see its own chunk and the one before, of these only its own bucket (Kitaev et al. 2020). With
    `across_buckets` it sees all of both chunks, as in the code of trax and transformers. Rounds are merged by their
    lse, a key found twice counting twice. A token sees itself only if it sees nothing else.

    Causal here means that no later token enters a sum; but later tokens move the cuts between chunks. The first chunk
    has none before it. A hidden token sees nothing and gets 0.
    """

    d_head: int
    num_buckets: int
    chunk: int = 64
    rounds: int = 1
    seed: int = 0
    across_buckets: bool = False
    rotations: np.ndarray = field(init=False, repr=False, compare=False)
    supports = frozenset({"causal", "padding"})

    def __post_init__(self):
        sizes = {name: count(name, getattr(self, name), least=1) for name in ("d_head", "chunk", "rounds")}
        buckets = count("num_buckets", self.num_buckets, least=1)
        if buckets > 1 and buckets % 2:
            raise ValueError(
                f"num_buckets is {buckets}: expected 1 or an even number, each direction with its opposite"
            )
        draws = gaussian(self.seed, sizes["d_head"], sizes["rounds"], buckets // 2)
        object.__setattr__(self, "rotations", draws)

    @hinted
    def __call__(self, q, k, v, **options):
        """Return what `exact` returns with only the pairs that meet."""
        asked, q, v, shown, dtype = self._prepared(q, k, v, options)
        with own_precision(q):
            return self._merged(asked, q, v, shown).to(dtype)

    def exact(self, q, k, v, **options):
        """Return what is approximated: attention of each token to all others, or to itself if it sees no other."""
        _, q, v, shown, dtype = self._prepared(q, k, v, options)
        call = shapes.check(q, q, v, **options)
        see, itself = visible(call, q.device), torch.eye(call.n_q, dtype=torch.bool, device=q.device)
        see = torch.ones_like(itself) if see is None else see
        see = see if shown is None else see & shown
        others = see & ~itself
        others = others | (see & itself & ~others.any(-1, keepdim=True))
        bias = torch.zeros(others.shape, dtype=q.dtype, device=q.device).masked_fill(~others, -torch.inf)
        return attention(q, shared_keys(q), v, scale=call.scale, bias=bias).to(dtype)

    def _prepared(self, q, k, v, options):
        """Return the checked call, and q and v in the precision of the sums, with zeros where tokens are hidden."""
        checks.tensors(q=q, k=k, v=v)
        asked = ask(self, q, k, v, **options)
        shown = visible_keys(asked, q.device)
        if q.shape[-1] != self.d_head:
            raise ValueError(f"q has width {q.shape[-1]} and the rotations have {self.d_head}: expected equal widths")
        if q.shape != k.shape or (readable(q, k) and not equal(q, k, shown)):
            raise ValueError("k differs from q: expected one tensor for both, for Reformer shares queries and keys")
        lead = *asked.call.batch_shape, asked.call.num_heads
        rows = (x.expand(*lead, *x.shape[-2:]) for x in map(wide, alike(q, v)))
        return asked, *hidden_as_zeros(shown, *rows), shown, v.dtype

    def _merged(self, asked, q, v, shown):
        """Attend within each round and merge the rounds by their lse."""
        rotations = torch.as_tensor(self.rotations, dtype=q.dtype, device=q.device)
        buckets = angular_hash(q.detach(), rotations)
        if shown is not None:
            buckets = buckets.masked_fill(~shown.mT, self.num_buckets)  # padding is sorted behind
        chunks = SortedChunks(buckets.argsort(dim=-1, stable=True), min(self.chunk, max(1, q.shape[-2])))
        keys, values = (after_previous(chunks.rows(x)) for x in (shared_keys(q), v))
        scores = asked.call.scale * chunks.rows(q) @ keys.mT
        scores = scores.masked_fill(~self._meet(asked, chunks, buckets, shown), -torch.inf)
        alone = (scores == -torch.inf).all(-1, keepdim=True)
        lse = scores.masked_fill(alone, 0.0).logsumexp(-1, keepdim=True).masked_fill(alone, -torch.inf)
        outputs, lse = chunks.undone(softmax(scores) @ values), chunks.undone(lse)
        output = (softmax(lse.transpose(-3, -1)).transpose(-3, -1) * outputs).sum(-3)
        itself = (lse == -torch.inf).all(-3)
        if asked.causal:
            itself = itself & (start_of(asked, 2) >= 0)
        return torch.where(itself, v, output)  # what is hidden holds 0

    def _meet(self, asked, chunks, buckets, shown):
        """Tell which pairs of the sorted chunks count: (…, rounds, chunks, s, 2s)."""
        places = torch.arange(buckets.shape[-1], device=buckets.device).expand_as(buckets)
        places = places if shown is None else places.masked_fill(~shown.mT, -1)
        i = chunks.numbers(places, -1)[..., None]
        j = after_previous(i, -1).mT
        meet = (i >= 0) & (j >= 0) & (i != j)
        if not self.across_buckets:
            bucket = chunks.numbers(buckets, -1)[..., None]
            meet = meet & (bucket == after_previous(bucket, -1).mT)
        return meet & (j <= i + start_of(asked, 4)) if asked.causal else meet


def start_of(asked, axes):
    """Return where the first query stands: an integer, or one a sample, with `axes` axes behind that of the heads."""
    start = asked.call.q_start
    return start if isinstance(start, int) else torch.as_tensor(start).reshape(*asked.call.batch_shape, 1, *[1] * axes)


def equal(q, k, shown):
    """Tell whether queries and keys are the same where they are shown."""
    same = (q == k) | (q.isnan() & k.isnan())
    return bool((same if shown is None else same | ~shown).all())
