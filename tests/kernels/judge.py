"""Is a kernel right? Its error may be twice that of plain attention in the same precision, and 4 units of rounding.

Both errors are the largest of a tensor, against float64; the plain gradients come in the two usual forms, and the
larger error counts. What may not be seen has no effect: rows without a key are exactly 0, and so are the gradients of a
key that no query sees.
"""

import math

import torch

import rounding
from compare import assert_equal
from kernels import plain
from mha import reference

TENSORS = "q", "k", "v"
STATS = "lse", "max_logit", "entropy"


def check(call, floor):
    """Raise unless `floor.attention` (with d_lse: `attention_stats`) is right for this call, gradients too."""
    exact = evaluate(call, torch.float64)
    agree_with_the_reference(call, exact)
    low, single = evaluate(call, call.q.dtype), evaluate(call, torch.float32)
    other, found = evaluate(call, call.q.dtype, plain.backward), of_floor(call, floor)
    spared = noise(call, exact)
    assert found.keys() <= exact.keys()
    for name in found:
        fair = single if name in STATS else low
        assert name.startswith("d_") or found[name].dtype == fair[name].dtype, f"{name} is of {found[name].dtype}"
        errors = [error(x[name], exact[name]) for x in (fair, other)]
        budget = 2 * max(errors) + 4 * ulp(unit_of(name, exact), found[name].dtype) + spared.get(name, 0.0)
        assert_equal(found[name].double(), exact[name], atol=budget, label=name)
    assert_nothing_hidden_acts(call, found)


def evaluate(call, dtype, backward=None):
    """Return output, statistics and gradients (by autograd, or `backward`) of plain attention in this precision."""
    tensors = {name: getattr(call, name) for name in (*TENSORS, "bias", "sinks")}
    leaves = {name: x.detach().to(dtype).requires_grad_() for name, x in tensors.items() if x is not None}
    options = {"see": call.see(), "scale": call.scale, "softcap": call.softcap, "factors": call.factors()}
    result = plain.attend(**leaves, **options)
    if backward is None:
        return result._asdict() | gradients(result.out, result.lse, call, leaves)
    with torch.no_grad():
        return result._asdict() | backward(**leaves, **options, out=result.out, d_out=call.d_out, d_lse=call.d_lse)


def of_floor(call, floor):
    """Return what the floor makes of the call: the output, the gradients and, if they are asked for, the statistics."""
    arguments = call.arguments()
    leaves = {name: x.detach().requires_grad_() for name, x in call.tensors().items()}
    leaves |= {
        x: arguments[x].detach().requires_grad_() for x in ("bias", "sinks") if torch.is_tensor(arguments.get(x))
    }
    if call.d_lse is None:
        out = floor.attention(**arguments | leaves)
        return {"out": out} | gradients(out, None, call, leaves)
    out, stats = floor.attention_stats(**arguments | leaves)
    with torch.no_grad():
        assert_equal(floor.attention(**arguments | leaves), out, label="output without statistics")
    return {"out": out} | stats._asdict() | gradients(out, stats.lse, call, leaves)


def gradients(out, lse, call, leaves):
    """Send d_out (and d_lse) back to these leaves."""
    outputs, sent = [out], [call.d_out.to(out.dtype)]
    if call.d_lse is not None:
        outputs, sent = [out, lse], [*sent, call.d_lse.to(lse.dtype)]
    found = torch.autograd.grad(outputs, list(leaves.values()), sent)
    return {f"d_{name}": x for name, x in zip(leaves, found, strict=True)}


def error(found, exact):
    """Return max |found − exact| where exact is finite."""
    finite = exact.isfinite()
    return (found.double() - exact)[finite].abs().max().item() if finite.any() else 0.0


def ulp(largest, dtype):
    """Return the distance of two neighbours in this dtype at the largest of these values."""
    return torch.finfo(dtype).eps * 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 0.0


def noise(call, exact):
    """Return what rounding that plain attention is spared may add to each gradient.

    The errors of a sum's terms add up like steps of a random walk: eps times their Euclidean norm is over three
    standard deviations, times √n where the sum grows term by term. Kernels have Σ p dp as d_out · out, of the output as
    it is rounded, and p from a second product of q and k and from lse, in float32. In plain attention dp and Σ p dp
    cancel exactly, and p is exactly 1, where one key has all the weight; and gradients of few numbers, sums over many
    rows of an output rounded to 16 bits, say little about their error.
    """
    largest = lambda x: x[x.isfinite()].abs().max().item() if x.isfinite().any() else 0.0  # noqa: E731
    root = lambda x: largest(x) ** 0.5  # noqa: E731
    of_float32, of_out = (torch.finfo(dtype).eps for dtype in (torch.float32, call.q.dtype))
    of_delta = max(of_float32, of_out / 2)
    scale = call.q.shape[-1] ** -0.5 if call.scale is None else abs(call.scale)
    q, k, d_out = (x.detach().double() for x in (call.q, call.k, call.d_out))
    means = (d_out * exact["out"].detach()).square().sum(-1, keepdim=True)
    product = scale * root(q.square() @ plain.repeated(k, q).square().mT) * q.shape[-1] ** 0.5
    weights = of_float32 * (product + largest(exact["lse"].detach()))  # relative
    found = {
        "d_q": of_delta * root(means) * scale * largest(k),
        "d_k": of_delta * root(plain.of_groups(means, k).sum(2)) * scale * largest(q),
        "d_v": 0.0,
        "d_sinks": of_out * root(means.sum((0, 2, 3))),
    }
    if call.bias is not None:
        found["d_bias"] = of_out * root(means.sum_to_size(*call.bias.shape[:-1], 1))
    return {name: x + weights * largest(exact[name]) for name, x in found.items() if name in exact}


def unit_of(name, exact):
    """Return the largest value that rounds: of the result; for the entropy, also of the scores that it is made from."""
    names = STATS if name == "entropy" else (name,)
    values = torch.cat([exact[name].flatten() for name in names])
    return values[values.isfinite()].abs().max().item() if values.isfinite().any() else 0.0


def assert_nothing_hidden_acts(call, found):
    """Raise unless rows without a key, and keys without a row, are exactly 0 where they must be."""
    see = call.visible()
    without_key = ~see.any(-1)
    for name in ("out", "d_q"):
        assert_equal(found[name][without_key], torch.zeros_like(found[name][without_key]), label=f"{name} of no key")
    without_row = ~call.seen()
    for name in ("d_k", "d_v"):
        assert_equal(found[name][without_row], torch.zeros_like(found[name][without_row]), label=f"{name} of no row")


def agree_with_the_reference(call, exact):
    """Raise unless plain attention in float64 is `mha.reference`, up to the rounding of float64."""
    arrays = [getattr(call, name).double().numpy() for name in TENSORS]
    options = {name: _as_array(x) for name, x in (call.arguments() | {"bias": call.bias}).items()}
    options = {name: x for name, x in options.items() if name not in call.options}
    out, stats = reference.attention_stats(*arrays, **options)
    kept = 1.0 if call.dropout is None else 1 - call.dropout.p
    sizes = {"scale": call.scale, "bias": options["bias"]}
    bound = rounding.of_output(*arrays, kept=kept, **sizes)
    assert_equal(exact["out"], out, atol=bound, label="reference: out")
    for name, x in stats._asdict().items():
        assert_equal(exact[name], x, rtol=1e-12, atol=1e-12 + bound, label=f"reference: {name}")
    if call.d_lse is None:
        d_out = call.d_out.double().numpy()
        bound = rounding.of_gradients(*arrays, d_out, kept=kept, **sizes)
        for name, x in reference.attention_backward(*arrays, d_out, **options)._asdict().items():
            if x is not None:
                assert_equal(exact[f"d_{name}"], x, atol=bound, label=f"reference: d_{name}")


def _as_array(x):
    return x.detach().double().numpy() if torch.is_tensor(x) else x
