"""Attention with a mask of each kind: the same on both floors, traced or not, gradients too."""

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from masks.every import every
from mha import masks, nn, reference

N_Q, N_K, BATCH, HEADS, GROUPS, WIDTH = 5, 11, 2, 4, 2, 3
MASKS = every(N_Q, N_K, BATCH, HEADS)
NAMES = list(MASKS)


def drawn():
    rng = np.random.default_rng(11)
    shapes = (HEADS, N_Q, WIDTH), (GROUPS, N_K, WIDTH), (GROUPS, N_K, WIDTH + 1)
    return [rng.normal(size=(BATCH, *shape)) for shape in shapes]


def tensors():
    return [torch.from_numpy(x).requires_grad_() for x in drawn()]


@pytest.mark.parametrize("name", NAMES)
def test_each_mask_hides_what_its_array_hides(name):
    mask = MASKS[name]
    array = mask.dense(N_Q, N_K)
    q, k, v = drawn()
    expected = reference.attention(q, k, v, mask=array)
    atol = rounding.of_output(q, k, v)
    assert_equal(reference.attention(q, k, v, mask=mask), expected)
    of_torch, of_array = tensors(), tensors()
    out = nn.attention(*of_torch, mask=mask)
    assert_equal(out, expected, atol=atol)
    assert_equal(nn.attention_weights(*of_torch[:2], mask=mask) > 0, np.broadcast_to(array, (BATCH, HEADS, N_Q, N_K)))
    out.sum().backward()
    nn.attention(*of_array, mask=masks.dense(array)).sum().backward()
    bound = rounding.of_gradients(q, k, v, np.ones(out.shape))
    for x, y, letter in zip(of_torch, of_array, "qkv", strict=True):
        assert_equal(x.grad, y.grad, atol=bound, label=letter)


@pytest.mark.parametrize("q_start", [0, 3, [1, 6]], ids=str)
def test_each_mask_from_another_start(q_start):
    q, k, v = drawn()
    for name, mask in MASKS.items():
        expected = reference.attention(q, k, v, mask=mask.dense(N_Q, N_K, q_start))
        assert_equal(reference.attention(q, k, v, mask=mask, q_start=q_start), expected, label=name)
        out = nn.attention(*tensors(), mask=mask, q_start=q_start)
        assert_equal(out, expected, atol=rounding.of_output(q, k, v), label=name)


def as_tensor(mask):
    """Evaluate a mask as torch does, from the default start."""

    def table(x):
        return torch.as_tensor(x if isinstance(x, torch.Tensor) else np.array(x))

    start = masks.query_start(mask, N_Q, N_K)
    sizes = {"batch": BATCH, "num_heads": HEADS}
    return masks.visible(mask, N_Q, N_K, start=start, **sizes, arange=torch.arange, table=table)


def test_masks_are_traced():
    """Masks come into a compiled function as they are, and those with tensors for tables can be made in it."""
    torch.compiler.reset()
    ids, keep = torch.tensor([[0] * 6 + [1] * 5] * BATCH), torch.arange(N_K) >= torch.tensor([[3], [0]])
    names = [
        "per_head",
        "bigbird",
        "global, padded on the left",
        "heads of many kinds",
        "shifted_window2d",
        "documents",
    ]
    given = [MASKS[name] for name in names]
    by_place = masks.fixed(3) | masks.prefix(2)

    def pictures(ids, keep):
        packed = masks.causal & masks.segments(ids[:, -N_Q:], ids)
        return [as_tensor(mask) for mask in (packed, by_place & masks.key_padding(keep), *given)]

    traced = torch.compile(pictures, fullgraph=True, backend="eager")
    for name, one, two in zip(["packed", "padded", *names], traced(ids, keep), pictures(ids, keep), strict=True):
        assert_equal(one, two, label=name)
