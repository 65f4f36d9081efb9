"""Block selection against the reference; no more pairs than are read; what the gradient passes."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, reference
from mha.nn import BlockSelection, Cache, block_selection_attention, chosen_blocks, pooled_blocks
from nn.layers import draw, layer
from nn.sparse.largest import largest_tensor

MASKS = {
    "nothing": {},
    "causal": {"mask": masks.causal},
    "q_start": {"mask": masks.causal, "q_start": np.array([2, 9])},
    "lengths": {"mask": masks.lengths([7, 0])},
    "both": {"mask": masks.lengths([11, 4]) & masks.causal},
}


def tensors(n_q=7, n_k=11, groups=3):
    return (
        draw(2, 6, n_q, 5),
        draw(2, groups, n_k, 5, seed=1),
        draw(2, groups, n_k, 2, seed=2),
        draw(2, 6, n_q, 2, seed=3),
    )


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (3, 2), (4, 9), (20, 1)], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_equals_the_reference(name, sizes):
    given, options = tensors(), dict(zip(("block_size", "num_blocks"), sizes, strict=True)) | MASKS[name]
    expected = reference.block_selection_attention(*(x.numpy() for x in given), **options)
    assert_equal(block_selection_attention(*given, **options), expected, atol=1e-13)
    chosen = reference.chosen_blocks(*(x.numpy() for x in given[:2]), **options)
    assert_equal(chosen_blocks(*given[:2], **options), chosen)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1)], ids=str)
def test_short_sequences(lengths):
    given, options = tensors(*lengths), {"block_size": 2, "num_blocks": 2, "mask": masks.causal}
    expected = reference.block_selection_attention(*(x.numpy() for x in given), **options)
    assert_equal(block_selection_attention(*given, **options), expected, atol=1e-14)


def test_leading_axes():
    q, k, v, gates = tensors()
    options = {"block_size": 3, "num_blocks": 2, "mask": masks.causal}
    found = block_selection_attention(q[None].expand(3, -1, -1, -1, -1), k, v, gates, **options)
    assert_equal(found[1], block_selection_attention(q, k, v, gates, **options), atol=1e-14)
    assert_equal(pooled_blocks(k, 3), reference.pooled_blocks(k.numpy(), 3), atol=1e-15)


def test_gradients():
    given = [x[:1].detach().requires_grad_() for x in tensors(3, 7)]

    def call(q, k, v, gates):
        return block_selection_attention(q, k, v, gates, block_size=2, num_blocks=2, mask=masks.causal)

    assert gradcheck(call, given)


def test_the_choice_is_learned_through_the_means():
    """Without the first answer a block that was not chosen hears nothing; with it, each block behind does."""
    q, k, v, gates = (x.detach().requires_grad_() for x in tensors(1, 12))
    chosen = chosen_blocks(q, k, block_size=2, num_blocks=1)
    for first, heard in ((0.0, 1), (0.5, 6)):
        out = block_selection_attention(
            q, k, v, torch.stack([gates[..., 0] * 0 + first, gates[..., 1]], -1), block_size=2, num_blocks=1
        )
        (gradient,) = torch.autograd.grad(out.square().sum(), k)
        blocks = gradient.unflatten(-2, (6, 2)).abs().sum((-2, -1)) > 0
        assert_equal(blocks.sum(-1), np.full((2, 3), heard))
        assert blocks.gather(-1, chosen[..., 0]).all()


def test_no_tensor_of_all_pairs():
    """4096 queries of width 8 read 4 blocks of 16 keys: 64 rows gathered each, beside 256 means."""
    n = 4096
    q, k, v = (torch.randn(1, 1, n, 8) for _ in range(3))
    gates = torch.rand(1, 1, n, 2)
    options = {"block_size": 16, "num_blocks": 4, "mask": masks.causal}
    assert largest_tensor(lambda: block_selection_attention(q, k, v, gates, **options)) == 8 * 64 * n < n * n // 4


def test_as_the_core_of_a_layer():
    module = layer(13, 6, d_head=4, num_kv_heads=3, core=BlockSelection(6, 4, block_size=3, num_blocks=2).double())
    x = draw(2, 11, 13)
    q, k, v = module.project(x)
    gates = torch.sigmoid(torch.einsum("bhid,hdx->bhix", q, module.core.gate))
    expected = block_selection_attention(q, k, v, gates, block_size=3, num_blocks=2, mask=masks.causal)
    assert_equal(module.per_head(x, mask=masks.causal), expected, atol=1e-14)
    assert_equal(module(x[:, :8], mask=masks.causal), module(x, mask=masks.causal)[:, :8], atol=1e-13)
    module(x).sum().backward()
    assert module.core.gate.grad.abs().min() > 0
    with pytest.raises(ValueError, match="sinks is given: block selection has no sinks"):
        layer(13, 6, d_head=4, sinks=True, core=module.core)(x)
    with pytest.raises(ValueError, match=r"gate has shape \(6, 4, 2\): expected \(5, 4, 2\)"):
        layer(13, 5, d_head=4, core=module.core)(x)


@pytest.mark.parametrize("rows", [(1,) * 11, (4, 1, 1, 5)], ids=str)
def test_cached_as_whole(rows):
    """The last query alone must not take the mean of a block that is not full yet."""
    module = layer(13, 6, d_head=4, num_kv_heads=3, core=BlockSelection(6, 4, block_size=3, num_blocks=2).double())
    x, cache, found = draw(2, 11, 13), Cache(), []
    for part in x.split(rows, 1):
        output, cache = module.step(part, cache, mask=masks.causal)
        found.append(output)
    assert_equal(torch.cat(found, 1), module(x, mask=masks.causal), atol=1e-13)


def test_samples_of_unequal_lengths_as_each_alone():
    module = layer(13, 6, d_head=4, num_kv_heads=3, core=BlockSelection(6, 4, block_size=3, num_blocks=2).double())
    x, new = draw(2, 7, 13), draw(2, 2, 13, seed=1)
    _, cache = module.step(x, Cache(), mask=masks.causal & masks.lengths([7, 4]))
    found, _ = module.step(new, cache, mask=masks.causal)
    for b, n in enumerate((7, 4)):
        alone = module(torch.cat([x[b : b + 1, :n], new[b : b + 1]], 1), mask=masks.causal)
        assert_equal(found[b : b + 1], alone[:, n:], atol=1e-13)


def test_half_precision_holds_the_sum_of_a_block():
    x = torch.full((1, 1, 64, 2), 2000.0, dtype=torch.float16)
    assert_equal(pooled_blocks(x, 64), x[..., :1, :])
