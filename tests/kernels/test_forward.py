"""The forward kernel where tiles are many and small, and where what may not be seen is not finite."""

import numpy as np
import pytest
import torch
from triton.runtime import interpreter

import rounding
from compare import assert_equal
from kernels.calls import Call, normal
from kernels.judge import error, evaluate, ulp, unit_of
from mha import kernels, masks, reference, shapes
from mha.dropout import Dropout
from mha.kernels.dot_product.forward import forward, heads_at_once
from mha.kernels.dot_product.problem import problem_of
from mha.kernels.tile_lists import NO_LISTS, Lists
from mha.kernels.tile_sizes import TileSize
from mha.masks import segment_ids

SMALL = TileSize(16, 32, 4, 1)
N_Q, N_K = 37, 101


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr("mha.kernels.dot_product.problem.tile_size", lambda *_, **__: SMALL)


def drawn(*, batch=1, heads=2, groups=1, n_q=N_Q, n_k=N_K, width=16, value_width=8, dtype=torch.float32, **options):
    rng = np.random.default_rng(0)
    shapes = (heads, n_q, width), (groups, n_k, width), (groups, n_k, value_width), (heads, n_q, value_width)
    return Call(*(normal(rng, batch, *shape).to(dtype) for shape in shapes), **options)


def check(call):
    """Raise unless output and statistics are within twice the error of plain attention and 4 units of rounding."""
    exact, low, single = (evaluate(call, dtype) for dtype in (torch.float64, call.q.dtype, torch.float32))
    tensors = call.q, call.k, call.v
    out, stats = kernels.attention_stats(*tensors, **call.arguments())
    assert_equal(kernels.attention(*tensors, **call.arguments()), out, label="output without statistics")
    for name, found in ({"out": out} | stats._asdict()).items():
        fair = error((low if name == "out" else single)[name], exact[name])
        budget = 2 * fair + 4 * ulp(unit_of(name, exact), found.dtype)
        assert_equal(found.double(), exact[name], atol=budget, label=name)
    return out, stats


MASKS = {
    "none": None,
    "causal": masks.causal,
    "a band beside a prefix": masks.window(40, 40) | masks.prefix(40),  # full tiles with a gap
    "every third": masks.causal & masks.strided(3),
    "packed": masks.causal & masks.segments(segment_ids([0, 13, 13, 37]), segment_ids([0, 77, 80, 101])),
    "heads of two kinds": masks.per_head([masks.causal, masks.window(3, 3)]),
    "nothing": masks.prefix(0),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_many_tiles(mask):
    check(drawn(mask=mask))


@pytest.mark.parametrize("q_start", [-20, [0, 64]], ids=str)
def test_samples_of_their_own_lengths_and_starts(q_start):
    check(drawn(batch=2, mask=masks.causal & masks.lengths([N_K, 40]), q_start=q_start))


def test_rising_and_falling_scores_rescale_what_came_before():
    call = drawn(scale=1.0)
    call.k[:] = call.q[:, :1, :1] * torch.linspace(-9, 9, N_K)[:, None]
    check(call)
    call.k = call.k.flip(2)
    check(call)


@pytest.mark.parametrize("stat", ["lse", "entropy", "max_logit"])
def test_a_row_of_one_key_is_exact(stat):
    call = drawn(n_k=1)
    out, stats = kernels.attention_stats(call.q, call.k, call.v)
    assert_equal(out, call.v.expand(1, 2, N_Q, 8))
    assert_equal(stats.entropy, torch.zeros(1, 2, N_Q))
    assert_equal(stats.lse, stats.max_logit)


def test_the_entropy_is_never_negative_and_does_not_count_the_sink():
    call = drawn(scale=40.0, sinks=torch.tensor([500.0, -3.0]))
    stats = check(call)[1]
    assert (stats.entropy >= 0).all()
    assert_equal(stats.entropy, kernels.attention_stats(call.q, call.k, call.v, scale=40.0)[1].entropy)


def test_a_sink_alone_is_the_whole_denominator():
    sinks = torch.tensor([2.5, -300.0])
    call = drawn(mask=MASKS["nothing"], sinks=sinks)
    out, stats = check(call)
    assert_equal(stats.lse, sinks[:, None].expand(1, 2, N_Q), rtol=2**-23)
    assert_equal(out, torch.zeros_like(out))


@pytest.mark.parametrize("softcap", [1e-3, 1.0, 1e3])
def test_a_cap_keeps_its_precision(softcap):
    check(drawn(softcap=softcap, scale=0.3))


@pytest.mark.parametrize("n_q", [0, 1])
@pytest.mark.parametrize("n_k", [0, 1])
@pytest.mark.parametrize("mask", [None, masks.causal], ids=str)
def test_lengths_of_nothing(n_q, n_k, mask):
    check(drawn(n_q=n_q, n_k=n_k, mask=mask, sinks=torch.tensor([0.0, 1.0])))


def test_widths_and_batches_of_nothing():
    for call in (drawn(width=0, scale=1.0), drawn(value_width=0), drawn(batch=0)):
        out, stats = kernels.attention_stats(call.q, call.k, call.v, scale=call.scale)
        assert out.shape == (*call.q.shape[:3], call.v.shape[3])
        assert not stats.lse.isnan().any()
    call = drawn(width=0, scale=1.0)
    mean = call.v.mean(2, keepdim=True).expand(1, 2, N_Q, 8)
    assert_equal(kernels.attention(call.q, call.k, call.v, scale=1.0), mean, atol=1e-6)


def spoiled(call, name, value):
    """Put a value into keys that some rows see in partial tiles, and others do not."""
    x = getattr(call, name)
    x[0, 0, 30, 3] = x[0, 0, 36:38, 1] = x[0, 0, 44] = value
    return call


PLAIN = [({}, name, value) for name in ("k", "v") for value in (np.nan, np.inf, -np.inf)]
BIASED = [({"bias": -np.inf}, "k", np.nan), ({"bias": -np.inf}, "v", np.nan), ({"bias": -np.inf}, "v", np.inf)]
DROPPED = [({"dropout": Dropout(0.4, 3)}, "v", np.inf)]


@pytest.mark.parametrize(("options", "name", "value"), [*PLAIN, *BIASED, *DROPPED], ids=str)
def test_what_is_not_finite_acts_on_the_rows_that_see_it(options, name, value):
    call = drawn(n_q=21, n_k=45, mask=masks.causal, dropout=options.get("dropout"))
    if "bias" in options:
        hidden = torch.rand(21, 45, generator=torch.Generator().manual_seed(1)) < 0.8
        call.mask, call.bias = None, torch.zeros(21, 45).masked_fill(hidden, options["bias"])
    arrays = [x.double().numpy() for x in (call.q, call.k, call.v)]
    bound = rounding.of_output(*arrays, kept=0.6) * 2.0**-24 / rounding.EPS
    spoiled(call, name, value)
    arguments = call.arguments()
    with np.errstate(invalid="ignore"):
        given = {x: y.numpy() if torch.is_tensor(y) else y for x, y in arguments.items()}
        exact = reference.attention(*(x.double().numpy() for x in (call.q, call.k, call.v)), **given)
    found = kernels.attention(call.q, call.k, call.v, **arguments).numpy()
    finite = np.isfinite(exact)
    assert 0 < finite.sum() < finite.size
    for kind in (np.isnan, np.isposinf, np.isneginf):
        assert_equal(kind(found), kind(exact), label=kind.__name__)
    assert_equal(found[finite], exact[finite], atol=bound)


def test_infinite_values_of_both_signs_meet_in_nan():
    call = drawn(n_q=21, n_k=45)
    call.v[0, 0, 34], call.v[0, 0, 39] = torch.inf, -torch.inf
    out = kernels.attention(call.q, call.k, call.v, mask=masks.causal)[0, 0]  # row i stands at position 24 + i
    assert out[:10].isfinite().all()
    assert (out[10:15] == torch.inf).all()
    assert out[15:].isnan().all()


def test_tiles_that_a_mask_hides_are_not_loaded(monkeypatch):
    """Two packed sequences of 32 and 64 keys: 2 × 1 and 4 × 2 tiles of 16 × 32, instead of 6 × 3."""
    products = []
    dot = interpreter.InterpreterBuilder.create_dot
    monkeypatch.setattr(
        interpreter.InterpreterBuilder, "create_dot", lambda *x: (products.append(x[1].data.shape), dot(*x))[1]
    )
    call = drawn(heads=1, n_q=96, n_k=96, mask=masks.segments(segment_ids([0, 32, 96])))
    kernels.attention(call.q, call.k, call.v, mask=call.mask)
    assert len(products) == 2 * (2 * 1 + 4 * 2)


def test_a_full_tile_asks_no_mask(monkeypatch):
    asked = []
    rule = masks.Causal.rule
    monkeypatch.setattr(
        "mha.kernels.dot_product.problem.Problem.rules", lambda self: (lambda *x: asked.append(x) or rule(*x[:5]), None)
    )
    call = drawn(heads=1, n_q=96, n_k=96)
    kernels.attention(call.q, call.k, call.v, mask=masks.causal)
    assert len(asked) == 6, "one tile of 16 × 32 on the diagonal for each tile of queries"


@pytest.mark.parametrize("far", ["q", "k", "v"])
def test_offsets_leave_32_bits_only_where_they_must(far, monkeypatch):
    memory = torch.from_numpy(np.empty(3 * 2**30 + 4096, dtype=np.float16))
    call = drawn(heads=1, n_q=48, n_k=48, value_width=16, dtype=torch.float16, mask=masks.causal)
    expected = kernels.attention(call.q, call.k, call.v, mask=call.mask)
    setattr(call, far, memory.as_strided((1, 1, 48, 16), (0, 0, 2**26, 1)).copy_(getattr(call, far)))
    assert_equal(kernels.attention(call.q, call.k, call.v, mask=call.mask), expected)
    monkeypatch.setattr("mha.kernels.dot_product.forward.is_wide", lambda *_: False)
    with pytest.raises(Exception, match="overflow"):
        kernels.attention(call.q, call.k, call.v, mask=call.mask)


def test_the_launch_takes_folded_tensors_and_tiles_of_any_size():
    call = drawn(heads=6, groups=3, n_q=20, n_k=40)
    checked = shapes.check(call.q, call.k, call.v)
    results = [
        forward(call.q, call.k, call.v, problem_of(checked, call.q, call.k, call.v, sizes={"forward": size}))
        for size in (SMALL, TileSize(32, 16, 4, 2), TileSize(64, 64, 4, 1))
    ]
    for out, lse, max_logit, entropy in results:
        assert (max_logit, entropy) == (None, None)
        assert_equal(out, results[0][0], atol=1e-6)
        assert_equal(lse, results[0][1], atol=1e-6)


def test_heads_are_served_together_where_lists_are_of_unequal_lengths():
    k = torch.empty(2, 4, 2**14, 128, dtype=torch.float16, device="meta")
    lists = Lists(torch.empty(1), 0, 0, in_runs=True)
    assert heads_at_once(k, k, 8, NO_LISTS) == 1
    assert heads_at_once(k, k, 8, lists) == 8  # 8 MiB of keys and values for two heads each, in 32 MiB
    assert heads_at_once(k[:, :, :64], k[:, :, :64], 8, lists) == 16
    assert heads_at_once(k[:, :, :0], k[:, :, :0], 8, lists) == 16
