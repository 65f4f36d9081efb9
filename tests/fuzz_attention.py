"""Random legal calls of `mha.nn` against loops in float64, and random illegal ones, which must say what is wrong.

    python tests/fuzz_attention.py 10000 [first seed]

Every call has a seed of its own: what fails is repeated by `check_legal(seed)` or `check_illegal(seed)`.
"""

import contextlib
import math
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

import fuzz_masks
import loop_oracle
import rounding
from compare import assert_equal
from mha import masks
from mha.dropout import Dropout
from mha.nn import attention, attention_stats, attention_weights, tile_plan

LENGTHS = 0, 1, 2, 3, 5, 7, 11, 13
DTYPES = torch.float64, torch.float64, torch.float32, torch.float16, torch.bfloat16
VIEWS = (
    lambda x: x,
    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    lambda x: x.mT.contiguous().mT,
    lambda x: torch.stack([x, x + 1], dim=-1).flatten(-2)[..., ::2],
    lambda x: x.flip(-2).contiguous().flip(-2),
)


def check_legal(seed):
    """Draw one legal call and compare output, weights, statistics and gradients with the loops."""
    rng = np.random.default_rng(seed)
    case = draw_case(rng)
    expected = loop_oracle.attend(*case.arrays, case.see, case.d_out, **case.in_loops)
    bounds = bounds_of(case)
    leaves = {name: x.requires_grad_() for name, x in zip("qkv", case.tensors, strict=True)}
    leaves |= {name: case.options[name].requires_grad_() for name in ("bias", "sinks") if name in case.options}
    with case.tiling:
        out = attention(*case.tensors, **case.options)
        found = torch.autograd.grad(out, list(leaves.values()), case.view(torch.from_numpy(case.d_out).to(out.dtype)))
        with torch.no_grad():
            assert_equal(as_float64(attention(*case.tensors, **case.options)), expected.output, atol=bounds.output)
        beside, stats = attention_stats(*case.tensors, **case.options)
    assert_equal(beside, out, label="output beside the statistics")
    assert_equal(as_float64(out), expected.output, atol=bounds.output, label="output")
    for name in ("lse", "max_logit", "entropy"):
        assert_equal(as_float64(getattr(stats, name)), getattr(expected, name), atol=bounds.stats, label=name)
    options = {name: x for name, x in case.options.items() if name != "dropout"}
    weights = attention_weights(*case.tensors[:2], **options)
    assert_equal(as_float64(weights), expected.weights, atol=bounds.weights, label="weights")
    for (name, leaf), gradient in zip(leaves.items(), found, strict=True):
        exact = getattr(expected, f"d_{name}")
        exact = _sum_to(exact, leaf.shape) if name == "bias" else exact
        assert_equal(as_float64(gradient), exact, atol=bounds.gradients, label=f"gradient of {name}")


def draw_case(rng):
    """Draw sizes, tensors and options, as tensors for the package and as arrays for the loops."""
    chance = lambda p=1 / 3: rng.random() < p  # noqa: E731
    groups = int(rng.integers(1, 4))
    sizes = SimpleNamespace(batch=int(rng.integers(1, 4)), heads=groups * int(rng.integers(1, 4)))
    sizes.n_q, sizes.n_k = (int(n) for n in rng.choice(LENGTHS, 2))
    widths = rng.integers(1, 7, 2)
    if chance(0.05):  # what the short way takes
        sizes.batch, sizes.heads, groups, sizes.n_q, sizes.n_k, widths[1] = 1, 2, 2, 67, 67, widths[0]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    shapes = (sizes.heads, sizes.n_q, widths[0]), (groups, sizes.n_k, widths[0]), (groups, sizes.n_k, widths[1])
    tensors = [torch.from_numpy(rng.standard_normal((sizes.batch, *shape))).to(dtype) for shape in shapes]
    drawn = fuzz_masks.draw_mask(rng, sizes) if chance(0.75) else fuzz_masks.everything()
    q_start = None if chance(0.7) else int(rng.integers(-3, 9)) if chance(0.5) else rng.integers(-3, 9, sizes.batch)
    options = draw_options(rng, sizes, chance)
    see = drawn.see(sizes, q_start)
    _spoil(rng, tensors, see, options, sizes)
    in_loops = {name: x.double().numpy() if torch.is_tensor(x) else x for name, x in options.items()}
    if "dropout" in options:
        in_loops["factors"] = in_loops.pop("dropout").factors(see.shape)
    return SimpleNamespace(
        arrays=[as_float64(x) for x in tensors],
        tensors=[VIEWS[rng.integers(len(VIEWS))](x).detach() for x in tensors],
        options=options | _given("mask", drawn.mask) | _given("q_start", q_start),
        d_out=as_float64(torch.from_numpy(rng.standard_normal((*see.shape[:3], widths[1]))).to(dtype)),
        view=VIEWS[rng.integers(len(VIEWS))],
        **{"see": see, "in_loops": in_loops, "dtype": dtype, "tiling": _tiling(rng)},
    )


def draw_options(rng, sizes, chance):
    options = {}
    if chance():
        shape = [x if chance(0.6) else 1 for x in (sizes.batch, sizes.heads, sizes.n_q, sizes.n_k)]
        bias = rng.standard_normal(shape) + np.where(rng.random(shape) < 0.2, -math.inf, 0.0)
        options["bias"] = torch.from_numpy(bias[0] if shape[0] == 1 and chance(0.5) else bias)
    if chance():
        options["scale"] = float(rng.uniform(-1.0, 2.0))
    if chance():
        options["softcap"] = float(rng.uniform(0.5, 3.0))
    if chance():
        options["sinks"] = torch.from_numpy(rng.standard_normal(sizes.heads))
    if chance():
        options["dropout"] = Dropout(float(rng.uniform(0, 0.7)), int(rng.integers(2**31)))
    return options


def _spoil(rng, tensors, see, options, sizes):
    """Put NaN or an infinity where no query of the group looks."""
    if rng.random() < 0.5:
        return
    if "bias" in options:
        see = see & (options["bias"].numpy() > -math.inf)
    groups = tensors[1].shape[1]
    rows_of_group = sizes.heads // groups * sizes.n_q
    seen = see.reshape(sizes.batch, groups, rows_of_group, sizes.n_k).any(2)
    bad = rng.choice([math.nan, math.inf, -math.inf])
    for x in tensors[1:]:
        x[torch.from_numpy(~seen)] = float(bad)


def _tiling(rng):
    """Return a context in which sparse masks go by small tiles, or nothing changes."""
    if rng.random() < 0.5:
        return contextlib.nullcontext()
    small = {"SIZE": (int(rng.integers(1, 6)), int(rng.integers(1, 6))), "FEWEST_PAIRS": 1, "DENSEST": 1.0}
    return mock.patch.multiple(tile_plan, **small)


def bounds_of(case):
    """Return how far a correct result may lie from the exact one: float64 bounds, scaled to the dtype.

    Inputs of 16 bits are computed with in float32, but the operator rounds weights, their gradients, outputs and the
    sum Σ p dp to 16 bits: each of these four errs by eps, and Σ p = 1 in a row. A key collects the rows of its group.
    """
    q, k, v = (np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0) for x in case.arrays)
    options = {"scale": case.in_loops.get("scale"), "bias": case.in_loops.get("bias")}
    kept = 1 - case.options["dropout"].p if "dropout" in case.options else 1.0
    wide = torch.promote_types(case.dtype, torch.float32)
    factor = torch.finfo(wide).eps / torch.finfo(torch.float64).eps
    weights = factor * rounding.of_weights(q, k, **options)
    output = factor * rounding.of_output(q, k, v, kept=kept, **options)
    gradients = factor * rounding.of_gradients(q, k, v, case.d_out, kept=kept, **options)
    largest = np.abs(loop_scores(q, k, case.in_loops)).max(initial=1.0)
    bounds = SimpleNamespace(weights=weights, output=output, gradients=gradients, stats=weights * (4 + 2 * largest))
    if case.dtype != wide:
        eps = torch.finfo(case.dtype).eps
        norm = lambda x: np.linalg.norm(x, axis=-1).max(initial=0.0)  # noqa: E731
        scale = q.shape[-1] ** -0.5 if options["scale"] is None else abs(options["scale"])
        rows = q.shape[1] * q.shape[2] * q.shape[0]
        bounds.weights += eps
        bounds.output += 2 * eps * np.abs(v).max(initial=0.0) / kept
        reach = max(1.0, scale * norm(k), scale * norm(q) * rows, rows)
        bounds.gradients += 4 * eps * norm(case.d_out) * max(1.0, 2 * norm(v)) * reach / kept
    return bounds


def loop_scores(q, k, options):
    """Return the largest scores that the statistics meet, for their bound."""
    keys = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scale = q.shape[-1] ** -0.5 if options.get("scale") is None else options["scale"]
    bias = options.get("bias")
    bias = 0.0 if bias is None else np.where(np.isfinite(bias), bias, 0.0)
    return scale * q @ keys.swapaxes(-1, -2) + bias


def as_float64(x):
    return x.detach().double().numpy()


def _given(name, value):
    return {} if value is None else {name: value}


def _sum_to(x, shape):
    return torch.from_numpy(x).sum_to_size(shape).numpy()


def check_illegal(seed):
    """Draw one call with one thing wrong; it must raise and name that thing."""
    rng = np.random.default_rng(seed)
    n_q, n_k, groups, d = (int(x) for x in rng.choice([2, 3, 5, 7], 4, replace=False))
    b, h = int(rng.integers(2, 4)), groups * int(rng.integers(1, 3))
    make = lambda *shape: torch.from_numpy(rng.standard_normal(shape))  # noqa: E731
    call = {"q": make(b, h, n_q, d), "k": make(b, groups, n_k, d), "v": make(b, groups, n_k, d + 1)}
    faults = [
        *((name, call[name].to(dtype)) for name in "qkv" for dtype in (torch.int64, torch.complex64, torch.bool)),
        *((name, call[name].numpy()) for name in "qkv"),
        *((name, call[name].tolist()) for name in "qkv"),
        *((name, None) for name in "qkv"),
        *((name, call[name][0, 0]) for name in "qkv"),
        *(("k", make(b, groups, n_k, d + 1)), ("v", make(b, groups, n_k + 1, d)), ("v", make(b, groups + 1, n_k, d))),
        *(("q", make(b + 2, h, n_q, d)), ("q", make(b, h + 1, n_q, d)) if groups > 1 else ("q", make(n_q, d))),
        *(("mask", make(n_q, n_k)), ("mask", torch.ones(n_q, n_k).long()), ("mask", "causal"), ("mask", True)),
        *(("mask", torch.ones(b, n_k + 1) > 0), ("mask", torch.ones(h, n_q, n_k) > 0), ("mask", masks.window)),
        *(("mask", masks.lengths([1] * (b + 1))), ("mask", masks.causal & masks.lengths([n_k + 1] * b))),
        *(("mask", masks.per_head([masks.causal] * (h + 1))), ("mask", masks.key_padding(np.ones((b, n_k + 1), bool)))),
        *(("bias", make(n_q, n_k) > 0), ("bias", make(n_q + 1, n_k + 1)), ("bias", make(n_q, n_k).numpy())),
        *(("bias", 1.0), ("sinks", make(h + 1)), ("sinks", torch.ones(h).long()), ("sinks", 0.0)),
        *(("scale", math.nan), ("scale", math.inf), ("scale", "x"), ("scale", True), ("scale", make(1))),
        *(("softcap", 0.0), ("softcap", -1.0), ("softcap", math.nan), ("softcap", "x")),
        *(("q_start", 1.5), ("q_start", [0] * (b + 1)), ("q_start", True), ("q_start", 2**70)),
        *(("dropout", 0.1), ("dropout", "x"), ("is_causal", True), ("attn_mask", make(n_q, n_k)), ("dropout_p", 0.1)),
        *(("key_padding_mask", make(b, n_k) > 0), ("enable_gqa", True), ("window_size", (3, 0)), ("nonsense", 1)),
    ]
    name, value = faults[rng.integers(len(faults))]
    function = (attention, attention_stats)[rng.integers(2)]
    try:
        function(**call | {name: value})
    except (TypeError, ValueError) as refusal:
        if name not in str(refusal):
            raise AssertionError(f"seed {seed}: the message about {name} does not name it: {refusal}") from refusal
        return
    raise AssertionError(f"seed {seed}: {name} = {value!r} was taken")


def main(number, first):
    failed = []
    for seed in range(first, first + number):
        try:
            check_legal(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error).strip()[:600]}", flush=True)
    for seed in range(first, first + 200):
        check_illegal(seed)
    print(f"{number} legal calls from seed {first}, failed: {failed or 'none'}; 200 illegal calls were refused by name")
    return bool(failed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
