"""`mha.nn.linear.feature_maps`: derivatives, positions, and a future that changes no bit."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from approximation_calls import draw, tensors
from compare import assert_equal
from mha import masks, nn, reference
from mha.nn.linear import relu

pytestmark = [  # torch's own forward mode uses what torch deprecates
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning"),
]

CORES = {
    "elu + 1": nn.FeatureAttention(),
    "softmax features": nn.FeatureAttention(nn.softmax_features),
    "Performer": nn.Performer(7, 5),
}
SMALL = CORES | {
    "Performer": nn.Performer(3, 2),
    "Nystrom": nn.Nystrom(2, iterations=2),
    "Reformer": nn.Reformer(2, 2, chunk=2, rounds=2),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_derivative(name):
    core, rng = SMALL[name], np.random.default_rng(0)
    q, k, v = (torch.from_numpy(rng.standard_normal((1, 1, 3, 2))).requires_grad_() for _ in range(3))
    for mask in [masks.lengths([2]), *[masks.causal] * ("causal" in core.supports)]:

        def call(q, k, v, mask=mask):
            return core(q, q if name == "Reformer" else k, v, mask=mask)

        assert gradcheck(call, (q, k, v), check_forward_ad=True)
        assert gradgradcheck(call, (q, k, v), fast_mode=True)


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_future_changes_no_bit(name, dtype):
    """Large keys far ahead would change a maximum over all keys, and with it the rounding of every row before."""
    q, k, v = (x.to(dtype) for x in tensors(*draw(150)))
    expected = CORES[name](q, k, v, mask=masks.causal)
    for first in (70, 149):
        k_, v_ = k.clone(), v.clone()
        k_[..., first:, :] *= 9
        v_[..., first:, :] = 1e4
        found = CORES[name](q, k_, v_, mask=masks.causal)
        assert_equal(found[..., :first, :], expected[..., :first, :])
        assert (found[..., first:, :] != expected[..., first:, :]).any()


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("start", [-20, -2, 0, 3, 9, 40, [2, -3]], ids=str)
def test_queries_may_stand_anywhere(name, start):
    core = {"elu + 1": reference.FeatureAttention(), "Performer": reference.Performer(7, 5)}
    core = core.get(name, reference.FeatureAttention(reference.softmax_features))
    rows, start = draw(5, 11), start if isinstance(start, int) else np.array(start)
    expected = core(*rows, mask=masks.causal, q_start=start)
    assert_equal(CORES[name](*tensors(*rows), mask=masks.causal, q_start=start), expected, atol=1e-13)


def test_leading_axes_broadcast():
    q, k, v = tensors(*draw(5))
    for name in CORES:
        for options in ({}, {"mask": masks.causal}, {"mask": masks.causal, "q_start": 1}):
            expected = CORES[name](q[None], k[None], v[None], **options)
            assert_equal(
                CORES[name](q[None].expand(3, *q.shape), k, v, **options), expected.expand(3, *q.shape[:-1], 7)
            )
            one = CORES[name](q[:1], k, v, **options)
            assert_equal(one[1:], CORES[name](q[:1], k[1:], v[1:], **options), atol=1e-15)


def test_in_one_graph():
    rows, core = tensors(*draw(13)), CORES["Performer"]
    compiled = torch.compile(lambda q, k, v: core(q, k, v, mask=masks.causal), backend="aot_eager")
    assert_equal(compiled(*rows), core(*rows, mask=masks.causal), atol=1e-14)


def test_relu_leaves_out_what_is_negative():
    q, k, v = tensors(*draw(5))
    q[..., 2, :] = -1
    assert_equal(nn.FeatureAttention(relu)(q, k, v)[..., 2, :], torch.zeros(2, 4, 7))
