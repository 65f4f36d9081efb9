"""Bugs that users reported about attention kernels elsewhere: each is a test here, named after its reports.

What an interpreter cannot show is shown elsewhere or on a device:

- shared memory that no RTX 4090 or T4 has (pytorch#133254, attention-gym#14, pytorch#198224, vllm#39018), tiles and
  versions of Triton that do not compile (Dao-AILab#221, #234, #239), bfloat16 on a T4 (SageAttention#63, unsloth#501,
  Zonos#6), products of float32 that are TF32 in the machine code (triton#5895): tests/compiled
- results that change with the number of warps (fla#945, #1228, ROCm/triton#953, Dao-AILab#359), errors that grow up to
  n = 17776 (alexzhang13/flashattention2-custom-mask#18): benchmarks/gpu_attention.py, on a device
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from triton.runtime import interpreter

from kernels.calls import Call, normal
from kernels.judge import check
from mha import kernels, masks
from mha.kernels.dot_product import problem
from mha.kernels.tile_sizes import TileSize, tile_size

FORWARD = tile_size("forward", 80, 64)  # of the architecture that the interpreter stands for


@pytest.fixture
def rng():
    return np.random.default_rng(17)


def draw(rng, n_q, n_k, *, batch=1, heads=1, groups=1, width=16, value_width=None, dtype=torch.float16, **options):
    value_width = width if value_width is None else value_width
    q, d_out = (normal(rng, batch, heads, n_q, x).to(dtype) for x in (width, value_width))
    k, v = (normal(rng, batch, groups, n_k, x).to(dtype) for x in (width, value_width))
    return Call(q, k, v, d_out, **options)


def guarded(x):
    """Return x as a view into NaN: before, behind and beside every row of each head."""
    *leading, n, width = x.shape
    memory = x.new_full((*leading, n + 8, width + 8), math.nan)
    return memory[..., 4 : n + 4, : x.shape[-1]].copy_(x)


@pytest.mark.parametrize("width", [8, 16, 24, 32, 48, 56, 72, 80, 88, 112, 120, 128, 160, 192, 224, 256])
def test_triton_621_1965_every_width(rng, width):
    check(draw(rng, 5, 17, width=width), kernels)


@pytest.mark.parametrize("width", [30, 63, 96, 100])
def test_sglang_1159_flash_window_attention_4_66ring_12_widths_that_are_no_power_of_two(rng, width):
    check(draw(rng, 17, 33, heads=2, groups=1, width=width, mask=masks.causal), kernels)


@pytest.mark.parametrize("n_q", [FORWARD.bm - 1, FORWARD.bm, FORWARD.bm + 1])
@pytest.mark.parametrize("n_k", [FORWARD.bn - 1, FORWARD.bn, FORWARD.bn + 1])
def test_triton_2626_jax_27224_flash_attn_triton_4_lengths_about_a_tile_between_nan(rng, n_q, n_k):
    call = draw(rng, n_q, n_k, width=40, value_width=24)
    call.q, call.k, call.v, call.d_out = map(guarded, (call.q, call.k, call.v, call.d_out))
    check(call, kernels)


@pytest.mark.parametrize("n_q", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17])
def test_triton_kernels_6_fla_88_short_sequences(rng, n_q):
    check(draw(rng, n_q, n_q, heads=2, groups=2, mask=masks.causal), kernels)


@pytest.mark.parametrize(("n_q", "n_k"), [(3, 70), (70, 3), (1, 65), (65, 1), (129, 67), (67, 129)])
def test_dao_ailab_282_402_1778_cutlass_2336_causal_with_unequal_lengths(rng, n_q, n_k):
    check(draw(rng, n_q, n_k, mask=masks.causal, dtype=torch.float32), kernels)


@pytest.mark.parametrize("mask", [None, masks.causal], ids=["all", "causal"])
@pytest.mark.parametrize("n", [65, 128])
def test_triton_4541_5660_7216_gradients_with_and_without_causal(rng, mask, n):
    check(draw(rng, n, n, heads=2, groups=2, width=32, mask=mask), kernels)


@pytest.mark.parametrize("layout", ["ones", "one number", "one row", "positions first", "width first"])
def test_dao_ailab_355_aotriton_236_rocm_122_transformer_engine_623_strides_of_d_out(rng, layout):
    call = draw(rng, 33, 17, batch=2, heads=2, width=24)
    d_out = call.d_out
    call.d_out = {
        "ones": torch.ones((), dtype=d_out.dtype).expand_as(d_out),  # of out.sum().backward()
        "one number": d_out[..., :1].expand_as(d_out),
        "one row": d_out[:, :, :1].expand_as(d_out),
        "positions first": d_out.transpose(1, 2).contiguous().transpose(1, 2),
        "width first": d_out.mT.contiguous().mT,
    }[layout]
    check(call, kernels)


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (6, 3), (6, 1), (4, 4), (5, 1)])
@pytest.mark.parametrize(("width", "value_width"), [(16, 40), (40, 16)])
def test_native_sparse_attention_27_groups_and_two_widths(rng, heads, groups, width, value_width):
    check(draw(rng, 17, 19, heads=heads, groups=groups, width=width, value_width=value_width), kernels)


@pytest.mark.parametrize("axis", ["sample", "head", "row"])
@pytest.mark.parametrize("far", ["q", "k", "v", "d_out"])
def test_sglang_20389_sage_attention_386_fla_1080_mamba_1015_offsets_beyond_32_bits(rng, far, axis):
    call = draw(rng, 34, 33, batch=2, heads=2, groups=2)
    setattr(call, far, far_apart(getattr(call, far), axis))
    check(call, kernels)


def far_apart(x, axis):
    """Return x, its last sample, head or row 2³¹ elements behind the first: memory that is reserved, hardly touched."""
    place = ("sample", "head", "row").index(axis)
    steps = list(x.contiguous().stride())
    steps[place] = -(-(2**31) // (x.shape[place] - 1))
    reach = 1 + sum((size - 1) * step for size, step in zip(x.shape, steps, strict=True))
    memory = torch.from_numpy(np.empty(reach, np.float16))  # torch.empty is filled with NaN here
    return memory.as_strided(x.shape, steps).copy_(x)


def test_triton_docs_tutorials_6_triton_5895_products_of_float32_are_asked_for_exactly(rng, monkeypatch):
    asked, dot = [], interpreter.InterpreterBuilder.create_dot

    def recorded(self, a, b, d, precision, *rest):
        asked.append(precision.name)
        return dot(self, a, b, d, precision, *rest)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", recorded)
    check(draw(rng, 5, 7, dtype=torch.float32), kernels)
    assert len(asked) >= 2 + 3 + 4  # forward, dq, dk and dv
    assert set(asked) == {"IEEE"}


@pytest.mark.parametrize("first", [1, 64, 70, 129])
@pytest.mark.parametrize("stats", [False, True])
def test_pytorch_41508_triton_1273_flag_attention_25_rows_and_first_tiles_that_are_hidden(rng, first, stats):
    padded_on_the_left = masks.key_padding(np.arange(130)[None] >= np.array([[0], [first]]))
    call = draw(rng, 130, 130, batch=2, mask=padded_on_the_left & masks.window(3, 0))
    call.d_lse = normal(rng, 2, 1, 130).float() if stats else None
    check(call, kernels)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_vllm_56578_softcap_of_logits_of_ten_thousand(rng, dtype):
    call = draw(rng, 17, 33, dtype=dtype, softcap=30.0, scale=1.0)
    first = call.q[:, :, 0]
    call.k[:, :, 0] = first * (1e4 / first.square().sum())  # the logit of the first query and key
    call.k[:, :, 1] = -call.k[:, :, 0]
    check(call, kernels)


ZERO_LENGTHS = {
    "a sample without keys": {"n_q": 5, "n_k": 70, "mask": masks.lengths([0, 70])},
    "no sample has keys": {"n_q": 5, "n_k": 70, "mask": masks.lengths([0, 0])},
    "empty documents": {"n_q": 9, "n_k": 9, "mask": masks.segments([0, 0, 0, 2, 2, 2, 2, 5, 5]) & masks.causal},
    "documents that differ": {"n_q": 3, "n_k": 4, "mask": masks.segments([0, 1, 1], [1, 1, 2, 2])},
    "no queries": {"n_q": 0, "n_k": 5},
    "no keys": {"n_q": 5, "n_k": 0},
    "nothing": {"n_q": 0, "n_k": 0, "mask": masks.causal},
}


@pytest.mark.parametrize("sizes", ZERO_LENGTHS.values(), ids=list(ZERO_LENGTHS))
def test_dao_ailab_1537_2568_fla_103_vllm_57094_sequences_of_no_length(rng, sizes):
    check(draw(rng, batch=2, **sizes), kernels)


def test_dao_ailab_41_fla_892_nothing_is_left_unwritten(rng):
    call = draw(rng, 131, 131, heads=2, groups=2, mask=masks.window(1, 0) & masks.lengths([3]), dtype=torch.float32)
    q, k, v = (x.requires_grad_() for x in (call.q, call.k, call.v))
    out, stats = kernels.attention_stats(q, k, v, mask=call.mask)
    for x in (out, *stats, *torch.autograd.grad(out, (q, k, v), call.d_out)):
        assert not x.isnan().any()


@pytest.mark.parametrize(("bm", "bn"), [(16, 16), (16, 128), (128, 16), (32, 64)])
def test_dao_ailab_221_234_239_results_do_not_hang_on_the_tile(rng, monkeypatch, bm, bn):
    monkeypatch.setattr(problem, "tile_size", lambda *_, **__: TileSize(bm, bn, 4, 1))
    check(draw(rng, 33, 47, mask=masks.causal, softcap=2.0), kernels)


def test_flashattention2_custom_mask_18_many_keys(rng):
    check(draw(rng, 3, 1021), kernels)


def test_triton_6005_bfloat16_forward_and_backward(rng):
    check(draw(rng, 37, 53, heads=4, groups=2, width=32, dtype=torch.bfloat16, mask=masks.causal), kernels)


def test_pytorch_124601_inside_a_compiled_function(rng):
    call = draw(rng, 17, 19, heads=2)
    compiled = torch.compile(kernels.attention, fullgraph=True, backend="aot_eager")
    check(call, SimpleNamespace(attention=compiled))
