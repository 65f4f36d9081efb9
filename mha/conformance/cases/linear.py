"""Linear attention: a running state in the place of keys and values, in one piece or in parts."""

import numpy as np

from mha.conformance.case import Part, Relation

ONES = np.ones((1, 1, 3, 1))
VALUES = np.array([1.0, 2, 3]).reshape(1, 1, 3, 1)
KEYS = np.array([[1.0, 0], [0, 1], [1, 0]]).reshape(1, 1, 3, 2)  # the third is the first again
STATE = np.array([5.0, 7]).reshape(1, 1, 2, 1)


def case(name, part, run, expected, report=""):
    expected = np.array(expected, np.float64)
    return Part(name=name, report=report, needs=frozenset({part}), run=run, expected=expected)


def read(part, *inputs, item=0, **options):
    return lambda subject: subject.part(part, *inputs, item=item, **options).ravel()


def draw(n=8, d=3):
    rng = np.random.default_rng(29)
    q, k, v = (rng.normal(size=(1, 2, n, d)) / d**0.5 for _ in range(3))
    return q, k / np.linalg.norm(k, axis=-1, keepdims=True), v


def beta_of(x):
    return np.full(x.shape[:-1], 0.5)


def continued(part, item, beta=False):
    """Three tokens, then five from the state that they left; `item` 0 is the output, 1 the last state."""

    def run(subject):
        def go(rows, item, **options):
            given = [*rows, beta_of(rows[0])] if beta else rows
            return subject.part(part, *given, item=item, **options)

        rows = draw()
        first, second = [x[..., :3, :] for x in rows], [x[..., 3:, :] for x in rows]
        state = go(first, 1)
        parts = go(second, item, state=state)
        return go(rows, item), parts if item else np.concatenate([go(first, 0), parts], -2)

    return run


def later_tokens(part, beta=False):
    def run(subject):
        rows = draw()
        changed = [np.concatenate([x[..., :5, :], -2 * x[..., 5:, :]], -2) for x in rows]
        more = [beta_of(rows[0])] if beta else []
        item = None if part == "linear-average" else 0
        return tuple(subject.part(part, *x, *more, item=item)[..., :5, :] for x in (rows, changed))

    return run


CASES = [
    case(
        "values-are-averaged-so-far",
        "linear-average",
        read("linear-average", ONES, ONES, VALUES, item=None),
        [1, 1.5, 2],
        "lucidrains/performer-pytorch#40",
    ),
    case(
        "weights-of-zero-average-to-zero",
        "linear-average",
        read("linear-average", 0 * ONES, ONES, VALUES, item=None),
        [0, 0, 0],
        "lucidrains/performer-pytorch#21",
    ),
    case("values-are-summed-so-far", "linear-attention", read("linear-attention", ONES, ONES, VALUES), [1, 3, 6]),
    case(
        "a-state-holds-keys-times-values",
        "linear-attention",
        read("linear-attention", KEYS, KEYS, VALUES, item=1),
        [4, 2],
    ),
    case(
        "a-state-is-read-before-any-token",
        "linear-attention",
        read("linear-attention", KEYS, 0 * KEYS, VALUES, state=STATE),
        [5, 7, 5],
    ),
    case(
        "no-tokens-leave-the-state",
        "linear-attention",
        read("linear-attention", KEYS[..., :0, :], KEYS[..., :0, :], VALUES[..., :0, :], item=1, state=STATE),
        [5, 7],
        "fla-org/flash-linear-attention#20",
    ),
    case(
        "a-token-forgets-what-was-before-it",
        "linear-attention",
        read("linear-attention", ONES, ONES, ONES, log_decay=np.full((1, 1, 3), np.log(0.5))),
        [1, 1.5, 1.75],
        "fla-org/flash-linear-attention#92",
    ),
    case(
        "a-state-is-forgotten-too",
        "linear-attention",
        read(
            "linear-attention",
            ONES,
            ONES,
            ONES,
            state=np.full((1, 1, 1, 1), 5.0),
            log_decay=np.full((1, 1, 3), np.log(0.5)),
        ),
        [3.5, 2.75, 2.375],
    ),
    case("the-same-key-is-written-over", "delta-rule", read("delta-rule", KEYS, KEYS, VALUES, ONES[..., 0]), [1, 2, 3]),
    case(
        "half-a-correction",
        "delta-rule",
        read("delta-rule", KEYS, KEYS, VALUES, 0.5 * ONES[..., 0]),
        [0.5, 1, 1.75],
    ),
    Relation(
        name="a-state-continues",
        report="fla-org/flash-linear-attention#285",
        needs=frozenset({"linear-attention"}),
        run=continued("linear-attention", 0),
    ),
    Relation(
        name="the-last-state-of-two-parts",
        report="fla-org/flash-linear-attention#494",
        needs=frozenset({"linear-attention"}),
        run=continued("linear-attention", 1),
    ),
    Relation(
        name="a-corrected-state-continues", needs=frozenset({"delta-rule"}), run=continued("delta-rule", 0, beta=True)
    ),
    Relation(
        name="the-last-corrected-state-of-two-parts",
        report="fla-org/flash-linear-attention#351",
        needs=frozenset({"delta-rule"}),
        run=continued("delta-rule", 1, beta=True),
    ),
    Relation(
        name="later-tokens-change-no-sum", needs=frozenset({"linear-attention"}), run=later_tokens("linear-attention")
    ),
    Relation(
        name="later-tokens-change-no-average", needs=frozenset({"linear-average"}), run=later_tokens("linear-average")
    ),
    Relation(
        name="later-tokens-change-no-correction",
        needs=frozenset({"delta-rule"}),
        run=later_tokens("delta-rule", beta=True),
    ),
]
