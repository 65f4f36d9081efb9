"""Is a kernel right? Its error may be twice that of plain attention in the same precision, and 4 units of rounding.

Both errors are measured against float64. Nothing that may not be seen has any effect: rows without a key are exactly
0, and so are the gradients of a key that no query sees.
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
    found = of_floor(call, floor)
    assert found.keys() <= exact.keys()
    for name in found:
        fair = single if name in STATS else low
        assert name.startswith("d_") or found[name].dtype == fair[name].dtype, f"{name} is of {found[name].dtype}"
        assert_within_budget(found[name], exact[name], fair[name], unit=unit_of(name, exact), label=name)
    assert_nothing_hidden_acts(call, found)


def evaluate(call, dtype):
    """Return the output, the statistics and all gradients of plain attention in this precision."""
    tensors = {name: getattr(call, name) for name in (*TENSORS, "bias", "sinks")}
    leaves = {name: x.detach().to(dtype).requires_grad_() for name, x in tensors.items() if x is not None}
    options = {"see": call.see(), "scale": call.scale, "softcap": call.softcap, "factors": call.factors()}
    result = plain.attend(**leaves, **options)
    return result._asdict() | gradients(result.out, result.lse, call, leaves)


def of_floor(call, floor):
    """Return what the floor makes of the call: the output, the gradients and, if they are asked for, the statistics."""
    arguments = call.arguments()
    leaves = {name: getattr(call, name).detach().requires_grad_() for name in TENSORS}
    leaves |= {
        x: arguments[x].detach().requires_grad_() for x in ("bias", "sinks") if torch.is_tensor(arguments.get(x))
    }
    if call.d_lse is None:
        out = floor.attention(**arguments | leaves)
        return {"out": out} | gradients(out, None, call, leaves)
    out, stats = floor.attention_stats(**arguments | leaves)
    with torch.no_grad():
        assert_equal(floor.attention(call.q, call.k, call.v, **arguments), out, label="output without statistics")
    return {"out": out} | stats._asdict() | gradients(out, stats.lse, call, leaves)


def gradients(out, lse, call, leaves):
    """Send d_out (and d_lse) back to these leaves."""
    outputs, sent = [out], [call.d_out.to(out.dtype)]
    if call.d_lse is not None:
        outputs, sent = [out, lse], [*sent, call.d_lse.to(lse.dtype)]
    found = torch.autograd.grad(outputs, list(leaves.values()), sent)
    return {f"d_{name}": x for name, x in zip(leaves, found, strict=True)}


def assert_within_budget(found, exact, fair, *, unit, label):
    """Raise unless |found − exact| ≤ 2 max |fair − exact| + 4 ulp, and infinities lie where they should."""
    assert found.shape == exact.shape, f"{label}: shape {tuple(found.shape)} is not {tuple(exact.shape)}"
    finite = exact.isfinite()
    error = (fair.double() - exact)[finite].abs().max().item() if finite.any() else 0.0
    assert_equal(found.double(), exact, atol=2 * error + 4 * ulp(unit, found.dtype), label=label)


def ulp(largest, dtype):
    """Return the distance of two neighbours in this dtype at the largest of these values."""
    return torch.finfo(dtype).eps * 2.0 ** math.floor(math.log2(largest)) if largest > 0 else 0.0


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
    heads, groups = call.q.shape[1], call.k.shape[1]
    without_row = ~see.any(2).unflatten(1, (groups, heads // groups)).any(2)
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
