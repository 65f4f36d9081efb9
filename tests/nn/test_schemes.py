"""Mask and position scheme speak of the same positions: padded = unpadded, chunked = whole, cached = uncached."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks
from mha.nn import MultiHeadAttention, Rotary

BATCH, N, D_MODEL = 3, 7, 12
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=[None, Rotary()], ids=["no scheme", "rotary"])
def module(request):
    module = MultiHeadAttention(D_MODEL, 2, position=request.param, dtype=torch.float64)
    for n, parameter in enumerate(module.parameters()):
        parameter.data.copy_(0.3 * draw(*parameter.shape, seed=n + 10))
    return module.eval()


def test_a_padded_context_equals_the_context_alone(module):
    lengths = [5, 7, 2]
    x, context = draw(BATCH, 2, D_MODEL), draw(BATCH, N, D_MODEL, seed=1)
    for table in (lengths, torch.tensor(lengths)):
        out = module(x, context, mask=masks.causal & masks.lengths(table))
        for b, n in enumerate(lengths):
            alone = module(x[b : b + 1], context[b : b + 1, :n], mask=masks.causal)
            assert_equal(out[b : b + 1], alone, **CLOSE, label=f"{n} keys")


def test_padding_on_either_side_equals_none(module):
    lengths = [5, 7, 2]
    samples = [draw(1, n, D_MODEL, seed=n) for n in lengths]
    alone = [module(x, mask=masks.causal & masks.window(3, 0)) for x in samples]
    right, left = (draw(BATCH, N, D_MODEL, seed=s) for s in (8, 9))
    for b, (n, x) in enumerate(zip(lengths, samples, strict=True)):
        right[b, :n], left[b, N - n :] = x[0], x[0]
    near = masks.causal & masks.window(3, 0)
    from_right = module(right, mask=near & masks.lengths(lengths))
    missing = N - torch.tensor(lengths)[:, None]
    valid = masks.dense((torch.arange(N) >= missing)[:, None, None])
    for positions in (None, torch.arange(N) - missing, torch.arange(N)):
        from_left = module(left, mask=near & valid, positions=positions)
        for b, n in enumerate(lengths):
            assert_equal(from_right[b, :n], alone[b][0], **CLOSE, label="right")
            assert_equal(from_left[b, N - n :], alone[b][0], **CLOSE, label=f"left, positions {positions}")


@pytest.mark.parametrize("mask", [masks.causal, masks.window(2, 1)], ids=repr)
def test_chunks_equal_the_whole(module, mask):
    x = draw(BATCH, N, D_MODEL)
    whole = module(x, mask=mask)
    weights = module.weights(x, mask=mask)
    for start, stop in ((0, 3), (3, 4), (4, 7)):
        options = {"mask": mask, "positions": torch.arange(start, stop)}
        assert_equal(module(x[:, start:stop], x, **options), whole[:, start:stop], **CLOSE, label="all keys are there")
        assert_equal(module.weights(x[:, start:stop], x, **options), weights[..., start:stop, :], **CLOSE)
        moved = {"positions": torch.arange(start, stop) + 50, "context_positions": torch.arange(N) + 50}
        assert_equal(module(x[:, start:stop], x, mask=mask, **moved), whole[:, start:stop], **CLOSE, label="moved")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (masks.lengths([4]), "lengths has 1 entries and the batch has 3"),
        (masks.causal & masks.lengths([4, 3]), "lengths has 2 entries and the batch has 3"),
        (
            masks.key_padding([[True] * 4 + [False] * 3]),
            r"key_padding has shape \(1, 7\): expected \(b, j\) = \(3, 7\)",
        ),
    ],
    ids=["one", "two", "key_padding"],
)
def test_a_mask_of_another_batch_is_named(module, mask, message):
    with pytest.raises(ValueError, match=message):
        module(draw(BATCH, N, D_MODEL), mask=mask)


def test_each_sample_at_its_own_step(module):
    x, steps = draw(BATCH, N, D_MODEL), torch.tensor([[4], [0], [6]])
    whole = module(x, mask=masks.causal)
    rows = torch.arange(BATCH)[:, None]
    out = module(x[rows, steps], x, mask=masks.causal, positions=steps)
    assert_equal(out, whole[rows, steps], **CLOSE)


def test_the_context_tells_where_the_last_query_stands(module):
    x = draw(BATCH, N, D_MODEL)
    last = module(x[:, -2:], x, mask=masks.causal, context_positions=torch.arange(N) + 9)
    assert_equal(last, module(x, mask=masks.causal)[:, -2:], **CLOSE)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16])
def test_positions_of_any_integers(module, dtype):
    """0 − 5 in unsigned integers is a large number, and the mask would show everything."""
    x, context = draw(BATCH, 2, D_MODEL), draw(BATCH, N, D_MODEL, seed=1)
    stand, there = torch.tensor([3, 4]), torch.arange(N) + 5
    expected = module(x, context, mask=masks.causal, positions=stand, context_positions=there)
    options = {"positions": stand.to(dtype), "context_positions": there.to(dtype)}
    assert_equal(module(x, context, mask=masks.causal, **options), expected)


def test_one_x_for_many_contexts(module):
    x, context = draw(1, 2, D_MODEL), draw(BATCH, N, D_MODEL, seed=1)
    for mask, options in (
        (masks.causal & masks.lengths([5, 7, 2]), {}),
        (masks.causal, {"context_positions": torch.arange(N) + torch.tensor([[0], [4], [2]])}),
        (masks.causal, dict.fromkeys(("positions", "context_positions"), torch.arange(2))),
    ):
        there = context[:, :2] if "positions" in options else context
        expected = module(x.expand(BATCH, -1, -1), there, mask=mask, **options)
        assert_equal(module(x, there, mask=mask, **options), expected, **CLOSE)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("dynamic", [None, True])
def test_positions_in_a_graph(module, dynamic):
    x, positions = draw(BATCH, 2, D_MODEL), torch.arange(3, 5)
    context = draw(BATCH, N, D_MODEL, seed=1)
    compiled = torch.compile(module, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    assert_equal(compiled(x, mask=masks.causal), module(x, mask=masks.causal), **CLOSE)
    expected = module(x, context, mask=masks.causal, positions=positions)
    assert_equal(compiled(x, context, mask=masks.causal, positions=positions), expected, **CLOSE)


def test_positions_that_jump(module):
    """Where a mask compares positions they must be consecutive; a mask by slot does not ask."""
    x, jump = draw(BATCH, 3, D_MODEL), torch.tensor([0, 1, 5])
    for name in ("positions", "context_positions"):
        with pytest.raises(ValueError, match=rf"{name} jump: expected consecutive integers"):
            module(x, mask=masks.causal & masks.lengths([3, 2, 1]), **{"positions": torch.arange(3), name: jump})
    see = torch.ones(3, 3, dtype=torch.bool).tril()
    for mask in (None, see, masks.lengths([3, 2, 1]), masks.dense(see) & masks.lengths([3, 3, 3])):
        assert module(x, mask=mask, positions=jump).shape == x.shape


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([0, 1, 2], TypeError, "is a list: expected a torch tensor of integers"),
        (np.arange(3), TypeError, "is a ndarray: expected a torch tensor of integers"),
        ("junk", TypeError, "is a str"),
        (2, TypeError, "is a int"),
        (torch.arange(3.0), TypeError, "has dtype torch.float32: expected integers"),
        (torch.ones(3, dtype=torch.bool), TypeError, "has dtype torch.bool: expected integers"),
        (torch.tensor(2), ValueError, r"has shape \(\): expected \(3,\), or one row per sample \(3, 3\)"),
        (torch.arange(4), ValueError, r"has shape \(4,\): expected \(3,\)"),
        (torch.zeros(2, 3, dtype=torch.long), ValueError, r"has shape \(2, 3\): expected \(3,\)"),
    ],
)
@pytest.mark.parametrize("name", ["positions", "context_positions"])
def test_bad_positions_are_named(module, name, value, error, words):
    with pytest.raises(error, match=f"{name} {words}"):
        module(draw(BATCH, 3, D_MODEL), **{name: value})


def test_packed_documents_equal_each_alone(module):
    """Positions may run on or restart at each document; a jump within one is an error."""
    ids = torch.tensor([4, 4, 4, 9, 2, 2, 2])
    x, mask = draw(BATCH, N, D_MODEL), masks.causal & masks.segments(ids)
    restarted = masks.segment_positions(ids)
    each = [rows.start for rows in (range(0, 3), range(3, 4), range(4, 7))]
    alone = torch.cat([module(x[:, a:b], mask=masks.causal) for a, b in zip(each, [*each[1:], N], strict=True)], 1)
    for positions in (None, torch.arange(N), restarted, restarted.expand(BATCH, N)):
        assert_equal(module(x, mask=mask, positions=positions), alone, **CLOSE, label=f"{positions}")
    per_sample = masks.causal & masks.segments(ids.expand(BATCH, N))
    assert_equal(module(x, mask=per_sample, positions=restarted.expand(BATCH, N)), alone, **CLOSE)
    assert_equal(module(x, mask=per_sample, positions=restarted), alone, **CLOSE)
    with pytest.raises(ValueError, match="segments knows 6 queries and 6 keys"):
        module(x, mask=masks.causal & masks.segments(ids[1:]), positions=torch.arange(N))
    last = masks.causal & masks.segments(ids[5:], ids)
    out = module(x[:, 5:], x, mask=last, positions=restarted[5:], context_positions=restarted)
    assert_equal(out, alone[:, 5:], **CLOSE, label="two more queries")
    for wrong in (torch.tensor([0, 1, 3, 0, 0, 1, 2]), torch.tensor([0, 1, 0, 1, 0, 1, 2])):
        with pytest.raises(ValueError, match="positions jump: expected consecutive integers"):
            module(x, mask=mask, positions=wrong)
