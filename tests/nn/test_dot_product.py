"""`mha.nn.attention`: the public bug log, masked rows and values, precision, memory, compilation, refusals.

Values are compared with the reference in tests/test_parity.py, derivatives in test_derivatives.py.
"""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from compare import assert_equal
from mha import masks, reference
from mha.dropout import Dropout
from mha.nn import attention, attention_stats, attention_weights

INF, NAN = math.inf, math.nan


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rows(*values, dtype=torch.float64):
    """Return a sequence of one sample and one head."""
    return torch.tensor(values, dtype=dtype)[None, None]


def shown(n_q, n_k, **options):
    """Return the weights of equal scores, through the output: the values are the unit vectors."""
    values = torch.eye(n_k, dtype=torch.float64)[None, None]
    return attention(torch.zeros(1, 1, n_q, 2).double(), torch.zeros(1, 1, n_k, 2).double(), values, **options)[0, 0]


def test_true_means_attend():
    """pytorch#170400: nn.MultiheadAttention reads the same mask the other way round."""
    assert_equal(shown(1, 2, mask=torch.tensor([[True, False]])), [[1, 0]])


def test_a_float_mask_is_refused():
    """pytorch#21518: a 0/1 float mask is added and hides nothing."""
    with pytest.raises(TypeError, match=r"mask has dtype torch.float32: expected booleans.*bias="):
        shown(3, 3, mask=torch.ones(3, 3).tril())


def test_an_empty_row_is_zero_on_every_path():
    """pytorch#41508, #103749: NaN or zero as weights are asked for or not."""
    mask = torch.tensor([[True, True, False], [False, False, False]])
    expected = [[0.5, 0.5, 0], [0, 0, 0]]
    assert_equal(shown(2, 3, mask=mask), expected)
    assert_equal(shown(2, 3, mask=mask, softcap=1.0), expected)
    assert_equal(shown(2, 3, bias=torch.zeros(2, 3).masked_fill(~mask, -INF)), expected)
    q, k = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 3, 2)
    assert_equal(attention_weights(q, k, mask=mask)[0, 0], expected)
    assert_equal(attention_stats(q, k, k, mask=mask)[1].lse[0, 0], [math.log(2), -INF], rtol=1e-6)


def test_causal_and_padding_leave_no_future():
    """transformers#27114: with a finite sentinel an empty row averages all keys, the future too."""
    mask = masks.causal & masks.dense(np.array([[False, True, True]]))
    assert_equal(shown(3, 3, mask=mask), [[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]])


def test_asking_for_more_changes_nothing():
    """keras#23038, transformers#31990: asking for weights switches the path, and the mask is lost on the way."""
    q, k, v = (draw(2, 3, 7, 5, seed=s, dtype=torch.float32) for s in range(3))
    plain = attention(q, k, v, mask=masks.causal)
    weights = attention_weights(q, k, mask=masks.causal)
    assert_equal(attention_stats(q, k, v, mask=masks.causal)[0], plain, label="the same bits")
    assert_equal(weights @ v, plain, rtol=1e-5, atol=1e-6)
    assert_equal(weights.triu(1), torch.zeros_like(weights))
    assert_equal(attention(q, k, v, mask=masks.causal, dropout=Dropout(0.0, 1)), plain)
    learned = [x.requires_grad_() for x in (q.clone(), k.clone(), v.clone())]
    assert_equal(attention_stats(*learned, mask=masks.causal)[0], attention(*learned, mask=masks.causal))


def test_the_last_query_stands_at_the_last_key():
    """pytorch#108108: torch and JAX pin the diagonal to the upper left, and a decoding step sees one key."""
    full = np.tril(np.ones((2, 5)), 3)
    assert_equal(shown(2, 5, mask=masks.causal), full / full.sum(-1, keepdims=True), rtol=1e-15)
    assert_equal(shown(5, 2, mask=masks.causal), [[0, 0], [0, 0], [0, 0], [1, 0], [0.5, 0.5]])
    assert_equal(shown(1, 5, mask=masks.causal), [[0.2] * 5], rtol=1e-15, label="flax#5591")


def test_chunks_equal_the_whole():
    """candle#3743: the second prefill chunk loses its history."""
    q, k, v = (draw(1, 2, 5, 3, seed=s) for s in range(3))
    whole = attention(q, k, v, mask=masks.causal)
    first = attention(q[..., :3, :], k[..., :3, :], v[..., :3, :], mask=masks.causal)
    assert_equal(torch.cat([first, attention(q[..., 3:, :], k, v, mask=masks.causal)], -2), whole, rtol=0, atol=1e-14)


def test_query_head_h_reads_group_h_times_g_over_heads():
    """onnx#7274, x-transformers: tiled instead of contiguous groups."""
    v = torch.arange(2.0).reshape(1, 2, 1, 1)
    for options in ({}, {"softcap": 1.0}, {"mask": torch.ones(1, 1, dtype=torch.bool)}):
        out = attention(torch.zeros(1, 4, 1, 3), torch.zeros(1, 2, 1, 3), v, **options)
        assert_equal(out.flatten(), [0, 0, 1, 1], label=str(options))


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("mask", [torch.tensor([[True, False]]), masks.lengths(np.array([1]))], ids=["bool", "lengths"])
def test_hidden_keys_may_hold_anything(mask, bad):
    """flash-attention#1745, vllm#53856: 0 · NaN."""
    for k, v in ([[1.0], [1.0]], [[1.0], [bad]]), ([[1.0], [bad]], [[1.0], [bad]]), ([[1.0], [bad]], [[1.0], [1.0]]):
        q, k, v = (rows(*x).requires_grad_() for x in ([[1.0]], k, v))
        for options in ({}, {"softcap": 3.0}, {"dropout": Dropout(1e-9, 0)}, {"sinks": torch.tensor([-1e30])}):
            out, stats = attention_stats(q, k, v, mask=mask, **options)
            assert_equal(out, rows([1.0]), rtol=1e-8, label=str(options))
            found = torch.autograd.grad(out.sum() + stats.lse.sum(), (q, k, v), retain_graph=True)
            assert all(bool(g.isfinite().all()) for g in found)
            assert_equal(found[2][0, 0, 1], [0.0])
            assert_equal(attention_weights(q, k, mask=mask), rows([1.0, 0.0]))


@pytest.mark.parametrize("create_graph", [False, True])
def test_empty_row_beside_a_loss_that_skips_it(create_graph):
    """pytorch#42323: NaN scrubbed after the softmax, the gradient still NaN."""
    q, k, v = (draw(1, 1, n, 2, seed=n).requires_grad_() for n in (2, 3, 3))
    mask = torch.tensor([[True, True, False], [False, False, False]])
    out = attention(q, k, v, mask=mask)
    d_q, d_k, d_v = torch.autograd.grad(out[..., 0, :].sum(), (q, k, v), create_graph=create_graph)
    assert_equal(d_q[0, 0, 1], [0, 0])
    for gradient in (d_k, d_v):
        assert_equal(gradient[0, 0, 2], [0, 0])


def test_unequal_lengths_raise():
    """pytorch#193728: the CPU operator reads past the end of the shorter one."""
    with pytest.raises(ValueError, match="v has length 5 and k has length 3"):
        attention(draw(1, 1, 2, 4), draw(1, 1, 3, 4), draw(1, 1, 5, 4))


@pytest.mark.parametrize(("n_q", "n_k", "batch"), [(2, 0, 1), (0, 3, 1), (0, 0, 1), (2, 3, 0)])
@pytest.mark.parametrize("mask", [None, masks.causal], ids=str)
def test_length_zero(n_q, n_k, batch, mask):
    """pytorch#192651: crashes (the fused operator kills the process), hangs, or drops the weights."""
    q, k, v = (draw(batch, 2, n, 4).requires_grad_() for n in (n_q, n_k, n_k))
    out, stats = attention_stats(q, k, v, mask=mask)
    assert_equal(out, torch.zeros(batch, 2, n_q, 4))
    assert attention_weights(q, k, mask=mask).shape == (batch, 2, n_q, n_k)
    if n_k == 0:
        assert_equal(stats.lse, torch.full((batch, 2, n_q), -INF))
    out.sum().backward()
    assert q.grad.shape == q.shape


def test_softcap_before_mask():
    """flash-attention#1025: a cap after the mask lifts −inf to a finite number."""
    options = {"mask": torch.tensor([[True, False]]), "softcap": 1.0}
    assert_equal(shown(1, 2, **options), [[1, 0]])


def test_a_sink_joins_the_maximum():
    """transformers#41026: a sink outside the stable maximum overflows or changes the scores."""
    sink = lambda x: torch.tensor([x], dtype=torch.float64)  # noqa: E731
    assert_equal(shown(1, 2, sinks=sink(0.0)), [[1 / 3, 1 / 3]], rtol=1e-15)
    assert_equal(shown(1, 2, sinks=sink(100.0)), [[math.exp(-100)] * 2], rtol=1e-12)
    q, k = torch.zeros(1, 1, 1, 2).double(), torch.zeros(1, 1, 2, 2).double()
    out, stats = attention_stats(q, k, k, sinks=sink(0.5), mask=torch.zeros(1, 2, dtype=torch.bool))
    assert_equal(out, torch.zeros(1, 1, 1, 2))
    assert_equal(stats.lse, [[[0.5]]])
    assert_equal(stats.max_logit, [[[-INF]]], label="max_logit leaves the sink out")


def test_entropy_of_one_key_is_zero_and_of_equal_keys_log_n():
    q, k = torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 7, 2)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[0, 2] = mask[1, :] = True
    entropy = attention_stats(q, k, k, mask=mask)[1].entropy[0, 0]
    assert_equal(entropy, [0, math.log(7), 0], rtol=1e-6)
    assert_equal(entropy[[0, 2]], [0, 0], label="exactly")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"softcap": 4.0}], ids=str)
def test_low_precision(dtype, options):
    """Inputs and the output are rounded to `dtype`, weights at worst too: 2 roundings of values of at most max|v|."""
    q, k, v = (draw(2, 3, 17, 8, seed=s, dtype=dtype) for s in range(3))
    out, stats = attention_stats(q, k, v, **options)
    expected, expected_stats = reference.attention_stats(*(x.double().numpy() for x in (q, k, v)), **options)
    bound = 2 * torch.finfo(dtype).eps * float(v.abs().max())
    assert out.dtype == dtype
    assert_equal(out.double(), expected, rtol=0, atol=bound)
    assert stats.lse.dtype == torch.float32
    assert_equal(stats.lse.double(), expected_stats.lse, rtol=1e-6, atol=1e-5, label="logits in float32")


def test_logits_beyond_float16():
    """ultralytics#24990: q·k overflows float16 before it is scaled."""
    q, k = torch.full((1, 1, 1, 64), 60.0).half(), torch.tensor([60.0, 30.0]).half()[:, None].expand(1, 1, 2, 64)
    v = rows([1.0], [2.0], dtype=torch.float16)
    assert_equal(attention(q, k, v), rows([1.0]))
    assert_equal(attention(q, k, v, softcap=1e6), rows([1.0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(7,), (5, 1), (5, 7), (2, 1, 5, 7), (1, 3, 1, 7)], ids=str)
@pytest.mark.parametrize("mask", [None, masks.causal], ids=str)
def test_a_bias_that_only_hides_gives_the_bits_of_the_mask(mask, shape, dtype):
    """pytorch#99012, #111276: a float32 mask beside half-precision queries fails."""
    q, k, v = (draw(2, 3, n, 4, seed=s, dtype=dtype) for s, n in enumerate((5, 7, 7)))
    see = draw(*shape, seed=3) > 0
    out = attention(q, k, v, mask=mask, bias=torch.zeros(shape).masked_fill(~see, -INF))
    full = masks.dense(see.expand(*shape[:-2], 5, 7))
    assert_equal(out, attention(q, k, v, mask=full if mask is None else mask & full), rtol=0, atol=0)


def test_a_bias_that_only_hides_has_a_gradient_where_asked():
    q, k, v = (draw(1, 2, 5, 4, seed=s, dtype=torch.bfloat16) for s in range(3))
    bias = torch.zeros(5, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(attention(q, k, v, bias=bias).sum(), bias)
    assert bool(gradient.any())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["bias", "sinks"])
def test_bias_and_sinks_of_another_dtype(name, dtype):
    q, k, v = (draw(1, 3, 5, 4, seed=s, dtype=torch.float32) for s in range(3))
    option = {name: draw(3, *(5, 5) * (name == "bias"), dtype=dtype).requires_grad_()}
    out, stats = attention_stats(q, k, v, **option)
    expected, expected_stats = reference.attention_stats(
        *(x.double().numpy() for x in (q, k, v)), **{name: option[name].detach().double().numpy()}
    )
    assert out.dtype == attention_weights(q, k, **option).dtype == torch.float32
    assert_equal(out, expected, rtol=0, atol=1e-6)
    assert_equal(stats.lse, expected_stats.lse, rtol=1e-6)
    (gradient,) = torch.autograd.grad(out.sum() + stats.lse.sum(), option[name])
    assert gradient.dtype == dtype


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, 1e-60])
@pytest.mark.parametrize("n", [1, 3, 17])
def test_causal_with_a_scale_that_is_not_positive(n, scale):
    """The fused operator hides first and scales then: −inf · −1 is +inf, and −inf · 0 is NaN."""
    q, k, v = (draw(1, 2, n, 4, seed=s, dtype=torch.float32).requires_grad_() for s in range(3))
    out = attention(q, k, v, mask=masks.causal, scale=scale)
    expected = reference.attention(*(x.detach().numpy() for x in (q, k, v)), mask=masks.causal, scale=scale)
    assert_equal(out, expected, rtol=0, atol=1e-5)
    assert all(bool(x.isfinite().all()) for x in torch.autograd.grad(out.sum(), (q, k, v)))


def test_two_heads_of_two_keys_are_no_batch():
    """A key of shape (heads, length, width) beside a query whose (batch, heads) are the same two numbers."""
    q, k, v = draw(2, 2, 7, 3), draw(2, 2, 3, seed=1), draw(2, 2, 3, seed=2)
    expected = reference.attention(*(x.numpy() for x in (q, k, v)))
    assert_equal(attention(q, k, v), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"softcap": 4.0}], ids=["fused", "formula"])
@pytest.mark.parametrize("odd_one", ["q", "k", "v"])
def test_mixed_dtypes_are_promoted(odd_one, options):
    tensors = {name: draw(1, 2, 5, 4, seed=s, dtype=torch.float32) for s, name in enumerate("qkv")}
    expected = attention(**{name: x.double() for name, x in tensors.items()}, **options)
    tensors[odd_one] = tensors[odd_one].double()
    out, stats = attention_stats(**tensors, **options)
    assert_equal(out, expected, rtol=0, atol=1e-14)
    assert stats.lse.dtype == (torch.float32 if odd_one == "v" else torch.float64)
    assert_equal(attention_weights(tensors["q"], tensors["k"], **options).sum(-1), torch.ones(1, 2, 5), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"softcap": 4.0}], ids=["fused", "formula"])
def test_autocast_leaves_the_logits_alone(options):
    q, k, v = (draw(1, 2, 5, 4, seed=s, dtype=torch.float32) for s in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, stats = attention_stats(q, k, v, **options)
        weights = attention_weights(q, k, **options)
    expected, expected_stats = attention_stats(q, k, v, **options)
    assert_equal(out, expected)
    assert_equal(stats.lse, expected_stats.lse)
    assert_equal(weights, attention_weights(q, k, **options))


def test_equals_torch_and_a_fault_is_seen():
    q, k, v = (draw(2, 6 if s == 0 else 2, 7, 5, seed=s) for s in range(3))
    see = torch.rand(2, 1, 7, 7, generator=torch.Generator().manual_seed(3)) > 0.3
    for ours, theirs in [({}, {}), ({"mask": masks.causal}, {"is_causal": True}), ({"mask": see}, {"attn_mask": see})]:
        expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **theirs)
        assert_equal(attention(q, k, v, **ours), expected, rtol=0, atol=1e-14)
    assert float((attention(q, k, v, mask=~see) - expected).abs().max()) > 0.1, "an inverted mask"


def test_stats_need_no_square_memory():
    """9001² float32 logits are 324 MB, and a gradient keeps several such arrays; here is room for half of one."""
    code = """
import re, torch
from mha import masks
from mha.nn import attention_stats
torch.set_num_threads(1)
def peak():  # ru_maxrss begins with what the parent held
    return int(re.search("VmHWM: *(.*) kB", open("/proc/self/status").read().replace("\\t", " "))[1])
def run(n):
    q = torch.randn(1, 1, n, 4, requires_grad=True)
    out, stats = attention_stats(q, q, q, mask=masks.causal)
    (out.sum() + stats.lse.sum()).backward()
run(1201)
before = peak()
run(9001)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 160_000, f"{done.stdout.strip()} kB"


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"mask": masks.causal & masks.window(2, 0)},
        {"mask": masks.lengths(np.array([3, 7])) & masks.causal},
        {"mask": masks.causal, "q_start": torch.tensor([1, 2])},
        {"softcap": 2.0, "dropout": Dropout(0.3, 5), "sinks": torch.zeros(4)},
    ],
    ids=["window", "lengths", "q_start", "formula"],
)
def test_compiles_to_one_graph(options):
    q, k, v = (draw(2, 4 if s == 0 else 2, 5 if s == 0 else 7, 3, seed=s).requires_grad_() for s in range(3))

    def call(q, k, v):
        return attention(q, k, v, **options).square().sum() + attention_weights(q, k, mask=options.get("mask")).sum()

    value = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
    assert_equal(value, call(q, k, v), rtol=1e-13)
    compiled = torch.autograd.grad(value, (q, k, v))
    for one, other in zip(compiled, torch.autograd.grad(call(q, k, v), (q, k, v)), strict=True):
        assert_equal(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("how", ["compiled", "torch.func"])
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}], ids=["fused", "formula"])
def test_padding_may_hold_anything_in_every_mode(how, options):
    tensors = [draw(2, 2, 7, 3, seed=s) for s in range(3)]
    mask = masks.lengths(torch.tensor([7, 4])) & masks.causal

    def call(q, k, v):
        return attention(q, k, v, mask=mask, **options)[1, :, :4].square().sum()

    expected = torch.autograd.grad(call(*(x.requires_grad_() for x in tensors)), tensors)
    spoiled = [x.detach().clone() for x in tensors]
    for x, bad in zip(spoiled[1:], (NAN, INF), strict=True):
        x[1, :, 4:] = bad
    if how == "torch.func":
        found = torch.func.grad(call, argnums=(0, 1, 2))(*spoiled)
    else:
        spoiled = [x.requires_grad_() for x in spoiled]
        found = torch.autograd.grad(torch.compile(call, fullgraph=True, backend="aot_eager")(*spoiled), spoiled)
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("how", ["eager", "compiled", "torch.func"])
@pytest.mark.parametrize("as_array", [False, True], ids=["lengths", "bool"])
@pytest.mark.parametrize("n", [7, 67])
def test_padding_may_hold_the_largest_numbers(n, as_array, how):
    """What lies in memory that nobody wrote is finite, and its scores are not: −inf added to +inf is NaN."""
    mask = (torch.arange(n) < n - 2).expand(n, n) if as_array else masks.lengths(torch.tensor([n - 2]))
    clean = [draw(1, 2, n, 3, seed=s).abs() + 1 for s in range(3)]
    full = [x.clone() for x in clean]
    for x in full[1:]:
        x[..., -1, 0], x[..., -2, 0] = torch.finfo(x.dtype).max, -torch.finfo(x.dtype).max  # of sum 0
    answers = []
    for tensors in clean, full:
        tensors = [x.requires_grad_() for x in tensors]
        call = lambda q, k, v: attention(q, k, v, mask=mask).square().sum()  # noqa: E731
        if how == "torch.func":
            answers.append(torch.func.grad(call, argnums=(0, 1, 2))(*tensors))
            continue
        run = torch.compile(call, fullgraph=True, backend="aot_eager") if how == "compiled" else call
        answers.append(torch.autograd.grad(run(*tensors), tensors))
    for one, other in zip(*answers, strict=True):
        assert_equal(one, other, rtol=1e-12, atol=1e-13)


GOOD = {"q": draw(2, 4, 5, 3), "k": draw(2, 2, 7, 3), "v": draw(2, 2, 7, 6)}
BAD = {
    "heads": ({"k": draw(2, 3, 7, 3), "v": draw(2, 3, 7, 6)}, ValueError, "k has 3 heads and q has 4"),
    "value heads": ({"v": draw(2, 1, 7, 6)}, ValueError, "v has 1 heads and k has 2"),
    "width": ({"k": draw(2, 2, 7, 4)}, ValueError, "k has width 4 and q has width 3"),
    "rank": ({"q": draw(5, 3)}, ValueError, r"q has shape \(5, 3\)"),
    "batch": ({"q": draw(3, 4, 5, 3)}, ValueError, "leading axes do not broadcast"),
    "integers": ({"q": torch.zeros(2, 4, 5, 3, dtype=torch.long)}, TypeError, "q has dtype torch.int64"),
    "complex": ({"q": torch.zeros(2, 4, 5, 3, dtype=torch.complex64)}, TypeError, "q has dtype torch.complex64"),
    "a NumPy array": ({"k": np.zeros((2, 2, 7, 3))}, TypeError, "k is a NumPy array: expected a torch tensor"),
    "integer mask": ({"mask": torch.ones(5, 7, dtype=torch.long)}, TypeError, "mask has dtype torch.int64"),
    "padding as mask": ({"mask": torch.ones(2, 7, dtype=torch.bool)}, ValueError, r"mask has shape \(2, 7\)"),
    "flat mask": ({"mask": torch.ones(8, 5, 7, dtype=torch.bool)}, ValueError, r"mask has shape \(8, 5, 7\)"),
    "mask of another library": ({"mask": "causal"}, TypeError, "mask is a str"),
    "lengths": ({"mask": masks.lengths([3])}, ValueError, "lengths has 1 entries and the batch has 2"),
    "bias shape": ({"bias": draw(5, 6)}, ValueError, r"bias has shape \(5, 6\)"),
    "list": ({"v": [1.0]}, TypeError, "v is a list: expected a torch tensor"),
    "sparse": ({"v": draw(2, 2, 7, 6).to_sparse()}, TypeError, r"v has layout torch.sparse_coo: .*v\.to_dense\(\)"),
    "sparse mask": ({"mask": torch.eye(5, 7).bool().to_sparse()}, TypeError, "mask is a sparse tensor"),
    "another device": ({"k": draw(2, 2, 7, 3).to("meta")}, ValueError, "k is on meta and q is on cpu"),
    "boolean bias": ({"bias": torch.ones(5, 7, dtype=torch.bool)}, TypeError, "bias has dtype torch.bool"),
    "sinks": ({"sinks": draw(2)}, ValueError, r"sinks has shape \(2,\)"),
    "softcap": ({"softcap": 0.0}, ValueError, "softcap is 0"),
    "scale": ({"scale": NAN}, ValueError, "scale is nan"),
    "dropout": ({"dropout": 0.1}, TypeError, "dropout is 0.1"),
    "q_start": ({"q_start": np.array([1, 2, 3])}, ValueError, "q_start has 3 entries and the batch has 2"),
}


@pytest.mark.parametrize(("change", "error", "words"), BAD.values(), ids=BAD)
def test_bad_calls_are_named(change, error, words):
    for function in (attention, attention_stats):
        with pytest.raises(error, match=words):
            function(**GOOD | change)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="is_causal"):
        attention(**GOOD, is_causal=True)
