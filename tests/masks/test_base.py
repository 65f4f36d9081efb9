"""The mask algebra: each rule against its definition in loops, compositions against arrays, words against values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compare import assert_equal
from masks.every import every
from mha import masks
from mha.masks import causal, dense, lengths, window, window_of

NAMES = {name: getattr(masks, name) for name in masks.__all__}
N_Q, N_K, BATCH, HEADS = 5, 7, 2, 3
TABLE = np.random.default_rng(0).integers(2, size=(N_Q, N_K)) > 0
TABLE_4 = np.random.default_rng(1).integers(2, size=(BATCH, 3, N_Q, N_K)) > 0

leaves = st.one_of(
    st.sampled_from(list(every(N_Q, N_K, BATCH, HEADS).values())),
    st.just(causal),
    st.builds(window, st.integers(0, 8), st.integers(0, 8)),
    st.builds(lengths, st.lists(st.integers(0, N_K), min_size=BATCH, max_size=BATCH)),
    st.just(dense(TABLE)),
    st.just(dense(TABLE_4)),
    st.just(dense(TABLE[:, :1])),
)
compositions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)
fuzz = settings(deadline=None, max_examples=150)


def loops(rule, n_q, n_k, first):
    """Evaluate `rule(i, j)` on positions, one pair at a time."""
    return np.array([[rule(first + row, j) for j in range(n_k)] for row in range(n_q)], bool).reshape(n_q, n_k)


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 5), (5, 2), (2, 5), (7, 11)])
@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (causal, lambda i, j: j <= i),
        (window(2, 1), lambda i, j: i - 2 <= j <= i + 1),
        (window(0, 3), lambda i, j: i <= j <= i + 3),
        (window_of(3), lambda i, j: i - 2 <= j <= i),
        (causal & window(1, 1), lambda i, j: i - 1 <= j <= i),
        (~causal | window(0, 0), lambda i, j: j >= i),
    ],
    ids=lambda value: repr(value) if isinstance(value, masks.Mask) else None,
)
def test_dense_follows_the_definition(mask, rule, n_q, n_k):
    assert_equal(mask.dense(n_q, n_k), loops(rule, n_q, n_k, n_k - n_q))
    assert_equal(mask.dense(n_q, n_k, q_start=2), loops(rule, n_q, n_k, 2))


def test_lengths_and_their_positions():
    """The last query stands at the last valid key; no query stands before slot 0 while there are keys enough."""
    mask = causal & lengths([0, 2, 5])
    assert masks.query_start(mask, 1, 5).tolist() == [0, 1, 4]
    assert masks.query_start(mask, 3, 5).tolist() == [0, 0, 2]
    assert masks.query_start(mask, 5, 5).tolist() == [0, 0, 0]
    assert masks.query_start(mask, 7, 5).tolist() == [-2, -2, -2]
    for n_q in (1, 3, 5, 7):
        starts = masks.query_start(mask, n_q, 5)
        for b, n in enumerate([0, 2, 5]):
            expected = loops(lambda i, j, n=n: j <= i and j < n, n_q, 5, starts[b])
            assert_equal(mask.dense(n_q, 5)[b, 0], expected)


def test_positions_come_from_the_lengths_that_bind():
    a, b = [5, 2], [3, 4]
    assert masks.query_start(lengths(a) & lengths(b), 1, 7).tolist() == [2, 1]
    assert masks.query_start(lengths(a) | lengths(b), 1, 7).tolist() == [4, 3]
    assert masks.query_start(causal & ~lengths(a), 1, 7).tolist() == [4, 1]
    assert masks.query_start(causal | window(1, 1), 1, 7) == 6
    assert masks.query_start(lengths(a), 1, 7, 4) == 4
    assert masks.query_start(lengths(a), 1, 7, [4, 6]).tolist() == [4, 6]


def test_q_start_per_sample():
    see = causal.dense(2, 5, q_start=[0, 3])
    assert see.shape == (2, 1, 2, 5)
    for b, start in enumerate([0, 3]):
        assert_equal(see[b, 0], causal.dense(2, 5, q_start=start))


def test_dense_goes_by_slot():
    for start in (None, 0, 4, [0, 9]):
        see = (dense(TABLE) & window(99, 99)).dense(N_Q, N_K, start)
        assert_equal(see, np.broadcast_to(TABLE, see.shape))
    assert_equal((dense(TABLE_4) | ~window(99, 99)).dense(N_Q, N_K), TABLE_4)
    assert_equal((dense(TABLE[:, :1]) & window(99, 99)).dense(N_Q, N_K), np.broadcast_to(TABLE[:, :1], (N_Q, N_K)))
    assert_equal(dense(TABLE[None, None, :1]).dense(N_Q, N_K), np.broadcast_to(TABLE[:1], (N_Q, N_K)))


@fuzz
@given(compositions, compositions)
def test_an_operator_on_masks_is_the_operator_on_arrays(a, b):
    """All terms stand at the same positions, given once, or `lengths` in one operand would move the other."""
    see_a, see_b = a.dense(N_Q, N_K, 1), b.dense(N_Q, N_K, 1)
    for mask, expected in ((a & b, see_a & see_b), (a | b, see_a | see_b), (~a, ~see_a)):
        see = mask.dense(N_Q, N_K, 1)
        assert_equal(*np.broadcast_arrays(see, expected))
    assert_equal((~(a & b)).dense(N_Q, N_K, 1), (~a | ~b).dense(N_Q, N_K, 1))
    assert_equal((~(a | b)).dense(N_Q, N_K, 1), (~a & ~b).dense(N_Q, N_K, 1))


@fuzz
@given(compositions)
def test_repr_evaluates_back(mask):
    if "<" not in repr(mask):  # large tables are named by their shape
        again = eval(repr(mask), NAMES)
        assert again == mask
        assert hash(again) == hash(mask)


def test_one_pair_is_one_truth():
    assert [mask(0, 0, 3, 1) for mask in (causal, ~causal, ~~causal & ~window(1, 0))] == [True, False, True]


def test_tables_of_torch_are_named_by_what_they_hold():
    mask = masks.global_tokens([[0, 4], []]) & masks.prefix([1, 2]) & lengths([3, 5])
    assert repr(mask.on_tables(to_torch)) == repr(mask)


def test_equality_is_by_content():
    assert window(2, 0) == window_of(3)
    assert window(2, 0) != window(2, 1)
    assert lengths([3, 5]) == lengths(np.array([3, 5], np.int32)) == lengths(torch.tensor([3, 5]))
    assert lengths([3, 5]) != lengths([5, 3])
    assert dense(TABLE) == dense(torch.from_numpy(TABLE)) != dense(~TABLE)
    assert causal & window(1, 1) != window(1, 1) & causal
    assert ~~causal is causal
    assert causal != "causal"
    assert len({window(1, 0), window_of(2), lengths([3]), lengths([3])}) == 2


def test_a_mask_is_a_value():
    array = TABLE.copy()
    mask, n = dense(array), np.array([3, 5])
    kept = lengths(n)
    array[:], n[:] = ~array, 0
    assert mask == dense(TABLE)
    assert kept == lengths([3, 5])
    n, table = torch.tensor([3, 5]), torch.from_numpy(TABLE.copy())
    kept, mask_of_torch = lengths(n), dense(table)
    n.fill_(0), table.fill_(False)
    assert kept == lengths([3, 5])
    assert mask_of_torch == mask
    with pytest.raises(AttributeError):
        window(1, 2).left = 3
    with pytest.raises(ValueError, match="read-only"):
        mask.table[:] = False
    for same in mask, mask_of_torch:
        with pytest.raises(ValueError, match="read-only"):
            same.dense(*TABLE.shape)[:] = False


@fuzz
@given(compositions, st.integers(0, N_Q - 1), st.integers(0, N_K - 1), st.integers(0, 1), st.integers(0, 2))
def test_explain_is_true(mask, i, j, b, h):
    """The verdict is the value, and each term that it names has the value that it is said to have."""
    see = np.broadcast_to(mask.dense(N_Q, N_K, 0), (BATCH, 3, N_Q, N_K))
    text = mask.explain(i, j, b=b, h=h)
    head, _, reasons = text.partition(": ")
    seen = bool(see[b, h, i, j])
    assert head == f"i={i} {'may see' if seen else 'may not see'} j={j}"
    first, *others = reasons.split("; ")
    terms = [part.removeprefix(f"head {h}: ") for part in first.split(") and ")]
    terms += [term.removesuffix(f" would also {'show' if seen else 'hide'} it") for term in others]
    for term in terms:
        if "<" not in term.partition(" (")[0] and " × " not in term:  # large tables are named by their shape
            assert bool(named_in(term)(*map(np.int64, (b, h, i, j)))) == seen, term


def named_in(text):
    """Return the mask that a reason begins with; its numbers follow in parentheses."""
    while True:
        try:
            return eval(text, NAMES)
        except (SyntaxError, NameError, TypeError):
            text = text[: text.rindex(" (")]


@pytest.mark.parametrize(
    ("mask", "pair", "text"),
    [
        (causal, (7, 9), "i=7 may not see j=9: causal (9 > 7)"),
        (causal, (7, 7), "i=7 may see j=7: causal (7 ≤ 7)"),
        (window(2, 0), (7, 4), "i=7 may not see j=4: window(2, 0) (7 − 4 = 3 > 2)"),
        (window(2, 1), (7, 9), "i=7 may not see j=9: window(2, 1) (9 − 7 = 2 > 1)"),
        (causal & window(2, 0), (7, 9), "i=7 may not see j=9: causal (9 > 7); window(2, 0) would also hide it"),
        (causal & window(2, 0), (7, 3), "i=7 may not see j=3: window(2, 0) (7 − 3 = 4 > 2)"),
        (causal & window(2, 0), (7, 6), "i=7 may see j=6: causal (6 ≤ 7) and window(2, 0) (7 − 6 = 1 ≤ 2)"),
        (
            causal | window(0, 2),
            (7, 7),
            "i=7 may see j=7: causal (7 ≤ 7); window(0, 2) would also show it",
        ),
        (
            causal & (window(1, 0) | lengths([2])),
            (7, 5),
            "i=7 may not see j=5: window(1, 0) (7 − 5 = 2 > 1) and lengths([2]) (sample 0: 5 ≥ 2)",
        ),
        (~causal, (7, 5), "i=7 may not see j=5: ~causal (5 ≤ 7)"),
        (
            ~(causal & window(2, 0)),
            (7, 6),
            "i=7 may not see j=6: ~causal (6 ≤ 7) and ~window(2, 0) (7 − 6 = 1 ≤ 2)",
        ),
        (
            dense(np.eye(2, 3) > 0),
            (1, 2),
            "i=1 may not see j=2: dense([[True, False, False], [False, True, False]]) (False at row 1, column 2)",
        ),
    ],
    ids=repr,
)
def test_explain_names_the_deciding_term(mask, pair, text):
    assert mask.explain(*pair) == text


def test_explain_of_a_sample():
    assert lengths([3, 5]).explain(0, 4, b=0) == "i=0 may not see j=4: lengths([3, 5]) (sample 0: 4 ≥ 3)"
    assert lengths([3, 5]).explain(0, 4, b=1) == "i=0 may see j=4: lengths([3, 5]) (sample 1: 4 < 5)"
    with pytest.raises(ValueError, match="i is in slot 3: expected 0 to 1"):
        dense(np.eye(2, 3) > 0).explain(4, 0, q_start=1)


def test_draw():
    assert causal.draw(2, 5).splitlines() == [r"i\j 0 1 2 3 4", "  3 ■ ■ ■ ■ ·", "  4 ■ ■ ■ ■ ■"]
    assert causal.draw(3, 1).splitlines() == [r"i\j 0", " -2 ·", " -1 ·", "  0 ■"]
    assert lengths([1, 2]).draw(1, 3, b=1).splitlines() == [r"i\j 0 1 2", "  1 ■ ■ ·"]
    assert window(0, 0).draw(1, 11).splitlines()[1] == " 10  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ■"
    assert dense(TABLE_4).draw(N_Q, N_K, b=1, h=2).count("■") == TABLE_4[1, 2].sum()


def test_pairs_and_empty_rows():
    assert causal.pairs(7, 7) == 28
    assert causal.pairs(2, 5) == 9
    assert window(2, 0).pairs(5, 5) == 12
    assert lengths([2, 5]).pairs(3, 5) == 21
    assert causal.empty_rows(5, 2).tolist() == [[0], [1], [2]]
    assert causal.empty_rows(2, 5).tolist() == []
    assert lengths([0, 2]).empty_rows(2, 2).tolist() == [[0, 0, 0], [0, 0, 1]]


def to_torch(table):
    return table if isinstance(table, torch.Tensor) else torch.tensor(table)


@fuzz
@given(compositions, st.sampled_from([None, 0, 3]))
def test_torch_evaluates_the_same_rule(mask, q_start):
    samples, heads = mask.sizes()
    start = masks.query_start(mask, N_Q, N_K, q_start)
    see = masks.visible(
        mask,
        N_Q,
        N_K,
        start=start,
        batch=max(samples, np.size(start)),
        num_heads=heads,
        arange=torch.arange,
        table=to_torch,
    )
    assert isinstance(see, torch.Tensor)
    assert_equal(see, mask.dense(N_Q, N_K, q_start))


def test_torch_tables():
    n, table = torch.tensor([3, 7]), torch.from_numpy(TABLE)
    options = {"batch": 2, "arange": torch.arange, "table": to_torch}
    for mask, same in (
        (causal & lengths(n), causal & lengths([3, 7])),
        (causal & lengths(n) & lengths(n - 1), causal & lengths([3, 7]) & lengths([2, 6])),
        (window(1, 1) | dense(table), window(1, 1) | dense(TABLE)),
    ):
        start = masks.query_start(mask, N_Q, N_K)
        assert_equal(*np.broadcast_arrays(masks.visible(mask, N_Q, N_K, start=start, **options), same.dense(N_Q, N_K)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_small_integers_of_torch(dtype):
    """Lengths and starts are reckoned with in 64 bits: 4 − 5 in uint8 was 255, and 200 keys in int8 were −56."""
    mask, same = causal & lengths(torch.tensor([2, 4], dtype=dtype)), causal & lengths([2, 4])
    assert masks.query_start(mask, 3, 5).tolist() == [0, 1]
    assert masks.query_start(mask, 7, 5).tolist() == [-2, -2]
    assert_equal(mask.dense(3, 5), same.dense(3, 5))
    assert_equal(lengths(torch.tensor([120, 7], dtype=dtype)).dense(1, 200), lengths([120, 7]).dense(1, 200))
    start = torch.tensor([3, 1], dtype=dtype)
    assert masks.query_start(causal, 3, 5, start).dtype == torch.int64
    assert_equal(causal.dense(3, 5, start), causal.dense(3, 5, [3, 1]))


@pytest.mark.parametrize("swap", [False, True])
def test_lengths_of_both_libraries_join(swap):
    a, b = [5, 2], [3, 4]
    pair = (lengths(a), lengths(torch.tensor(b))) if swap else (lengths(torch.tensor(a)), lengths(b))
    for mask, same in (
        (pair[0] & pair[1], lengths(a) & lengths(b)),
        (pair[0] | pair[1], lengths(a) | lengths(b)),
        (causal & pair[0] & pair[1], causal & lengths(a) & lengths(b)),
    ):
        assert masks.query_start(mask, 1, 7).tolist() == masks.query_start(same, 1, 7).tolist()
        assert_equal(mask.dense(2, 7), same.dense(2, 7))
        assert mask.pairs(2, 7) == same.pairs(2, 7)
        assert mask.draw(2, 7, b=1) == same.draw(2, 7, b=1)
        assert mask.explain(0, 3, b=1) == same.explain(0, 3, b=1)


def test_a_traced_mask_takes_new_tables_without_tracing_again():
    torch.compiler.reset()
    traces = []

    def backend(graph, _):
        traces.append(graph)
        return graph

    @torch.compile(fullgraph=True, backend=backend)
    def see(n):
        mask = causal & lengths(n)
        start = masks.query_start(mask, N_Q, N_K)
        return masks.visible(mask, N_Q, N_K, start=start, batch=2, arange=torch.arange, table=to_torch)

    for n in ([3, 7], [0, 5], [1, 1]):
        assert_equal(see(torch.tensor(n)), (causal & lengths(n)).dense(N_Q, N_K))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: window(-1, 0), ValueError, "left is -1: expected at least 0"),
        (lambda: window(0, -7), ValueError, "right is -7: expected at least 0"),
        (lambda: window(True, 0), TypeError, "left is True: expected an integer"),
        (lambda: window(1.5, 0), TypeError, r"left is 1\.5: expected an integer"),
        (lambda: window_of(0), ValueError, "total is 0: expected at least 1"),
        (lambda: window_of(-2), ValueError, "total is -2: expected at least 1"),
        (lambda: window(2**70, 0), ValueError, f"left is {2**70}: expected an integer of 64 bits"),
        (lambda: lengths([[1], [2, 3]]), ValueError, "n is ragged: expected integers, one length per sample"),
        (lambda: dense([[True], [True, False]]), ValueError, "mask is ragged: expected rows of equal lengths"),
        (lambda: lengths([2, -3]), ValueError, "n holds -3: expected lengths of at least 0"),
        (lambda: lengths(torch.tensor([2, -3])), ValueError, "n holds -3"),
        (lambda: lengths([1.5]), TypeError, "n has dtype float64: expected integers"),
        (lambda: lengths([True, False]), TypeError, "n has dtype bool: expected integers"),
        (lambda: lengths([4]).dense(3, 3), ValueError, "lengths holds 4 and there are 3 keys: expected 0 to 3"),
        (lambda: dense(np.ones((3, 3))), TypeError, "mask has dtype float64: expected booleans.*bias="),
        (lambda: dense(np.ones((3, 3), int)), TypeError, "mask has dtype int64: expected booleans"),
        (lambda: dense(np.ones(3, bool)), ValueError, r"mask has shape \(3,\): expected \(i, j\)"),
        (lambda: dense(np.ones((2, 3, 3), bool)), ValueError, r"\(2, 3, 3\).*write \(h, i, j\) as \(1, h, i, j\)"),
        (lambda: dense(TABLE).dense(3, 7), ValueError, r"mask has shape \(5, 7\): expected \(i, j\) = \(3, 7\)"),
        (lambda: causal & TABLE, TypeError, "got ndarray: wrap an array in masks.dense"),
        (lambda: TABLE | causal, TypeError, "got ndarray: wrap an array in masks.dense"),
        (lambda: causal and window(1, 1), TypeError, "combine masks with & | ~"),
        (lambda: masks.as_mask("causal"), TypeError, "mask is a str: expected a mask of mha.masks, as masks.causal"),
        (lambda: causal.dense(-1, 3), ValueError, "n_q is -1: expected at least 0"),
        (lambda: causal.dense(2, 2.5), TypeError, r"n_k is 2\.5: expected an integer"),
        (lambda: causal.dense(True, 3), TypeError, "n_q is True: expected an integer"),
        (lambda: causal.pairs(-3, 3), ValueError, "n_q is -3: expected at least 0"),
        (lambda: lengths([3, 5]).explain(0, 0, b=2), ValueError, "b is 2: expected less than 2, as many as the mask"),
        (lambda: lengths([3, 5]).explain(0, 0, b=-1), ValueError, "b is -1: expected at least 0"),
        (lambda: causal.explain(0, 0, b=3, q_start=[1, 2]), ValueError, "b is 3: expected less than 2"),
        (lambda: dense(TABLE_4).explain(0, 0, h=3), ValueError, "h is 3: expected less than 3"),
        (lambda: causal.explain(0, -4), ValueError, "j is -4: expected at least 0"),
        (lambda: causal.explain(1.5, 2), TypeError, r"i is 1\.5: expected an integer"),
        (lambda: lengths([1, 2]).draw(1, 3, b=2), ValueError, "b is 2: expected less than 2"),
        (lambda: dense(TABLE_4).draw(N_Q, N_K, h=-1), ValueError, "h is -1: expected at least 0"),
        (lambda: causal.dense(2, 3, q_start=1.0), TypeError, r"q_start is 1\.0: expected an integer"),
        (lambda: causal.dense(2, 3, q_start=[1.0, 2.0]), TypeError, "q_start has dtype float64"),
        (lambda: causal.dense(2, 3, q_start=True), TypeError, "q_start is True"),
        (lambda: causal.dense(2, 3, q_start=2**63 - 1), ValueError, "q_start is .*expected positions from −2⁶² to 2⁶²"),
        (lambda: causal.dense(2, 3, q_start=[0, -(2**63)]), ValueError, r"q_start is \[0, -.*expected positions"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
