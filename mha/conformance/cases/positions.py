"""Positions and caches: only distances count, and a cache changes nothing."""

import numpy as np

from mha.conformance.case import Case, Relation, compared

COS, SIN = float(np.cos(1.0)), float(np.sin(1.0))
# Pairs (1, 3)·(½, 2) at distance 4 and (2, 4)·(−1, 0) at 0.04: x·y cos δ + (x₀y₁ − x₁y₀) sin δ.
INTERLEAVED = -1.5 * np.cos(4) - 2 * np.sin(4) + 6 * np.cos(0.04) - 8 * np.sin(0.04)  # pairs (1, 2) and (3, 4)
PRODUCT = 6.5 * np.cos(4) + 0.5 * np.sin(4) - 2 * np.cos(0.04) + 4 * np.sin(0.04)


class Rotation(Case):
    """A rotated vector, or the product of two, has these numbers; base 10⁴."""

    kind = "value"

    def __init__(self, name, run, expected, *, report="", interleaved=None):
        super().__init__(name=name, report=report, needs=frozenset({"rotate"}))
        object.__setattr__(self, "parts", (run, np.array(expected, np.float64), interleaved))

    def check(self, subject):
        run, expected, interleaved = self.parts
        got = np.asarray(run(subject.rotate))
        bound = 128 * subject.rounding(got)  # an angle below 128, then sums of numbers below ten
        other = {} if interleaved is None else {"interleaved": np.array(interleaved, np.float64)}
        return compared(subject, expected, got, bound, other)


def turned(x, position):
    return lambda rotate: rotate(np.array(x, np.float64).reshape(1, 1, 1, -1), np.array([position])).ravel()


def product(shift):
    """q·k of a query at 7 and a key at 3, both moved by `shift`."""

    def run(rotate):
        return (turned([1, 2, 3, 4], 7 + shift)(rotate) * turned([0.5, -1, 2, 0], 3 + shift)(rotate)).sum()

    return run


def draw(n_q, n_k, d=3):
    rng = np.random.default_rng(11)
    return rng.normal(size=(1, 2, n_q, d)), rng.normal(size=(1, 2, n_k, d)), rng.normal(size=(1, 2, n_k, d))


def chunks(subject):
    """The second chunk sees the keys of the first."""
    q, k, v = draw(5, 5)
    see = np.tri(5, dtype=bool)
    first = subject.attend(q[..., :3, :], k[..., :3, :], v[..., :3, :], mask=see[:3, :3])
    second = subject.attend(q[..., 3:, :], k, v, mask=see[3:])
    return subject.attend(q, k, v, mask=see), np.concatenate([first, second], -2)


def native_chunks(subject):
    q, k, v = draw(5, 5)
    parts = [subject.attend(q[..., a:b, :], k[..., :b, :], v[..., :b, :], causal=True) for a, b in ((0, 3), (3, 5))]
    whole = subject.attend(q, k, v, causal=True)
    first_keys = [subject.attend(q[..., 3 + n : 4 + n, :], *(x[..., : n + 1, :] for x in (k, v))) for n in range(2)]
    return whole, np.concatenate(parts, -2), {"upper-left": np.concatenate([whole[..., :3, :], *first_keys], -2)}


def steps(subject):
    """One query at a time over the keys so far."""
    q, k, v = draw(4, 4)
    rows = [subject.attend(q[..., i : i + 1, :], k[..., : i + 1, :], v[..., : i + 1, :]) for i in range(4)]
    return subject.attend(q, k, v, mask=np.tri(4, dtype=bool)), np.concatenate(rows, -2)


def padded(subject, left):
    """Two keys of padding on one side, hidden by the mask."""
    q, k, v = draw(3, 3)
    see = np.tri(3, dtype=bool)
    edges = [(0, 0), (0, 0), (2, 0) if left else (0, 2), (0, 0)]
    more = subject.attend(
        q, *(np.pad(x, edges, constant_values=9.0) for x in (k, v)), mask=np.pad(see, edges[1:3], constant_values=False)
    )
    return subject.attend(q, k, v, mask=see), more


MASK = frozenset({"mask"})

CASES = [
    Rotation(
        "a-rotated-vector",
        turned([1, 0, 0, 0], 1),
        [COS, 0, SIN, 0],
        report="huggingface/transformers#25199",
        interleaved=[COS, SIN, 0, 0],
    ),
    Rotation(
        "the-second-pair-turns-slower",
        turned([0, 1, 0, 0], 100),
        [0, COS, 0, SIN],
        report="Dao-AILab/flash-attention#288",
        interleaved=[-np.sin(100.0), np.cos(100.0), 0, 0],
    ),
    Rotation("position-zero-turns-nothing", turned([1, 2, 3, 4], 0), [1, 2, 3, 4]),
    Rotation(
        "a-rotated-product",
        product(0),
        PRODUCT,
        report="huggingface/transformers#22161",
        interleaved=INTERLEAVED,
    ),
    Rotation("only-distances-count", product(100), PRODUCT, report="unslothai/unsloth#3795", interleaved=INTERLEAVED),
    Relation(name="chunks-equal-the-whole", report="huggingface/candle#3743", needs=MASK, run=chunks),
    Relation(
        name="causal-chunks-equal-the-whole",
        report="pytorch/executorch#21749",
        needs=frozenset({"causal"}),
        run=native_chunks,
    ),
    Relation(name="steps-equal-the-whole", report="google/flax#5591", needs=MASK, run=steps),
    Relation(
        name="padding-on-the-left-changes-nothing",
        report="huggingface/transformers#22161",
        needs=MASK,
        run=lambda subject: padded(subject, left=True),
    ),
    Relation(name="padding-on-the-right-changes-nothing", needs=MASK, run=lambda subject: padded(subject, left=False)),
]
