"""Every sparse pattern: what it is in the paper, the numbers of the reference, and a cost that follows the tiles."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import attention, longformer_attention, tiled
from nn.layers import draw

N, STEP, SUMMARY = 37, 6, 2
TILE = 64


def strided(i, j):
    """Child et al. (2019), section 4.3: A¹ holds the last `step` positions, A² those a multiple of `step` back."""
    return max(0, i - STEP) <= j <= i, (i - j) % STEP == 0 and j <= i


def fixed(i, j):
    """The same section: A¹ holds the positions of one's own block, A² the last `SUMMARY` cells of every block."""
    return j // STEP == i // STEP and j <= i, j % STEP in range(STEP - SUMMARY, STEP) and j <= i


def log_sparse(i, j):
    """Li et al. (2019): the cells 1, 2, 4, 8 … before one's own, and it."""
    return j == i or j in {i - 2**k for k in range(int(math.log2(max(i, 1))) + 1)}


def table(rule, n=N):
    return np.array([[rule(i, j) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (masks.causal & masks.window(STEP, 0), lambda i, j: strided(i, j)[0]),
        (masks.causal & masks.strided(STEP), lambda i, j: strided(i, j)[1]),
        (masks.causal & (masks.window(STEP, 0) | masks.strided(STEP)), lambda i, j: any(strided(i, j))),
        (masks.causal & masks.fixed(STEP, 0), lambda i, j: fixed(i, j)[0]),
        (masks.causal & masks.fixed(STEP, SUMMARY), lambda i, j: any(fixed(i, j))),
        (masks.log_strided, log_sparse),
    ],
    ids=["strided 1", "strided 2", "strided", "fixed 1", "fixed", "log-strided"],
)
def test_patterns_of_the_papers(mask, rule):
    see, (q, k, v) = table(rule), (draw(1, 2, N, 5, seed=seed) for seed in range(3))
    assert_equal(mask.dense(N, N), see)
    assert_equal(
        attention(q, k, v, mask=mask), reference.attention(*(x.numpy() for x in (q, k, v)), mask=see), atol=1e-13
    )


def test_heads_of_their_own_range():
    """The two halves of the strided pattern in two heads each, as Child et al. (2019) also run it."""
    parts = [masks.causal & masks.window(STEP, 0)] * 2 + [masks.causal & masks.strided(STEP)] * 2
    q, k, v = (draw(1, 4, N, 5, seed=seed) for seed in range(3))
    found = attention(q, k, v, mask=masks.per_head(parts))
    for h, part in enumerate(parts):
        one = (x[:, h : h + 1] for x in (q, k, v))
        assert_equal(found[:, h : h + 1], attention(*one, mask=part), atol=1e-13)


def test_strided_positions_in_another_order_are_blocks():
    """Sorted by their remainder, the positions of one stride stand together: full tiles in place of scattered pairs."""
    order = np.argsort(np.arange(N) % STEP, kind="stable")
    see = masks.strided(STEP).dense(N, N)[np.ix_(order, order)]
    assert_equal(see, masks.segments(order % STEP).dense(N, N))


LONG = 2048
PLAN = masks.big_bird_plan(0, LONG, block=TILE, number=3, num_heads=2)
PATTERNS = {
    "window": masks.window(255, 0),
    "two-sided window": masks.window(128, 128),
    "dilated": masks.dilated(64, 64, 4),
    "strided": masks.causal & (masks.window(255, 0) | masks.strided(256)),
    "fixed": masks.causal & masks.fixed(512, 8),
    "log-strided": masks.log_strided,
    "longformer": masks.window(128, 128) | masks.global_tokens([0, 1]),
    "bigbird": masks.big_bird(LONG, block=TILE, plan=PLAN),
    "one range a head": masks.per_head([masks.window(64, 0), masks.window(511, 0)]),
}


@pytest.fixture
def counted(monkeypatch):
    """Count the pairs that the fused operator is given, (rows, keys) of each call."""
    pairs = []

    def counting(q, k, v, *rest, **options):
        pairs.append(q.shape[1] * q.shape[2] * k.shape[2])
        return forward_op(q, k, v, *rest, **options)

    forward_op = tiled.forward_op
    monkeypatch.setattr(tiled, "forward_op", counting)
    return pairs


@pytest.mark.parametrize("name", PATTERNS)
def test_visible_tiles_alone_are_computed(name, counted):
    mask, n, heads = PATTERNS[name], LONG, 2
    q, k, v = (draw(1, heads, n, 4, seed=seed).float() for seed in range(3))
    attention(q, k, v, mask=mask)
    tiles = mask.tiles(n, n, size=(TILE, TILE))
    shared = heads if tiles.shape[1] == 1 else 1
    assert sum(counted) == len(tiles.index) * TILE**2 * shared
    assert sum(counted) <= n * n * heads / 2


def test_longformer_adds_a_row_for_each_global_token(counted, monkeypatch):
    n, local = LONG, masks.window(128, 128)
    rows = []

    def counting(q, k, v, **options):
        rows.append(q.shape[-2])
        return attention(q, k, v, **options)

    monkeypatch.setattr("mha.nn.sparse.longformer.attention", counting)
    given = [draw(1, 2, n, 4, seed=seed).float() for seed in range(6)]
    is_global = torch.arange(n) % 1000 == 0
    longformer_attention(*given, is_global, local=local)
    see = local | masks.dense(is_global[None].numpy())
    assert rows == [n, 3]
    assert sum(counted) == len(see.tiles(n, n, size=(TILE, TILE)).index) * TILE**2 * 2


def test_a_long_causal_window_fits_two_gibibytes():
    """16,384 positions, 4 heads, forward and backward, in a process of its own: the whole of it, torch included."""
    code = """
import re, torch
from mha import masks
from mha.nn import attention
torch.set_num_threads(1)
q, k, v = (torch.randn(1, 4, 16384, 64, requires_grad=True) for _ in range(3))
attention(q, k, v, mask=masks.causal & masks.window_of(256)).sum().backward()
status = open("/proc/self/status").read().replace("\\t", " ")
print(re.search("VmHWM: *(.*) kB", status)[1])  # ru_maxrss begins with what the parent held
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2 * 2**20, f"{done.stdout.strip()} kB"
