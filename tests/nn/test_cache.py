"""`mha.nn.Cache`, and steps of a layer with it, against the reference and against the whole sequence at once."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.nn import Cache, MultiHeadAttention, Rotary
from naming import named

BATCH, N, D_MODEL = 3, 11, 20
CHUNKS = [(11,), (1,) * 11, (5, 0, 1, 3, 2), (0, 7, 4), (2, 9)]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Slope:
    """A position scheme that adds to the scores: the farther a key, the less."""

    def bias(self, q_positions, k_positions):
        distance = q_positions[..., :, None] - k_positions[..., None, :]
        return -0.3 * distance.unsqueeze(-3).abs().double()


def layer(**options):
    module = MultiHeadAttention(D_MODEL, 10, num_kv_heads=5, **{"position": Rotary()} | options, dtype=torch.float64)
    make = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    return module.eval()


def stepped(module, x, chunks, cache=None, **options):
    """Run a layer chunk after chunk; the mask and the bias are cut out of those for the whole."""
    outputs, cache, start = [], Cache() if cache is None else cache, 0
    for n in chunks:
        given = {name: cut(start, start + n) for name, cut in options.items()}
        out, cache = module.step(x[:, start : start + n], cache, **given)
        outputs.append(out)
        start += n
    return torch.cat(outputs, 1), cache


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_chunks_are_the_whole(chunks, grad):
    module, x = layer(), draw(BATCH, N, D_MODEL)
    with torch.set_grad_enabled(grad):
        out, cache = stepped(module, x, chunks, mask=lambda start, stop: masks.causal)
    assert_equal(out, module(x, mask=masks.causal), atol=1e-12)
    assert (cache.lengths, cache.slots) == (N, N)
    _, k, v = module.project(x)
    for rows, expected in zip(cache.rows, (k, v), strict=True):
        assert_equal(rows, expected, atol=1e-13)


SEE = torch.rand(N, N, generator=torch.Generator().manual_seed(7)) > 0.3
BIAS = draw(10, N, N, seed=8)


@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        ({"mask": masks.window_of(3)}, {"mask": lambda start, stop: masks.window_of(3)}),
        (
            {"mask": masks.causal & ~masks.window(2, 0)},
            {"mask": lambda start, stop: masks.causal & ~masks.window(2, 0)},
        ),
        ({"mask": SEE & SEE.new_ones(N, N).tril()}, {"mask": lambda start, stop: SEE.tril()[start:stop, :stop]}),
        (
            {"mask": masks.causal, "bias": BIAS},
            {"mask": lambda start, stop: masks.causal, "bias": lambda start, stop: BIAS[:, start:stop, :stop]},
        ),
    ],
    ids=["window", "beyond the window", "boolean", "bias"],
)
@pytest.mark.parametrize(
    "options", [{}, {"position": Slope()}, {"sinks": True, "gate": True, "softcap": 3.0}], ids=named
)
def test_masks_and_options_see_positions(whole, cut, options):
    module, x = layer(**options), draw(BATCH, N, D_MODEL)
    for chunks in CHUNKS[1:3]:
        assert_equal(stepped(module, x, chunks, **cut)[0], module(x, **whole), atol=1e-12, label=str(chunks))


def test_angles_that_layers_share():
    module, x, cache = layer(), draw(BATCH, N, D_MODEL), Cache([-2, 0, -1])
    angles = Rotary().at(cache.positions(N), module.d_head)
    expected = module.step(x, cache, mask=masks.causal)[0]
    assert_equal(module.step(x, cache, mask=masks.causal, position=angles)[0], expected, rtol=0, atol=0)
    other = module.step(x, cache, mask=masks.causal, position=Slope())[0]
    assert (other - expected).abs().max() > 1e-3, "the scheme given is the one that counts"
    with pytest.raises(TypeError, match="position is 3: expected an object with rotate"):
        module.step(x, cache, position=3)


def test_norms_before_and_after_the_rotation():
    x = draw(BATCH, N, D_MODEL)
    for qk_norm in (torch.nn.RMSNorm, nn.AfterPosition(torch.nn.RMSNorm)):
        module = layer(qk_norm=qk_norm)
        out, _ = stepped(module, x, (4, 1, 6), mask=lambda start, stop: masks.causal)
        assert_equal(out, module(x, mask=masks.causal), atol=1e-12)


PADDING = torch.tensor([0, 4, 2])


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("mask", [masks.causal, masks.window_of(4)], ids=repr)
def test_padded_on_the_left_is_unpadded(chunks, mask):
    """transformers#22161: padding moves every position; here it is never stored."""
    module, x = layer(), draw(BATCH, N, D_MODEL)
    for b, padding in enumerate(PADDING):
        x[b, :padding] = torch.nan
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            out, cache = stepped(module, x, chunks, Cache(-PADDING), mask=lambda start, stop: mask)
        for b, padding in enumerate(PADDING):
            alone = module(x[b : b + 1, padding:], mask=mask)
            assert_equal(out[b : b + 1, padding:], alone, atol=1e-12, label=f"sample {b}")
        assert_equal(cache.lengths, N - PADDING)


def test_padded_on_the_right_is_unpadded():
    """The rows behind a sample's end are dropped by `crop`, or by a mask that knows the lengths."""
    module, x, more = layer(), draw(BATCH, N, D_MODEL), draw(BATCH, 2, D_MODEL, seed=2)
    lengths = N - PADDING
    _, whole = module.step(x, Cache(), mask=masks.causal)
    _, known = module.step(x, Cache(), mask=masks.causal & masks.lengths(lengths))
    for cache in (whole.crop(lengths), known):
        out, longer = module.step(more, cache, mask=masks.causal)
        again, _ = module.step(more, cache, mask=masks.causal & masks.lengths(lengths + 2))
        assert_equal(again, out, atol=1e-13)
        assert_equal(longer.lengths, lengths + 2)
        for b, n in enumerate(lengths):
            alone = module(torch.cat([x[b, :n], more[b]])[None], mask=masks.causal)[:, n:]
            assert_equal(out[b : b + 1], alone, atol=1e-12, label=f"sample {b}")


def test_bidirectional_reading_of_a_prompt():
    module, x = layer(), draw(BATCH, N, D_MODEL)
    out, cache = module.step(x[:, :7], Cache())
    assert_equal(out, module(x[:, :7]), atol=1e-12, label="without a mask the rows of a chunk see each other")
    out, _ = module.step(x[:, 7:], cache)
    assert_equal(out, module(x[:, 7:], x, positions=torch.arange(7, N), context_positions=torch.arange(N)), atol=1e-12)


def operations(seed):
    """Draw appends, crops and reorders, with arguments for `BATCH` samples."""
    rng = np.random.default_rng(seed)
    for _ in range(9):
        kind = rng.choice(["append", "append", "crop", "reorder"])
        if kind == "append":
            n = int(rng.integers(0, 4))
            yield kind, [rng.standard_normal((BATCH, 2, n, width)) for width in (3, 5)]
        elif kind == "crop":
            yield kind, [rng.integers(0, 9, BATCH) if rng.random() < 0.5 else int(rng.integers(0, 9))]
        else:
            yield kind, [rng.integers(0, BATCH, BATCH)]


@pytest.mark.parametrize("seed", range(12))
def test_any_history_equals_the_reference_and_changes_no_cache_before(seed):
    start = [0, -2, np.array([-3, 0, -1])][seed % 3]
    first = np.random.default_rng(99).standard_normal((2, BATCH, 2, 1, 3)), np.zeros((1, BATCH, 2, 1, 5))
    k, v = first[0][0], first[1][0]
    tree = [(Cache(start).append(*map(torch.from_numpy, (k, v))), reference.Cache(start).append(k, v))]
    choose = np.random.default_rng(seed)
    for kind, arguments in operations(seed):
        ours, theirs = tree[choose.integers(len(tree))]  # branches: an older cache may go on as well
        tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]
        tree.append((getattr(ours, kind)(*tensors), getattr(theirs, kind)(*arguments)))
    for ours, theirs in tree:
        lengths = np.broadcast_to(theirs.lengths, BATCH)
        assert_equal(np.broadcast_to(ours.lengths, BATCH), lengths)
        assert ours.slots == max(0, lengths.max())
        held = np.arange(ours.slots) < lengths[:, None, None, None]
        for rows, expected in zip(ours.rows, theirs.rows, strict=True):
            assert_equal(np.where(held.swapaxes(-1, -2), rows, 0), expected)


def test_beams_go_on_from_their_own_past():
    module, x, order = layer(), draw(BATCH, N, D_MODEL), torch.tensor([2, 0, 2, 1])
    _, cache = module.step(x[:, :7], Cache(), mask=masks.causal)
    more = draw(4, 4, D_MODEL, seed=3)
    out, _ = module.step(more, cache.reorder(order), mask=masks.causal)
    assert_equal(out, module(torch.cat([x[order, :7], more], 1), mask=masks.causal)[:, 7:], atol=1e-12)


@pytest.mark.parametrize("change", [lambda cache: cache, lambda cache: cache.crop(2), lambda cache: cache.reorder([1])])
def test_two_futures_of_one_cache(change):
    past = change(Cache().append(draw(2, 1, 3, 2)))
    known, one, two = past.rows[0].clone(), *(draw(len(past.rows[0]), 1, 4, 2, seed=seed) for seed in (1, 2))
    past.crop(1).append(two)
    first, second = past.append(one), past.append(two)
    for cache, expected in ((first, one), (second, two)):
        assert_equal(cache.rows[0], torch.cat([known, expected], -2))


def test_a_rejected_draft_leaves_no_trace():
    module, x, draft = layer(), draw(BATCH, N, D_MODEL), draw(BATCH, 3, D_MODEL, seed=4)
    _, cache = module.step(x[:, :8], Cache(), mask=masks.causal)
    _, longer = module.step(draft, cache, mask=masks.causal)
    for shorter in (cache, longer.crop(8)):
        out, _ = module.step(x[:, 8:], shorter, mask=masks.causal)
        assert_equal(out, module(x, mask=masks.causal)[:, 8:], atol=1e-12)


def test_free_slots_may_hold_anything():
    module, x = layer(), draw(BATCH, N, D_MODEL)
    with torch.no_grad():
        _, cache = module.step(x[:, :6], Cache(), mask=masks.causal)
        cache = cache.crop(torch.tensor([6, 3, 4]))
        clean, _ = module.step(x[:, 6:8], cache, mask=masks.causal)
        for buffer in cache.room.buffers:
            buffer[:, :, 6:] = torch.nan
            buffer[1, :, 3:], buffer[2, :, 4:] = torch.nan, torch.inf
        out, _ = module.step(x[:, 6:8], cache, mask=masks.causal)
    assert_equal(out, clean, atol=1e-13)


def test_gradients_flow_through_the_cache():
    module, x, d_out = layer(), draw(BATCH, N, D_MODEL).requires_grad_(), draw(BATCH, N, D_MODEL, seed=5)
    (expected,) = torch.autograd.grad(module(x, mask=masks.causal), x, d_out)
    for chunks in CHUNKS[1:3]:
        out, _ = stepped(module, x, chunks, mask=lambda start, stop: masks.causal)
        assert_equal(torch.autograd.grad(out, x, d_out)[0], expected, atol=1e-12)
    padded = torch.cat([draw(BATCH, 2, D_MODEL, seed=6), x], 1)
    out, _ = stepped(module, padded, (3, 10), Cache(torch.tensor([-2] * 3)), mask=lambda start, stop: masks.causal)
    assert_equal(torch.autograd.grad(out[:, 2:], x, d_out)[0], expected, atol=1e-12)
    ragged = Cache(torch.tensor([-2, 0, -1]))
    (leaf,) = (x.detach().requires_grad_(),)
    out, _ = stepped(module, leaf, (3, 8), ragged, mask=lambda start, stop: masks.causal)
    (found,) = torch.autograd.grad(out[0, 2:], leaf, d_out[0, 2:])
    part = x.detach()[:1, 2:].requires_grad_()
    (alone,) = torch.autograd.grad(module(part, mask=masks.causal), part, d_out[:1, 2:])
    assert_equal(found[:1, 2:], alone, atol=1e-12)
    assert_equal(found[1:], torch.zeros_like(found[1:]))


def test_only_the_queries_learn():
    """The graph keeps the rows of the cache, and a later step without gradients must not write behind them."""
    q, k, v = draw(1, 2, 1, 3).requires_grad_(), draw(1, 2, 1, 3, seed=1), draw(1, 2, 1, 3, seed=2)
    with torch.no_grad():
        _, cache = nn.cached_attention(q, k, v, Cache())
    out, after = nn.cached_attention(q, k, v, cache)
    with torch.no_grad():
        nn.cached_attention(q, k, v, after)
    out.sum().backward()


@pytest.mark.parametrize("name", ["sinks", "bias"])
def test_only_what_meets_the_scores_learns(name):
    """A sink or a bias has gradients made of the rows that it met: no later step may write behind those."""
    q, k, v = draw(4, 1, 2, 1, 3), draw(4, 1, 2, 1, 3, seed=1), draw(4, 1, 2, 1, 3, seed=2)
    learned, cache, outputs = draw(2).requires_grad_(), Cache(), []
    options = {"sinks": learned} if name == "sinks" else {"bias": learned[:, None, None]}
    for step in range(4):
        out, cache = nn.cached_attention(q[step], k[step], v[step], cache, **options)
        outputs.append(out)
    whole = nn.attention(*(torch.cat(tuple(x), -2) for x in (q, k, v)), mask=masks.causal, **options)
    (found,), (expected,) = (torch.autograd.grad(y.square().sum(), learned) for y in (torch.cat(outputs, -2), whole))
    assert_equal(found, expected, atol=1e-13)


def test_a_graph_keeps_the_rows_that_it_saw():
    k = draw(1, 1, 3, 2).requires_grad_()
    before = Cache().append(k)
    loss = (before.rows[0] ** 2).sum()
    before.append(k)
    assert_equal(torch.autograd.grad(loss, k)[0], 2 * k)


@pytest.mark.parametrize("grad", [False, True])
def test_inference_mode_and_after(grad):
    module, x = layer(), draw(BATCH, N, D_MODEL)
    with torch.inference_mode():
        _, cache = module.step(x[:, :7], Cache(), mask=masks.causal)
        _, cache = module.step(x[:, 7:8], cache, mask=masks.causal)
    with torch.set_grad_enabled(grad):
        out, _ = module.step(x[:, 8:], cache, mask=masks.causal)
    assert_equal(out, module(x, mask=masks.causal)[:, 8:], atol=1e-12)


def test_appending_copies_little():
    """A thousand appends move a thousand rows and what growing costs, not half a million."""
    cache, row, moves = Cache(), torch.zeros(1, 1, 1, 2), 0
    for _ in range(1000):
        longer = cache.append(row)
        moves += longer.room is not cache.room
        cache = longer
    assert moves < 16
    assert cache.slots == 1000


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_a_step_compiles_whole():
    module, x = layer(), draw(BATCH, N, D_MODEL)
    compiled = torch.compile(lambda x, cache: module.step(x, cache, mask=masks.causal), fullgraph=True, backend="eager")
    with torch.no_grad():
        _, cache = module.step(x[:, :7], Cache(), mask=masks.causal)
        out, _ = compiled(x[:, 7:], cache)
    assert_equal(out, module(x, mask=masks.causal)[:, 7:], atol=1e-12)


def test_equals_the_reference():
    rng = np.random.default_rng(3)
    ours, theirs = Cache(torch.tensor([0, -2])), reference.Cache(np.array([0, -2]))
    for n, mask in ((5, masks.causal), (0, masks.causal), (3, masks.window(2, 1)), (1, None)):
        q, k, v = (
            rng.standard_normal((2, 6, n, 3)),
            rng.standard_normal((2, 2, n, 3)),
            rng.standard_normal((2, 2, n, 5)),
        )
        expected, theirs = reference.cached_attention(q, k, v, theirs, mask=mask, softcap=2.0)
        out, ours = nn.cached_attention(*map(torch.from_numpy, (q, k, v)), ours, mask=mask, softcap=2.0)
        assert_equal(out, expected, atol=1e-13)
        assert_equal(ours.lengths, theirs.lengths)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: layer().step(draw(2, 1, D_MODEL), None), r"cache is None: expected mha\.nn\.Cache"),
        (
            lambda: layer().step(draw(2, 1, D_MODEL), Cache([1, 0, 2])),
            r"x has shape \(2, 1, 20\): expected \(3, length",
        ),
        (lambda: Cache().append(draw(2, 1, 3, 5)).reorder([1, 2]), r"order is \[1, 2\]: expected .* 0 to 1"),
        (lambda: Cache([1, 0]).reorder([-1]), r"order is \[-1\]: expected .* 0 to 1"),
        (lambda: Cache(0.5), r"lengths has dtype float64: expected an integer"),
        (lambda: Cache([1, 0]).append(draw(3, 1, 1, 2)), r"leading axes \(3,\): expected \(2,\)"),
        (lambda: Cache().append(draw(1, 2)), r"shapes \(1, 2\): expected \(b, g, n, width\)"),
        (lambda: Cache().append(draw(1, 1, 2, 3), draw(1, 1, 1, 3)), r"shapes \(1, 1, 2, 3\), \(1, 1, 1, 3\)"),
        (lambda: Cache().append(draw(1, 1, 2, 3)).append(draw(1, 1, 2, 4)), r"\(1, 1, 4, torch.float64\)"),
        (lambda: Cache().append(np.zeros((1, 1, 2, 3))), r"rows 0 is a NumPy array"),
        (lambda: Cache().append(draw(1, 1, 2, 3)).crop(-1), r"n is -1: expected at least 0"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
