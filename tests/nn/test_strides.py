"""`mha.nn` on views: how a tensor lies in memory changes neither output nor gradient."""

import pytest
import torch

from compare import assert_equal
from mha import masks
from mha.nn import attention

WAYS = {
    "heads behind positions": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "width before positions": lambda x: x.mT.contiguous().mT,
    "every other column": lambda x: torch.stack([x, x + 1], dim=-1).flatten(-2)[..., ::2],
    "one column expanded": lambda x: x[..., :1].expand_as(x),
    "flipped and back": lambda x: x.flip(-2).flip(-2),
}
NAMES = "q", "k", "v", "d_output"


@pytest.mark.parametrize("mask", [None, masks.causal, masks.window(3, 1)], ids=repr)
@pytest.mark.parametrize("view", WAYS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_kv_heads", [3, 6])
def test_a_view_equals_its_copy(num_kv_heads, name, view, mask):
    shapes = (2, 6, 5, 7), (2, num_kv_heads, 11, 7), (2, num_kv_heads, 11, 7), (2, 6, 5, 7)
    given = {key: torch.randn(shape, dtype=torch.float64) for key, shape in zip(NAMES, shapes, strict=True)}
    given[name] = WAYS[view](given[name])
    answers = []
    for arrange in (lambda x: x, lambda x: x.contiguous()):
        q, k, v = (arrange(given[key]).detach().requires_grad_() for key in "qkv")
        output = attention(q, k, v, mask=mask)
        answers.append((output, *torch.autograd.grad(output, (q, k, v), arrange(given["d_output"]))))
    for label, actual, expected in zip(("output", "dq", "dk", "dv"), *answers, strict=True):
        assert_equal(actual, expected, atol=1e-14 * expected.abs().max().item(), label=label)
