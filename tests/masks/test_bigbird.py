"""BigBird's blocks: a loop over blocks, the draw, and transformers' block-sparse attention."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference

N, BLOCK, HEADS, DRAWN, D_MODEL, BATCH = 64, 4, 3, 3, 12, 2
BLOCKS = N // BLOCK


def expected_blocks(plan):
    """Return which blocks are seen, block by block."""
    see = np.zeros((len(plan), BLOCKS, BLOCKS), bool)
    for h, row, column in np.ndindex(*see.shape):
        at_end = {row, column} & {0, BLOCKS - 1}
        drawn = 0 < row < BLOCKS - 1 and column in plan[h, row - 1]
        see[h, row, column] = abs(row - column) <= 1 or bool(at_end) or drawn
    return see


def test_blocks_near_global_and_drawn():
    plan = masks.big_bird_plan(5, N, block=BLOCK, number=DRAWN, num_heads=HEADS)
    expected = expected_blocks(plan).repeat(BLOCK, 1).repeat(BLOCK, 2)
    assert_equal(masks.big_bird(N, block=BLOCK, plan=plan).dense(N, N)[0], expected)
    assert_equal(masks.big_bird(N - 3, block=BLOCK, plan=plan).dense(N - 3, N - 3)[0], expected[:, :-3, :-3])


def test_the_draw_adds_blocks_that_the_rest_hides():
    plan = masks.big_bird_plan(5, N, block=BLOCK, number=DRAWN, num_heads=HEADS)
    nothing = masks.big_bird(N, block=BLOCK, plan=plan[:, :, :0]).dense(N, N)
    blocks = nothing[0][:, ::BLOCK, ::BLOCK]
    assert not np.take_along_axis(blocks[:, 1:-1], plan, axis=-1).any()
    assert all(len(set(row)) == DRAWN for head in plan for row in head.tolist())
    assert len({head.tobytes() for head in plan}) == HEADS
    other = masks.big_bird_plan(6, N, block=BLOCK, number=DRAWN, num_heads=HEADS)
    assert (plan != other).any()
    assert_equal(plan, masks.big_bird_plan(5, N, block=BLOCK, number=DRAWN, num_heads=HEADS))


def test_each_block_is_drawn_about_equally_often():
    plan = masks.big_bird_plan(1, 4096, block=4, number=3)
    times = np.bincount(plan.reshape(-1), minlength=1024)[2:-2]
    assert times.max() < 3 + 6 * np.sqrt(3)  # six deviations of a count of mean 3


def test_pairs_grow_with_the_length():
    counts = [
        masks.big_bird(n, block=64, plan=masks.big_bird_plan(0, n, block=64, number=3)).pairs(n, n)
        for n in (1024, 2048, 4096)
    ]
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


@pytest.mark.parametrize("n", [0, 1, 4, 5, 9])
def test_short_sequences_are_full(n):
    plan = masks.big_bird_plan(0, n, block=BLOCK, number=0)
    assert masks.big_bird(n, block=BLOCK, plan=plan).pairs(n, n) == n * n


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masks.big_bird_plan(0, 64, block=4, number=12), "number is 12: expected at most 11, for a row of 16"),
        (lambda: masks.big_bird(64, block=4, plan=np.zeros((1, 15, 3), int)), r"expected \(heads, 14, number\) for 16"),
        (
            lambda: masks.big_bird(64, block=4, plan=np.full((1, 14, 3), 16)),
            "plan holds 16 to 16: expected blocks from",
        ),
        (
            lambda: masks.big_bird(64, block=4, plan=np.zeros((1, 14, 3))),
            "plan has dtype float64: expected the indices",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def theirs(training, mask=None):
    """Return q, k, v, the plan and the output of transformers' attention; the plan is drawn in training alone."""
    pytest.importorskip("transformers")
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    config = BigBirdConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        block_size=BLOCK,
        num_random_blocks=DRAWN,
        max_position_embeddings=N,
    )
    module = BigBirdBlockSparseAttention(config, seed=7).double().train(training)
    make = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    x = torch.randn(BATCH, N, D_MODEL, generator=make, dtype=torch.float64)
    keep = torch.ones(BATCH, N) if mask is None else mask
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(keep.double(), BLOCK)
    state = np.random.get_state()  # noqa: NPY002, theirs
    with torch.no_grad():
        out = module(x, band, rows, columns, blocked, blocked)[0]
        np.random.seed(7)  # noqa: NPY002
        lengths, numbers = module._get_rand_attn_plan(N, BLOCK, DRAWN)
        plan = np.stack(module._bigbird_block_rand_mask_with_head(N, N, BLOCK, BLOCK, HEADS, lengths, numbers))
        projected = [linear(x).numpy() for linear in (module.query, module.key, module.value)]
    np.random.set_state(state)  # noqa: NPY002
    return SimpleNamespace(
        qkv=[reference.split_heads(y, HEADS) for y in projected], plan=plan, out=out.numpy(), keep=keep.bool().numpy()
    )


def ours(other, plan=None, **options):
    mask = masks.big_bird(N, block=BLOCK, plan=other.plan if plan is None else plan) & masks.key_padding(other.keep)
    return reference.join_heads(reference.attention(*other.qkv, mask=mask, q_start=0, **options))


@pytest.mark.parametrize("padding", [0, 6])
def test_transformers_plan_read_as_a_mask(padding):
    other = theirs(True, torch.arange(N) < torch.tensor([[N], [N - padding]]))
    assert other.plan.shape == (HEADS, BLOCKS - 2, DRAWN)
    assert len({tuple(row) for row in other.plan.reshape(-1, DRAWN)}) > BLOCKS
    assert_equal(ours(other)[other.keep], other.out[other.keep], atol=1e-12)


@pytest.mark.parametrize("fault", ["another plan", "a wider band", "nothing drawn"])
def test_a_planted_fault_is_seen(fault, monkeypatch):
    other = theirs(True)
    plan = np.roll(other.plan, 1, axis=0) if fault == "another plan" else other.plan
    if fault == "a wider band":
        monkeypatch.setattr("mha.masks.bigbird.NEAR", 2)
    if fault == "nothing drawn":
        plan = 0 * plan
    with pytest.raises(AssertionError):
        assert_equal(ours(other, plan), other.out, atol=1e-3)


def test_in_evaluation_theirs_draws_nothing_and_counts_the_first_block_again():
    """The plan is zeros then: each row that draws meets the first block 1 + 3 times in one softmax."""
    other = theirs(False)
    assert not other.plan.any()
    bias = np.zeros((N, N))
    bias[BLOCK:-BLOCK, :BLOCK] = np.log(1 + DRAWN)
    assert_equal(ours(other, bias=bias), other.out, atol=1e-12)
    with pytest.raises(AssertionError):
        assert_equal(ours(other), other.out, atol=1e-3)
