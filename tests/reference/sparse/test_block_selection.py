"""Block selection against a loop over queries, written from the formulas of Yuan et al. (2025), section 3."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.reference import attention, block_selection_attention, chosen_blocks, pooled_blocks

SIZE = 3


def draw(n_q=11, n_k=11, seed=0):
    make = np.random.default_rng(seed).standard_normal
    return make((2, 6, n_q, 5)), make((2, 3, n_k, 5)), make((2, 3, n_k, 2)), make((2, 6, n_q, 2))


def softmax(scores):
    e = np.exp(np.array(scores) - max(scores))
    return e / e.sum()


def in_loops(q, k, v, gates, num_blocks, causal, start):
    """Return means, choice and both answers, one query and one group of heads at a time."""
    n_k, output = k.shape[2], np.zeros((*q.shape[:-1], v.shape[-1]))
    blocks = [range(first, min(first + SIZE, n_k)) for first in range(0, n_k, SIZE)]
    for b, g, i in np.ndindex(2, 3, q.shape[2]):
        p = start + i
        means = [(k[b, g, block].mean(0), v[b, g, block].mean(0)) for block in blocks]
        whole = [c for c in range(len(blocks)) if not causal or SIZE * (c + 1) <= p + 1]
        weights = {
            h: softmax([q[b, h, i] @ means[c][0] / 5**0.5 for c in whole]) if whole else [] for h in (2 * g, 2 * g + 1)
        }
        worth = {c: sum(weights[h][place] for h in weights) for place, c in enumerate(whole)}
        if causal and p // SIZE < len(blocks):
            worth[p // SIZE] = np.inf
        chosen = sorted(worth, key=lambda c: (-worth[c], c))[:num_blocks]
        seen = [j for c in chosen for j in blocks[c] if not causal or j <= p]
        for h in weights:
            by_mean = sum((w * means[c][1] for w, c in zip(weights[h], whole, strict=True)), np.zeros(2))
            by_key = softmax([q[b, h, i] @ k[b, g, j] / 5**0.5 for j in seen]) @ v[b, g, seen] if seen else 0
            output[b, h, i] = gates[b, h, i, 0] * by_mean + gates[b, h, i, 1] * by_key
    return output


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_blocks", [1, 2, 9])
@pytest.mark.parametrize("lengths", [(11, 11), (5, 11), (1, 1), (11, 5), (3, 0), (0, 3)], ids=str)
def test_is_the_loop(lengths, num_blocks, causal):
    given, start = draw(*lengths), max(0, lengths[1] - lengths[0])
    mask = masks.causal if causal else None
    options = {"block_size": SIZE, "num_blocks": num_blocks, "mask": mask, "q_start": start}
    expected = in_loops(*given, num_blocks, causal, start)
    assert_equal(block_selection_attention(*given, **options), expected, atol=1e-13)


def test_all_blocks_are_attention_and_blocks_of_one_key_too():
    q, k, v, gates = draw()
    for mask in (None, masks.causal):
        whole, only_keys = attention(q, k, v, mask=mask), np.stack([0 * gates[..., 0], gates[..., 0] ** 0], -1)
        options = {"block_size": SIZE, "num_blocks": 4, "mask": mask}
        assert_equal(block_selection_attention(q, k, v, only_keys, **options), whole, atol=1e-14)
        options = {"block_size": 1, "num_blocks": 1, "mask": mask}
        assert_equal(block_selection_attention(q, k, v, 1 - only_keys, **options), whole, atol=1e-14)


def test_the_own_block_first_and_nothing_to_come():
    q, k, v, gates = draw()
    chosen = chosen_blocks(q, k, block_size=SIZE, num_blocks=2, mask=masks.causal)
    assert_equal(chosen[..., 0], np.broadcast_to(np.arange(11) // SIZE, (2, 3, 11)))
    assert_equal(chosen[..., :3, 1], np.full((2, 3, 3), -1))
    options = {"block_size": SIZE, "num_blocks": 2, "mask": masks.causal}
    whole = block_selection_attention(q, k, v, gates, **options)
    for n in range(1, 11):
        part = [q[..., :n, :], k[..., :n, :], v[..., :n, :], gates[..., :n, :]]
        assert_equal(block_selection_attention(*part, **options), whole[..., :n, :], atol=1e-14)
        last = [q[..., n - 1 : n, :], *part[1:3], gates[..., n - 1 : n, :]]
        assert_equal(block_selection_attention(*last, **options), whole[..., n - 1 : n, :], atol=1e-14)


def test_padding_is_no_block():
    q, k, v, gates = draw()
    k[1, :, 7:], v[1, :, 7:] = np.nan, np.nan
    for rule in (masks.lengths([11, 7]), masks.lengths([11, 7]) & masks.causal):
        options = {"block_size": SIZE, "num_blocks": 2, "q_start": 0}
        padded = block_selection_attention(q, k, v, gates, mask=rule, **options)
        alone = [q[1:], k[1:, :, :7], v[1:, :, :7], gates[1:]]
        mask = None if isinstance(rule, type(masks.lengths([1]))) else masks.causal
        assert_equal(padded[1:], block_selection_attention(*alone, mask=mask, **options), atol=1e-14)
    assert_equal(pooled_blocks(k, SIZE, lengths=[11, 7])[1, :, 3], np.zeros((3, 5)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mask": masks.causal & masks.prefix(2)}, r"mask holds prefix\(2\): block selection supports masks\.causal"),
        ({"num_blocks": 0}, "num_blocks is 0: expected at least 1"),
        ({"gates": np.zeros((2, 6, 11))}, r"gates has shape \(2, 6, 11\): expected \(6, 11, 2\)"),
    ],
    ids=["mask", "number", "gates"],
)
def test_what_it_refuses(change, words):
    call = dict(zip(("q", "k", "v", "gates"), draw(), strict=True), block_size=SIZE, num_blocks=2) | change
    with pytest.raises(ValueError, match=words):
        block_selection_attention(**call)
