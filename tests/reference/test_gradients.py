"""The backward pass by hand against torch's autograd, finite differences, and what it owes to masked rows."""

import numpy as np
import pytest
import torch

import rounding
from compare import assert_equal
from mha import masks
from mha.dropout import Dropout
from mha.reference import attention, attention_backward, softmax, softmax_backward, softmax_jacobian

B, H, G, N, M, D, E = 2, 6, 3, 5, 7, 11, 13


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def autograd(q, k, v, d_output, *, see=True, bias=None, scale=None, softcap=None, sinks=None, factors=1.0):
    """Return the gradients as torch finds them, through a formula of its own: it sums over the seen, not over −inf."""
    inputs = {"q": q, "k": k, "v": v, "bias": bias, "sinks": sinks}
    leaves = {name: torch.tensor(x, requires_grad=True) for name, x in inputs.items() if x is not None}
    q, k, v = (leaves[name] for name in "qkv")
    repeats = q.shape[1] // k.shape[1]
    dots = torch.einsum("bhid,bhjd->bhij", q, k.repeat_interleave(repeats, 1)) * (scale or q.shape[-1] ** -0.5)
    dots = softcap * torch.tanh(dots / softcap) if softcap else dots
    dots = dots + leaves["bias"] if bias is not None else dots
    exponentials = torch.exp(dots) * torch.as_tensor(see)
    total = exponentials.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + torch.exp(leaves["sinks"])[:, None, None]
    output = exponentials / total * torch.as_tensor(factors) @ v.repeat_interleave(repeats, 1)
    output.backward(torch.tensor(d_output))
    return {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.parametrize("n", [1, 2, 7])
def test_softmax_jacobian_equals_the_derivative_of_softmax(n):
    scores = draw(n, 3, n)
    expected = torch.stack(
        [torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row) for row in torch.tensor(scores)]
    )
    assert_equal(softmax_jacobian(softmax(scores)), expected, atol=1e-15 * 4)


def test_softmax_jacobian_is_symmetric_with_rows_that_sum_to_zero():
    found = softmax_jacobian(softmax(draw(0, 2, 3, 7)))
    assert_equal(found, found.swapaxes(-1, -2))
    assert_equal(found.sum(-1), np.zeros((2, 3, 7)), atol=1e-16 * 7)
    assert np.linalg.eigvalsh(found).min() > -1e-15


def test_softmax_backward_is_the_jacobian_times_the_gradient():
    weights, d_weights = softmax(draw(0, 2, 3, 7)), draw(1, 2, 3, 7)
    expected = np.einsum("...jl,...j->...l", softmax_jacobian(weights), d_weights)
    assert_equal(softmax_backward(weights, d_weights), expected, atol=1e-15)


def test_a_row_of_zeros_and_a_row_of_one_weight_pass_nothing_back():
    weights = np.array([[0.0, 0, 0], [0, 1, 0]])
    assert_equal(softmax_backward(weights, draw(0, 2, 3)), np.zeros((2, 3)))
    assert_equal(softmax_jacobian(weights), np.zeros((2, 3, 3)))


def test_softmax_backward_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"d_weights has shape \(3,\): expected \(2, 3\)"):
        softmax_backward(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match=r"weights has shape \(\): expected \(…, length\)"):
        softmax_jacobian(np.ones(()))


MASK = masks.causal & masks.lengths([5, 7])
CASES = {
    "plain": {},
    "mask": {"mask": MASK},
    "scale": {"scale": 0.37},
    "softcap": {"softcap": 0.9, "mask": MASK},
    "bias": {"bias": draw(4, H, N, M)},
    "bias of one row": {"bias": draw(4, B, 1, 1, M)},
    "sinks": {"sinks": draw(5, H), "mask": MASK},
    "dropout": {"dropout": Dropout(0.3, 11)},
    "all": {
        "mask": MASK,
        "scale": -0.4,
        "softcap": 1.7,
        "bias": draw(4, 1, N, 1),
        "sinks": draw(5, H),
        "dropout": Dropout(0.3, 7),
    },
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_attention_backward_equals_autograd(options):
    q, k, v, d_output = draw(0, B, H, N, D), draw(1, B, G, M, D), draw(2, B, G, M, E), draw(3, B, H, N, E)
    gradients = attention_backward(q, k, v, d_output, **options)
    dropout = options.get("dropout", Dropout(0.0, 0))
    plain = {name: x for name, x in options.items() if name not in ("mask", "dropout")}
    see = options["mask"].dense(N, M) if "mask" in options else True
    expected = autograd(q, k, v, d_output, see=see, factors=dropout.factors((B, H, N, M)), **plain)
    sizes = {"scale": options.get("scale"), "bias": options.get("bias"), "kept": 1 - dropout.p}
    atol = rounding.of_gradients(q, k, v, d_output, **sizes)
    assert {name for name, x in gradients._asdict().items() if x is not None} == set(expected)
    for name, gradient in expected.items():
        assert_equal(getattr(gradients, name), gradient, atol=atol, label=name)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_attention_backward_equals_finite_differences(options):
    """Central differences err by step² · (third derivative / 6) and by rounding / step: 1e-8 at step 1e-5 or so."""
    arrays = {"q": draw(0, B, H, N, D), "k": draw(1, B, G, M, D), "v": draw(2, B, G, M, E)}
    d_output = draw(3, B, H, N, E)
    options = dict(options)
    arrays |= {name: options.pop(name) for name in ("bias", "sinks") if name in options}
    gradients = attention_backward(**arrays, d_output=d_output, **options)
    step = 1e-5
    for seed, (name, x) in enumerate(arrays.items(), start=20):
        direction = draw(seed, *x.shape)
        direction /= np.linalg.norm(direction)
        ahead, behind = (attention(**arrays | {name: x + sign * step * direction}, **options) for sign in (1, -1))
        slope = ((ahead - behind) * d_output).sum() / (2 * step)
        rounding_error = rounding.of_output(*(arrays[c] for c in "qkv"), kept=0.7) * np.abs(d_output).sum() / step
        assert_equal((getattr(gradients, name) * direction).sum(), slope, atol=1e-8 + rounding_error, label=name)


def test_a_leading_axis_of_size_one_is_summed():
    q, k, v, d_output = draw(0, B, H, N, D), draw(1, 1, G, M, D), draw(2, G, M, E), draw(3, B, H, N, E)
    gradients = attention_backward(q, k, v, d_output)
    whole = attention_backward(q, k.repeat(B, 0), np.stack([v] * B), d_output)
    atol = rounding.of_gradients(q, k, v, d_output)
    assert_equal(gradients.k, whole.k.sum(0, keepdims=True), atol=atol)
    assert_equal(gradients.v, whole.v.sum(0), atol=atol)


@pytest.mark.parametrize("junk", [np.nan, np.inf])
def test_junk_in_hidden_keys_and_empty_rows_stays_out(junk):
    q, k, v, d_output = draw(0, 1, 2, 3, D), draw(1, 1, 1, 5, D), draw(2, 1, 1, 5, E), draw(3, 1, 2, 3, E)
    mask = np.ones((3, 5), bool)
    mask[1], mask[:, 4], mask[0, 2] = False, False, False
    options = {"mask": mask, "softcap": 1.3, "sinks": draw(4, 2)}
    clean = attention_backward(q, k, v, d_output, **options)
    for x in (k, v):
        x[..., 4, :] = junk
    for x in (q, d_output):
        x[..., 1, :] = junk
    dirty = attention_backward(q, k, v, d_output, **options)
    for name, gradient in clean._asdict().items():
        if gradient is not None:
            assert_equal(getattr(dirty, name), gradient, label=name)
    assert_equal(dirty.q[:, :, 1], np.zeros((1, 2, D)))
    assert_equal(dirty.k[:, :, 4], np.zeros((1, 1, D)))
    assert_equal(dirty.v[:, :, 4], np.zeros((1, 1, E)))


def test_junk_that_some_may_see_stays_with_them():
    q, k, v, d_output = draw(0, 1, 1, 3, D), draw(1, 1, 1, 5, D), draw(2, 1, 1, 5, E), draw(3, 1, 1, 3, E)
    mask = np.ones((3, 5), bool)
    mask[:2, 4] = mask[2, 0] = False
    bias = np.zeros((3, 5))
    clean = attention_backward(q, k, v, d_output, mask=mask, bias=bias)
    k[..., 4, :] = v[..., 4, :] = np.nan
    dirty = attention_backward(q, k, v, d_output, mask=mask, bias=bias)
    atol = rounding.of_gradients(q, k[..., :4, :], v[..., :4, :], d_output)
    assert_equal(dirty.q[:, :, :2], clean.q[:, :, :2], atol=atol)
    assert np.isnan(dirty.q[:, :, 2]).all()
    assert_equal(dirty.bias[~mask], np.zeros(3))
    assert_equal(dirty.k[:, :, 0], clean.k[:, :, 0], atol=atol)


@pytest.mark.parametrize("options", [{}, {"softcap": 1.3}, {"sinks": draw(4, 1)}], ids=["plain", "softcap", "sinks"])
@pytest.mark.parametrize("junk", ["q", "d_output"])
def test_junk_in_a_row_reaches_only_the_keys_that_it_sees(junk, options):
    rows = {"q": draw(0, 1, 1, 5, D), "d_output": draw(3, 1, 1, 5, E)}
    k, v = draw(1, 1, 1, 7, D), draw(2, 1, 1, 7, E)
    clean = attention_backward(**rows, k=k, v=v, mask=masks.window(1, 0), **options)
    rows[junk][..., 1, :] = np.nan  # sees the keys 2 and 3
    dirty = attention_backward(**rows, k=k, v=v, mask=masks.window(1, 0), **options)
    others = [0, 1, 4, 5, 6]
    for name in ("k", "v"):
        assert_equal(getattr(dirty, name)[:, :, others], getattr(clean, name)[:, :, others], label=name)
        assert np.isnan(getattr(dirty, name)[:, :, 2:4]).all()
    assert_equal(dirty.q[:, :, [0, 2, 3, 4]], clean.q[:, :, [0, 2, 3, 4]])


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_short_lengths(n_q, n_k):
    q, k, v, d_output = draw(0, 2, 3, n_q, D), draw(1, 2, 3, n_k, D), draw(2, 2, 3, n_k, E), draw(3, 2, 3, n_q, E)
    gradients = attention_backward(q, k, v, d_output, mask=masks.causal)
    assert [x.shape for x in gradients[:3]] == [q.shape, k.shape, v.shape]
    if n_q * n_k == 0:
        assert not any(x.any() for x in gradients[:3])


def test_d_output_has_the_shape_of_the_output():
    q, k, v = draw(0, 1, 2, 3, 5), draw(1, 1, 2, 7, 5), draw(2, 1, 2, 7, 11)
    with pytest.raises(ValueError, match=r"d_output has shape \(1, 2, 3, 5\): expected \(1, 2, 3, 11\)"):
        attention_backward(q, k, v, q)
