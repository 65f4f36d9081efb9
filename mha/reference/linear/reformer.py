"""The Reformer's attention: queries are keys, and only those meet that a random hash puts side by side.

Here the pairs that meet are counted, and the definition is attention in which each counts as often as a round finds it;
`mha.nn` sorts and never forms all pairs.
"""

from dataclasses import dataclass, field

import numpy as np

from mha import shapes
from mha.approximations import ask
from mha.integers import count
from mha.options import hinted
from mha.random_matrices import gaussian
from mha.reference.dot_product import attention
from mha.reference.linear.visible_keys import visible_keys

__all__ = ["Reformer", "angular_hash", "shared_keys"]

EPSILON = 1e-6  # beside the mean square of a key, as in the authors' code


def shared_keys(q: "Float[Array, '*b n d']") -> "Float[Array, '*b n d']":
    """Return the keys that queries are: of the same direction, and of length √d."""
    return q / np.sqrt((q**2).mean(-1, keepdims=True) + EPSILON)


def angular_hash(x: "Float[Array, '*b n d']", rotations: "Float[Array, '*b d rounds half']"):
    """Return the bucket of each row in each round (…, rounds, n): which of ± its projections is the largest.

    Andoni et al. (2015). `rotations` may differ from head to head; with none (half = 0), there is one bucket.
    """
    turned = np.einsum("...nd,...drx->...rnx", x, rotations)
    both = np.concatenate([turned, -turned], -1)
    return both.argmax(-1) if both.shape[-1] else np.zeros(both.shape[:-1], int)


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
        return self._attend(q, k, v, options, self.meetings)

    def exact(self, q, k, v, **options):
        """Return what is approximated: attention of each token to all others, or to itself if it sees no other."""
        return self._attend(q, k, v, options, lambda q, shown: 1)

    def meetings(self, q, shown):
        """Return in how many rounds the query of each pair is shown the key: (…, i, j)."""
        shown = np.swapaxes(shown, -1, -2)
        buckets = np.where(shown, angular_hash(q, self.rotations), self.num_buckets)  # padding is sorted behind
        places = buckets.argsort(-1, kind="stable").argsort(-1)
        chunks = places // self.chunk
        ahead = chunks[..., :, None] - chunks[..., None, :]
        meet = (ahead == 0) | (ahead == 1)
        if not self.across_buckets:
            meet &= buckets[..., :, None] == buckets[..., None, :]
        return meet.sum(-3)

    def _attend(self, q, k, v, options, meetings):
        asked, call = ask(self, q, k, v, **options), shapes.check(q, k, v, **options)
        shown = visible_keys(asked)
        check_shared(self, q, k, shown)
        see = shown if call.mask is None else shown & shapes.visible(call)
        q, itself = np.where(shown, shapes.float64("q", q), 0.0), np.eye(call.n_q)
        times = np.where(see, meetings(q, shown) * (1 - itself), 0.0)
        alone = times.sum(-1, keepdims=True) == 0
        times = np.where(alone & see, itself, times)
        with np.errstate(divide="ignore"):
            return attention(q, shared_keys(q), v, scale=call.scale, bias=np.log(times))


def check_shared(core, q, k, shown):
    """Raise unless the queries are the keys, of the width that the rotations were drawn for."""
    if q.shape[-1] != core.d_head:
        raise ValueError(f"q has width {q.shape[-1]} and the rotations have {core.d_head}: expected equal widths")
    if q.shape != k.shape or not ((q == k) | (np.isnan(q) & np.isnan(k)) | ~shown).all():
        raise ValueError("k differs from q: expected one tensor for both, for Reformer shares queries and keys")
