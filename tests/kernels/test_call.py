"""`mha.kernels.attention` as a call: leading axes, strides, what it refuses and what it answers."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import mha
from compare import assert_equal
from mha import kernels, masks, nn, reference
from mha.kernels import dot_product
from mha.kernels.dot_product.operators import kernel_forward
from mha.options import OURS

RNG = np.random.default_rng(11)
CLOSE = {"rtol": 0.0, "atol": 2.0**-24 * 2 * (13 + 17 + 8) * 8}  # as in test_parity, for numbers of size 8 at most


def draw(*shape, dtype=np.float32):
    return torch.from_numpy(RNG.standard_normal(shape).astype(dtype))


def tensors(q_batch=(2,), k_batch=(2,), v_batch=(2,), n_q=13, n_k=17):
    return draw(*q_batch, 2, n_q, 5), draw(*k_batch, 1, n_k, 5), draw(*v_batch, 1, n_k, 3)


def compare(q, k, v, **options):
    plain = {name: x.double().numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    expected, expected_stats = reference.attention_stats(*(x.double().numpy() for x in (q, k, v)), **plain)
    out, stats = kernels.attention_stats(q, k, v, **options)
    assert_equal(out, expected, **CLOSE)
    for name in stats._fields:
        assert_equal(getattr(stats, name), getattr(expected_stats, name), **CLOSE, label=name)
    assert_equal(kernels.attention(q, k, v, **options), out)
    assert out.dtype == q.dtype
    assert stats.lse.dtype == torch.float32


BATCHES = [((), (), ()), ((2,), (1,), ()), ((2, 1, 2), (1, 2), (2, 1, 1)), ((0,), (1,), (0,))]


@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_any_number_of_leading_axes_broadcasts(batches):
    q, k, v = tensors(*batches)
    compare(q, k, v, mask=masks.causal)


def test_masks_and_biases_go_with_the_leading_axes():
    q, k, v = tensors((2, 1), (3,), (1, 3), n_q=5, n_k=7)
    compare(q, k, v, mask=masks.lengths([7, 5, 0, 1, 2, 3]) & masks.causal)
    for shape in [(7,), (2, 1, 1), (3, 1, 5, 7), (2, 1, 2, 1, 7)]:
        compare(q, k, v, bias=draw(*shape), sinks=draw(2))


def test_no_copy_is_made_where_a_view_serves(monkeypatch):
    seen = []
    monkeypatch.setattr(dot_product, "kernel_forward", lambda *given: seen.append(given[:3]) or kernel_forward(*given))
    fused = draw(2, 13, 3, 2, 5).movedim(2, 0).transpose(2, 3)  # q, k, v of one projection
    kernels.attention(*fused)
    assert [x.data_ptr() for x in seen.pop()] == [x.data_ptr() for x in fused]
    given = draw(3, 2, 2, 13, 5), draw(2, 17, 5), draw(1, 1, 2, 17, 5)
    kernels.attention(*given)
    assert [x.data_ptr() for x in seen.pop()] == [x.data_ptr() for x in given]


def test_the_last_axis_may_have_any_stride():
    q, k, v = (x.mT.contiguous().mT for x in tensors())
    compare(q, k, v)


@pytest.mark.parametrize(
    ("mask", "q_start"), [(masks.dilated(2**30, 2**30, 3), None), (masks.strided(3), 20 - 2**31)], ids=str
)
def test_no_position_or_distance_leaves_32_bits(mask, q_start):
    compare(*tensors(n_k=41), mask=mask, q_start=q_start)


@pytest.mark.parametrize("sinks", [draw(4)[::2], draw(1).expand(2)], ids=["every other", "one for all"])
def test_the_sinks_may_have_any_stride(sinks):
    q, k, v = tensors()
    compare(q, k, v, sinks=sinks)
    leaf = sinks.detach().requires_grad_()
    (found,) = torch.autograd.grad(kernels.attention(q, k, v, sinks=leaf).square().sum(), leaf)
    plain = sinks.clone().requires_grad_()
    (expected,) = torch.autograd.grad(nn.attention(q, k, v, sinks=plain).square().sum(), plain)
    assert_equal(found, expected, **CLOSE)


@pytest.mark.parametrize("name", OURS)
def test_options_of_other_libraries_are_answered(name):
    q, k, v = tensors()
    for function in (kernels.attention, kernels.attention_stats):
        with pytest.raises(TypeError, match=f"has no option {name}: ") as refusal:
            function(q, k, v, **{name: True})
        assert OURS[name] in str(refusal.value)


def test_what_kernels_lack_is_refused_by_name():
    q, k, v = tensors()
    wide = draw(2, 2, 3, 257)
    calls = [
        (TypeError, "q has dtype torch.float64: kernels take", (q.double(), k.double(), v.double()), {}),
        (TypeError, "k has dtype torch.float16 and q has dtype torch.float32: expected one", (q, k.half(), v), {}),
        (TypeError, "bias has dtype torch.float64", (q, k, v), {"bias": draw(13, 17, dtype=np.float64)}),
        (ValueError, "q has width 257: kernels take up to 256", (wide, wide, wide), {}),
        (ValueError, "v has width 257: kernels take up to 256", (wide[..., :8], wide[..., :8], wide), {}),
        (ValueError, "precision is 'tf32': expected 'ieee' or 'tf32x3'", (q, k, v), {"precision": "tf32"}),
        (TypeError, "q is a NumPy array: expected a torch tensor; mha.reference", (q.numpy(), k, v), {}),
        (TypeError, "k is a list: expected a torch tensor", (q, k.tolist(), v), {}),
        (TypeError, "bias has layout torch.sparse_coo", (q, k, v), {"bias": draw(13, 17).to_sparse()}),
        (ValueError, "k is on meta and q is on cpu: expected one device", (q, k.to("meta"), v), {}),
        (ValueError, "q is on meta: expected CUDA tensors", [x.to("meta") for x in (q, k, v)], {}),
        (ValueError, "k has length 17|v has length 16", (q, k, v[..., 1:, :]), {}),
        (TypeError, "mask has dtype", (q, k, v), {"mask": draw(13, 17)}),
    ]
    for kind, message, given, options in calls:
        with pytest.raises(kind, match=message.replace("(", r"\(")):
            kernels.attention(*given, **options)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # of torch itself
def test_derivatives_beyond_the_first_are_refused_by_name():
    q, k, v = tensors()
    with forward_ad.dual_level(), pytest.raises(ValueError, match="has no forward mode"):
        kernels.attention(forward_ad.make_dual(q, q), k, v)
    with pytest.raises(ValueError, match="serves no transform"):
        torch.func.vmap(kernels.attention)(q, k, v)


def test_the_weights_are_elsewhere():
    with pytest.raises(AttributeError, match=r"no attribute 'attention_weights': .* mha.nn.attention_weights"):
        kernels.attention_weights  # noqa: B018
    assert mha.kernels is kernels
    assert set(kernels.__all__) <= set(dir(kernels))


def test_a_layer_takes_the_kernel_as_its_core():
    torch.manual_seed(3)
    layer = nn.MultiHeadAttention(8, 2, num_kv_heads=1, position=nn.Rotary(), sinks=True, core=kernels.attention)
    plain = nn.MultiHeadAttention(8, 2, num_kv_heads=1, position=nn.Rotary(), sinks=True)
    plain.load_state_dict(layer.state_dict())
    x, recent = draw(2, 13, 8), masks.causal & masks.window(4, 0)
    assert_equal(layer(x, mask=recent), plain(x, mask=recent), rtol=0.0, atol=1e-5)


def test_loading_costs_nothing_before_a_name_is_used():
    program = (
        "import sys, mha.kernels; assert not {'torch', 'triton'} & sys.modules.keys(); "
        "mha.kernels.attention; assert 'triton' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONWARNINGS": "error"})
