"""Decoding from a cache, in one piece and in pages, against `mha.reference` and plain attention."""

from inspect import isroutine

import numpy as np
import pytest
import torch

from compare import assert_equal
from kernels import plain
from kernels.calls import laid_out, normal
from kernels.judge import error, ulp, unit_of
from mha import kernels, masks, nn, reference
from mha.kernels.cache import operator

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32
CLOSE = 8 * 2.0**-23  # two evaluations in float32 of numbers below 2, four units of rounding each


def draw(batch, heads, n_q, n_k, width, value_width=None, dtype=SINGLE, layout="contiguous", seed=0):
    """Return q, k and v; `heads` are those of queries and of keys."""
    rng, value_width = np.random.default_rng(seed), value_width or width
    shapes = (batch, heads[0], n_q, width), (batch, heads[1], n_k, width), (batch, heads[1], n_k, value_width)
    return laid_out(layout, *(normal(rng, *shape).to(dtype) for shape in shapes))


def judge(found, q, k, v, *, mask=None, q_start=None, **options):
    """Raise unless output and lse are right: float64 says what, plain attention in the same precision how exactly."""
    shape = *q.shape[:3], k.shape[2]
    see = np.ones(shape[2:], bool) if mask is None else mask.dense(*shape[2:], q_start)
    see = torch.from_numpy(np.array(np.broadcast_to(see, shape)))
    exact, fair, single = (of_precision(dtype, q, k, v, see, **options) for dtype in (torch.float64, q.dtype, SINGLE))
    arrays = (x.double().numpy() for x in (q, k, v))
    expected, stats = reference.attention_stats(*arrays, **in_numpy(mask=mask, q_start=q_start, **options))
    assert_equal(exact["out"], expected, rtol=1e-12, atol=1e-12, label="two oracles: out")
    assert_equal(exact["lse"], stats.lse, rtol=1e-12, atol=1e-12, label="two oracles: lse")
    for name, x, dtype, judged_by in zip(("out", "lse"), found, (q.dtype, SINGLE), (fair, single), strict=True):
        assert x.dtype == dtype, f"{name} is of {x.dtype}"
        budget = 2 * error(judged_by[name], exact[name]) + 4 * ulp(unit_of(name, exact), dtype)
        assert_equal(x.double(), exact[name], atol=budget, label=name)
    assert_equal(found[0][~see.any(-1)], torch.zeros_like(found[0][~see.any(-1)]), label="rows without a key")


def in_numpy(**options):
    """Return the options of a call as the reference takes them."""
    options = {name: x.numpy() if torch.is_tensor(x) else x for name, x in options.items()}
    return options if options.get("mask") is None else options | {"mask": options["mask"].on_tables(np.asarray)}


def of_precision(dtype, q, k, v, see, **options):
    q, k, v, sinks = (None if x is None else x.to(dtype) for x in (q, k, v, options.pop("sinks", None)))
    return plain.attend(q, k, v, see=see, sinks=sinks, **options)._asdict()


def lengths(*n):
    return masks.lengths(torch.tensor(n))


ONE, BN = (2, 1), 64  # a tile has 64 keys in 16 bits at width 128, 128 at 64
CASES = {
    "one row": ((2, (6, 2), 1, 300, 40, 17, SINGLE), {}),
    "one key": ((2, (4, 4), 1, 1, 16), {}),
    "no key": ((2, (4, 2), 3, 0, 16), {}),
    "no row": ((2, (4, 2), 0, 13, 16), {}),
    "all of one key head": ((1, (12, 1), 1, 131, 64, 64, HALF), {}),
    "more rows than a tile": ((1, (20, 1), 5, 67, 128, 96, BRAIN), {"mask": masks.causal}),
    "a draft of five": ((1, (6, 2), 5, 259, 72, 72, HALF), {"mask": masks.causal, "sinks": True}),
    "more rows than keys": ((1, (2, 1), 7, 3, 30), {"mask": masks.causal}),
    "lengths": ((3, (2, 1), 1, BN + 1, 128, 128, BRAIN), {"mask": lengths(BN + 1, 0, 1)}),
    "lengths of drafts": ((4, (4, 2), 3, 66, 96, 96, HALF), {"mask": masks.causal & lengths(66, 0, 1, 65)}),
    "not causal": ((2, (4, 2), 4, 37, 24), {"mask": lengths(37, 5), "scale": 0.3}),
    "window": ((2, (3, 3), 1, 500, 64, 64, BRAIN), {"mask": masks.window(129, 0) & lengths(490, 77)}),
    "window and sinks": ((2, (4, 2), 3, 200, 63, 5), {"mask": masks.window(33, 0), "sinks": True, "softcap": 1.5}),
    "window with a future": ((2, (2, 2), 3, 41, 20), {"mask": masks.window(5, 2), "q_start": torch.tensor([11, -2])}),
    "beyond the last key": ((1, (2, 1), 2, 13, 16), {"mask": masks.window(3, 0), "q_start": 15}),
    "sinks without a key": ((2, (4, 2), 1, 9, 16), {"mask": lengths(0, 9), "sinks": True}),
    "wide": ((1, (2, 1), 1, 35, 256, 256, BRAIN), {"softcap": 30.0}),
    "wide single": ((1, (2, 1), 2, 19, 256, 200), {"mask": masks.causal}),
}


@pytest.mark.parametrize("name", CASES)
def test_is_attention(name):
    sizes, options = CASES[name]
    q, k, v = draw(*sizes)
    if options.get("sinks"):
        options = options | {"sinks": normal(np.random.default_rng(1), q.shape[1]).float()}
    judge(kernels.decode_attention_lse(q, k, v, **options), q, k, v, **options)


@pytest.mark.parametrize("layout", ["positions first", "transposed", "every other", "one sample", "one head", "fused"])
def test_strides(layout):
    q, k, v = draw(2, (4, 2), 2, 67, 40, dtype=HALF, layout=layout)
    judge(kernels.decode_attention_lse(q, k, v, mask=masks.causal), q, k, v, mask=masks.causal)


@pytest.mark.parametrize(
    ("parts", "sinks"), [(1, None), (2, torch.tensor([0.5, -30.0])), (3, None), (17, torch.ones(2))]
)
def test_any_number_of_parts(parts, sinks):
    """Those behind a sample's end do nothing, and their memory, which is NaN here, is not read."""
    q, k, v = draw(3, (2, 1), 2, 133, 256)  # tiles of 16 keys
    n, mask = torch.tensor([133, 0, 18]), masks.causal & lengths(133, 0, 18)
    found = operator.decode(q, k, v, sinks, None, n, None, None, None, 0, 1 / 16, None, "ieee", parts)
    judge(found, q, k, v, mask=mask, sinks=sinks)


def test_a_part_without_keys_is_not_worked_on(monkeypatch):
    made, outputs = [], operator._outputs
    monkeypatch.setattr(operator, "_outputs", lambda *sizes: made.append(outputs(*sizes)) or made[-1])
    q, k, v = draw(2, (2, 1), 1, 133, 256)
    n = torch.tensor([133, 17])  # 9 tiles, and 2
    operator.decode(q, k, v, None, None, n, None, None, None, None, 1 / 16, None, "ieee", 4)
    _, (part_out, part_lse) = made
    written = [[True, True], [True, True], [True, False], [False, False]]  # by part and sample; 9 tiles make 3 threes
    for x in (part_out[..., 0], part_lse):
        assert_equal(~x.isnan(), torch.tensor(written)[:, :, None, None].expand(4, 2, 2, 1))


def test_parts_are_merged_as_the_reference_merges():
    q, k, v = draw(2, (4, 2), 3, 90, 24)
    halves = [kernels.decode_attention_lse(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 37), slice(37, 90))]
    out, lse = reference.merge(*(torch.stack(x).double().numpy() for x in zip(*halves, strict=True)))
    judge((torch.from_numpy(out).float(), torch.from_numpy(lse).float()), q, k, v)


@pytest.mark.parametrize("fill", [torch.nan, torch.inf])
@pytest.mark.parametrize("n_q", [1, 3])
def test_free_slots_may_hold_anything(fill, n_q):
    q, k, v = draw(2, (4, 2), n_q, 70, 40)
    n, mask = (70, 9), masks.causal & lengths(70, 9)
    clean = kernels.decode_attention_lse(q, k, v, mask=mask)
    for b, end in enumerate(n):
        k[b, :, end:], v[b, :, end:] = fill, fill
    for found, expected in zip(kernels.decode_attention_lse(q, k, v, mask=mask), clean, strict=True):
        assert_equal(found, expected)


INFINITE = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # ∞ − ∞, in NumPy's words


@INFINITE
@pytest.mark.parametrize("fill", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [HALF, BRAIN, SINGLE], ids=str)
def test_a_key_touches_only_the_rows_that_see_it(fill, dtype):
    """Of three rows the last sees the last key: the others may not notice what it holds."""
    q, k, v = draw(1, (2, 1), 3, 19, 16, dtype=dtype)
    clean, _ = kernels.decode_attention_lse(q, k, v, mask=masks.causal)
    for x in (k, v):
        x[:, :, -1] = fill
        found, _ = kernels.decode_attention_lse(q, k, v, mask=masks.causal)
        assert_equal(found[:, :, :2], clean[:, :, :2])
    assert not found[:, :, 2].isfinite().any()


@INFINITE
def test_an_infinite_value_is_what_its_row_gets():
    q, k, v = draw(1, (1, 1), 4, 19, 16)
    v[:, :, -1, 0], v[:, :, -2, 1], v[:, :, -2:, 2] = torch.inf, -torch.inf, torch.tensor([-torch.inf, torch.inf])
    found = kernels.decode_attention(q, k, v, mask=masks.causal)
    expected = reference.attention(*(x.double().numpy() for x in (q, k, v)), mask=masks.causal)
    assert_equal(found.isfinite(), np.isfinite(expected))
    assert_equal(found[..., :3][~found[..., :3].isfinite()], expected[..., :3][~np.isfinite(expected[..., :3])])


def paged(k, v, page, seed=0, spare=2):
    """Return these keys and values in pages of random order, spare ones full of NaN between them, and the table."""
    (batch, groups, n_k, _), rng = k.shape, np.random.default_rng(seed)
    columns = -(-n_k // page)
    places = torch.from_numpy(rng.permutation(batch * columns + spare)[: batch * columns]).reshape(batch, columns)
    pages = []
    for x in (k, v):
        whole = x.new_full((batch, groups, columns * page, x.shape[3]), torch.nan)
        whole[:, :, :n_k] = x
        into = x.new_full((batch * columns + spare, groups, page, x.shape[3]), torch.nan)
        into[places.flatten()] = whole.unflatten(2, (columns, page)).transpose(1, 2).flatten(0, 1)
        pages.append(into)
    return *pages, places.int()


PAGED = {
    "a page more, a page less": (16, 1, (48, 47, 49), {}),
    "none, one, all": (16, 1, (0, 1, 80), {}),
    "pages of one slot": (1, 1, (5, 1, 0), {}),
    "pages of no power of two": (7, 3, (35, 6, 8), {"mask": masks.causal, "sinks": True}),
    "pages wider than tiles": (200, 1, (199, 201, 350), {"softcap": 2.0}),
    "window": (16, 2, (80, 33, 2), {"mask": masks.window(20, 0), "scale": 0.2}),
    "start": (16, 2, (80, 33, 2), {"mask": masks.causal, "q_start": torch.tensor([3, 40, 0])}),
    "lengths in the mask too": (16, 1, (80, 33, 2), {"mask": lengths(70, 40, 0)}),
}


@pytest.mark.parametrize("dtype", [HALF, SINGLE], ids=str)
@pytest.mark.parametrize("name", PAGED)
def test_pages(name, dtype):
    page, n_q, n, options = PAGED[name]
    if options.get("sinks"):
        options = options | {"sinks": torch.tensor([0.2, -1.0, 3.0, 0.0])}
    q, k, v = draw(3, (4, 2), n_q, -(-max(n) // page) * page, 40, 24, dtype)
    k_pages, v_pages, table = paged(k, v, page)
    for b, end in enumerate(n):
        table[b, -(-end // page) :] = -(2**31)  # what lies behind a sample's end is not looked up
    found = kernels.paged_attention_lse(q, k_pages, v_pages, table, torch.tensor(n).int(), **options)
    mask = lengths(*n) & options.get("mask", lengths(*n))
    judge(found, q, k, v, **options | {"mask": mask})
    arrays = (x.double().numpy() for x in (q, k_pages, v_pages))
    expected = reference.paged_attention(*arrays, table.numpy(), np.array(n), **in_numpy(**options))
    arrays = (x.double().numpy() for x in (q, k, v))
    exact = reference.attention(*arrays, **in_numpy(**options | {"mask": mask}))
    assert_equal(expected, exact, atol=1e-12, label="reference")


def test_pages_that_samples_share():
    q, k, v = draw(2, (4, 2), 1, 48, 16)
    k_pages, v_pages, table = paged(k, v, 16)
    table[1, :2] = table[0, :2]  # one prefix, two ends
    k[1, :, :32], v[1, :, :32] = k[0, :, :32], v[0, :, :32]
    n = torch.tensor([48, 41])
    judge(kernels.paged_attention_lse(q, k_pages, v_pages, table, n), q, k, v, mask=masks.lengths(n))


def test_pages_as_other_engines_lay_them_out():
    """(pages, slot, head, width), key and value in one tensor, the table and the lengths views of longer ones."""
    q, k, v = draw(2, (4, 2), 2, 60, 40, dtype=HALF)
    k_pages, v_pages, table = paged(k, v, 20)
    both = torch.stack([k_pages, v_pages], dim=1).transpose(2, 3).contiguous().transpose(2, 3)
    wide = torch.full((2, 7), -9, dtype=torch.int32)
    wide[:, ::2][:, :3] = table
    n = torch.tensor([60, 0, 23, 0])[::2]
    found = kernels.paged_attention_lse(q, both[:, 0], both[:, 1], wide[:, ::2][:, :3], n, mask=masks.causal)
    judge(found, q, k, v, mask=masks.causal & masks.lengths(n))


@pytest.fixture
def untouched_memory():
    """Memory that is reserved and not written: many gigabytes that cost nothing."""
    torch.utils.deterministic.fill_uninitialized_memory = False
    yield
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("untouched_memory")
def test_a_page_beyond_32_bits():
    """sglang#20389: the number of a page times its size overflowed, first silently."""
    q, k, _ = draw(1, (1, 1), 1, 40, 16, dtype=HALF)
    pages = torch.empty(2**23 + 2, 1, 16, 16, dtype=HALF)
    table = torch.tensor([[2**23 + 1, 3, 2**22]], dtype=torch.int32)  # the first of these begins behind 2³¹
    for place, rows in zip(table[0].tolist(), k[0].split(16, 1), strict=True):
        pages[place, :, : rows.shape[1]] = rows
    judge(kernels.paged_attention_lse(q, pages, pages, table, torch.tensor([40])), q, k, k)


@pytest.mark.usefixtures("untouched_memory")
def test_a_slot_beyond_32_bits():
    q, k, _ = draw(1, (1, 1), 1, 40, 16, dtype=HALF)
    far = torch.empty(1, 1, 40, 2**26, dtype=HALF)[..., :16].copy_(k)
    judge(kernels.decode_attention_lse(q, far, far), q, k, k)


@pytest.mark.usefixtures("untouched_memory")
def test_a_column_beyond_32_bits():
    """Slots side by side, columns far apart: the last of 17 begins at 2³¹."""
    q, k, _ = draw(1, (1, 1), 1, 40, 17, dtype=HALF)
    q_far, far = (torch.empty(17, 2**27, dtype=HALF)[:, : x.shape[2]].mT[None, None].copy_(x) for x in (q, k))
    judge(kernels.decode_attention_lse(q, far, far), q, k, k)
    judge(kernels.decode_attention_lse(q_far, k, k), q, k, k)


def test_sequences_of_length_zero():
    """Dao-AILab/flash-attention#1537, vllm-project/vllm PR#57094: an empty sample beside others gave NaN, or hung."""
    q, k, v = draw(4, (4, 2), 1, 32, 64, dtype=BRAIN)
    k_pages, v_pages, table = paged(k.fill_(torch.nan), v.fill_(torch.nan), 16)
    out, lse = kernels.paged_attention_lse(q, k_pages, v_pages, table, torch.zeros(4, dtype=torch.int32))
    assert_equal(out, torch.zeros_like(out))
    assert_equal(lse, torch.full_like(lse, -torch.inf))
    out, lse = kernels.paged_attention_lse(q, k_pages, v_pages, table[:, :0], torch.zeros(4, dtype=torch.int32))
    assert_equal(out, torch.zeros_like(out))
    out, _ = kernels.paged_attention_lse(q[:0], k_pages, v_pages, table[:0], torch.zeros(0, dtype=torch.int32))
    assert out.shape == (0, 4, 1, 64)


def test_a_length_beyond_the_table_ends_with_it():
    q, k, v = draw(2, (2, 1), 1, 32, 16)
    k_pages, v_pages, table = paged(k, v, 16)
    n = torch.tensor([2**40, -7])
    judge(kernels.paged_attention_lse(q, k_pages, v_pages, table, n), q, k, v, mask=masks.lengths(n.clamp(0, 32)))


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_leading_axes(batch):
    q, k, v = (x.reshape(*batch, *x.shape[1:]) for x in draw(max(1, 3 * len(batch)), (4, 2), 2, 21, 16))
    found = kernels.decode_attention(q, k[:1] if batch else k, v, mask=masks.causal)
    expected = reference.attention(*(x.double().numpy() for x in (q, k[:1] if batch else k, v)), mask=masks.causal)
    assert_equal(found, expected, atol=CLOSE)


@torch.no_grad()
def test_serves_a_cache_of_the_torch_floor():
    ours, theirs = nn.Cache(torch.tensor([0, -2])), reference.Cache(np.array([0, -2]))
    for seed, (n, mask) in enumerate([(5, masks.causal), (1, masks.causal), (3, masks.window(2, 0)), (1, None)]):
        q, k, v = draw(2, (6, 2), n, n, 8, 4, seed=seed)
        arrays = (x.double().numpy() for x in (q, k, v))
        expected, theirs = reference.cached_attention(*arrays, theirs, mask=mask, softcap=2.0)
        out, ours = nn.cached_attention(q, k, v, ours, mask=mask, softcap=2.0, core=kernels.decode_attention)
        assert_equal(out, expected, atol=CLOSE)


@torch.no_grad()
def test_serves_the_steps_of_a_layer():
    cores = kernels.decode_attention, nn.attention
    ours, theirs = (nn.MultiHeadAttention(24, 6, num_kv_heads=2, sinks=True, core=core).eval() for core in cores)
    theirs.load_state_dict(ours.state_dict())
    x, caches = normal(np.random.default_rng(0), 2, 7, 24).float(), [nn.Cache(), nn.Cache()]
    for chunk in x.split([4, 1, 2], 1):
        steps = [
            layer.step(chunk, cache, mask=masks.causal) for layer, cache in zip((ours, theirs), caches, strict=True)
        ]
        (out, expected), caches = zip(*steps, strict=True)
        assert_equal(out, expected, atol=CLOSE)
    with pytest.raises(ValueError, match=r"bias is a Tensor: expected None; mha.kernels.attention takes it"):
        ours.step(x[:, :1], caches[0], bias=torch.zeros(6, 1, 8))


OPERANDS = {
    "contiguous": lambda q, k, v: (q, k, v, None, None, torch.tensor([70, 3]), None, 1, 5, 0),
    "paged": lambda q, k, v: (
        q,
        *paged(k, v, 10)[:2],
        torch.ones(4),
        paged(k, v, 10)[2],
        None,
        torch.tensor([1, 2]),
        None,
        5,
        0,
    ),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_the_operator_is_as_torch_wants_it(name):
    arguments = *OPERANDS[name](*draw(2, (4, 2), 2, 70, 16)), 0.25, None, "ieee", 2
    torch.library.opcheck(operator.decode, arguments)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_compiles_whole():
    def step(q, k, v, table, n):
        mask = masks.causal & masks.window(40, 0)
        return kernels.paged_attention_lse(q, k, v, table, n, mask=mask), kernels.decode_attention(q, k[:2], v[:2])

    q, k, v = draw(2, (4, 2), 2, 70, 16)
    n, arguments = torch.tensor([70, 33]), (q, *paged(k, v, 10))
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for x, expected in zip(compiled(*arguments, n)[0], step(*arguments, n)[0], strict=True):
        assert_equal(x, expected)


def tensors(**changes):
    """Return the arguments of a call of `paged_attention`, some of them changed."""
    q, k, v = draw(2, (4, 2), 1, 32, 16)
    given = dict(zip(("k_pages", "v_pages", "page_table"), paged(k, v, 16), strict=True))
    given = {"q": q} | given | {"lengths": torch.tensor([32, 5])}
    return given | {name: change(given[name]) if isroutine(change) else change for name, change in changes.items()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.Tensor.double}, r"q has dtype torch.float64: kernels take float16, bfloat16 and float32"),
        ({"k_pages": torch.Tensor.half}, r"dtype torch.float16 and q has dtype torch.float32: expected one"),
        ({"q": lambda x: x[0]}, r"q has shape \(4, 1, 16\): expected \(b, h, i, d\)"),
        ({"q": torch.Tensor.requires_grad_}, r"q requires a gradient: expected torch.no_grad\(\)"),
        ({"v_pages": lambda x: x[:-1]}, r"v_pages has shape \(5, 2, 16, 16\) and k_pages has \(6, 2, 16, 16\)"),
        ({"q": lambda x: x[..., :8]}, r"k_pages has width 16 and q has width 8: expected equal widths"),
        ({"q": lambda x: x[:, :3]}, r"k_pages has 2 heads and q has 3: query heads must be a multiple"),
        ({"page_table": lambda x: x[:1]}, r"page_table has shape \(1, 2\): expected \(b, p\) with b = 2"),
        ({"page_table": torch.Tensor.float}, r"page_table has dtype torch.float32: expected int32 or int64"),
        ({"lengths": lambda x: x[:, None]}, r"lengths has shape \(2, 1\): expected \(b\) with b = 2"),
        ({"lengths": [32, 5]}, r"lengths is a list: expected a torch tensor"),
        ({"mask": masks.causal & masks.prefix(3)}, r"mask has the term prefix\(3\): expected causal, window and"),
        ({"mask": masks.causal | masks.window(3, 3)}, r"mask has the term causal \| window\(3, 3\): expected causal"),
        ({"precision": "tf32"}, r"precision is 'tf32': expected one of \('ieee', 'tf32x3'\)"),
        ({"sinks": torch.zeros(3)}, r"sinks has shape \(3,\): expected \(4,\)"),
        ({"is_causal": True}, r"has no option is_causal: mask=masks.causal"),
    ],
)
def test_bad_input_is_named(changes, words):
    with pytest.raises((ValueError, TypeError), match=words):
        kernels.paged_attention(**tensors(**changes))


@pytest.mark.parametrize("name", ["block_table", "cache_seqlens", "num_splits", "return_lse", "return_softmax_lse"])
def test_options_of_other_engines_are_answered(name):
    with pytest.raises(TypeError, match=rf"^decode_attention has no option {name}: .*(page|leave|lse)"):
        kernels.decode_attention(*draw(1, (1, 1), 1, 3, 16), **{name: True})


def test_a_width_that_no_tile_has():
    with pytest.raises(ValueError, match=r"q has width 257: kernels take up to 256"):
        kernels.decode_attention(*draw(1, (1, 1), 1, 3, 257, 16))
