"""The sections of gpu_attention.py: each is a generator of rows. In the interpreter all sizes are tiny."""

import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from gpu_cases import MASKS, Case, compile_all, with_few_samples
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton import testing

from mha import kernels
from mha.kernels import runtime, tile_sizes
from mha.kernels.tile_sizes import TileSize

sys.path.append(str(Path(__file__).parents[1] / "tests/kernels"))
import plain

TINY = runtime.interpreted()
DEVICE = torch.device("cpu" if TINY else "cuda")
ARCHITECTURE = runtime.architecture(DEVICE)
LOW = torch.bfloat16 if ARCHITECTURE >= 80 else torch.float16
WIDTHS = (16,) if TINY else (64, 128, 256)
LENGTHS = (33,) if TINY else (512, 1024, 2048, 4096, 8192, 16384)
TOKENS, MODEL = (33, 32) if TINY else (16384, 2048)  # b · n and h · d, as papers on FlashAttention have them
RIVALS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
CANDIDATES = {
    "forward": [(128, 128, 8, 2), (128, 64, 8, 2), (128, 64, 8, 3), (128, 64, 4, 2), (128, 32, 4, 3), (64, 64, 4, 2),
                (64, 64, 4, 3), (64, 128, 4, 2), (128, 128, 8, 3), (64, 32, 4, 3), (256, 64, 8, 2), (128, 32, 8, 2)],
    "dkdv": [(32, 64, 8, 2), (64, 64, 8, 2), (64, 64, 4, 1), (64, 128, 8, 2), (32, 128, 8, 2), (32, 64, 4, 2),
             (64, 64, 8, 1), (32, 32, 4, 2), (64, 128, 8, 1), (32, 128, 4, 1)],
    "dq": [(128, 64, 8, 2), (128, 32, 8, 2), (64, 64, 8, 2), (64, 64, 4, 1), (64, 64, 4, 2), (64, 128, 8, 1),
           (128, 64, 8, 1), (128, 32, 4, 2), (64, 32, 4, 2)],
}  # fmt: skip


def milliseconds(f):
    """Return the median and the spread (20th and 80th percentile) of a call; the cache is emptied between calls."""
    if TINY:
        start = time.perf_counter()
        f()
        return {"ms": [1e3 * (time.perf_counter() - start)] * 3}
    return {"ms": [round(x, 5) for x in testing.do_bench(f, warmup=20, rep=80, quantiles=(0.5, 0.2, 0.8))]}


def flops(case, *, backward=False):
    """Return what a forward (2 products a visible pair) or a backward pass (5) has to compute."""
    mask = MASKS[case.mask](case.n_k)
    pairs = case.n_q * case.n_k if mask is None else mask.pairs(case.n_q, case.n_k)
    return case.b * case.h * pairs * 2 * case.d * (5 if backward else 2)


def rate(case, times, *, backward=False):
    return times | {"tflops": round(flops(case, backward=backward) / times["ms"][0] / 1e9, 1)}


def usual(n, d, mask="full", **more):
    """Return the case of n tokens a sample; together always as many tokens and numbers a token."""
    h = max(MODEL // d, 1)
    sizes = {"b": max(TOKENS // n, 1), "h": h, "g": h, "n_q": n, "n_k": n, "d": d, "e": d}
    return Case(**{**sizes, "mask": mask, "dtype": LOW, **more})


def ceilings():
    n = 64 if TINY else 8192
    a, b = (torch.randn(n, n, device=DEVICE, dtype=LOW) for _ in range(2))
    times = milliseconds(lambda: a @ b)
    yield {"what": "product", "n": n} | times | {"tflops": round(2 * n**3 / times["ms"][0] / 1e9, 1)}
    x = torch.randn(2**16 if TINY else 2**28, device=DEVICE)
    y = torch.empty_like(x)
    times = milliseconds(lambda: y.copy_(x))
    yield {"what": "copy"} | times | {"gb_per_s": round(2 * x.nbytes / times["ms"][0] / 1e6, 1)}


def sweep_cases():
    base = [usual(LENGTHS[-1] if TINY else 4096, d, "causal", gradient=False) for d in WIDTHS[:2]]
    sizes = {"forward": [(32, 32, 4, 1)]} if TINY else CANDIDATES
    return [
        replace(case, function="forward" if name == "forward" else "backward", sizes=((name, TileSize(*size)),))
        for case in base
        for name, choices in sizes.items()
        for size in choices
    ]


def sweep():
    """Time the tiles of each kernel; a backward row is that of both kernels, of which one has other tiles."""
    best = {}
    for case, assembled in zip(sweep_cases(), compiled(sweep_cases()), strict=True):
        ((name, size),) = case.sizes
        row = {"kernel": name, "d": case.d, "size": size} | {"assembler": assembled}
        if assembled is None or "error" not in assembled[0]:
            back = case.function == "backward"
            row |= attempt(lambda case=case, back=back: rate(case, milliseconds(case.call(DEVICE)), backward=back))
        if "ms" in row and row["ms"][0] < best.get((name, case.d), (float("inf"),))[0]:
            best[name, case.d] = row["ms"][0], size
        yield row
    for (name, d), (_, size) in best.items():
        yield {"kernel": name, "d": d, "winner": size, "table": tile_sizes.tile_size(name, ARCHITECTURE, d)}
        nearest = max(a for a in tile_sizes.TABLE[name] if a <= ARCHITECTURE)
        tile_sizes.TABLE[name][ARCHITECTURE] = tile_sizes.TABLE[name][nearest] | {d: size}


def grid():
    """Return the cases to check: each option, alone and together, on several widths and lengths."""
    if TINY:
        return [Case(b=1, h=2, g=1, n_q=17, n_k=33, d=16, e=16, mask="causal", sinks=True)]
    cases = [Case(d=d, e=d, mask=mask) for d in (16, 40, 64, 72, 96, 128, 256) for mask in ("full", "causal")]
    cases += [
        Case(n_q=n_q, n_k=n_k, mask="causal") for n_q, n_k in ((1, 1), (1, 517), (129, 255), (517, 301), (1000, 63))
    ]
    cases += [Case(mask=mask, h=6, g=2) for mask in MASKS]
    cases += [Case(**option) for option in ({"bias": True}, {"sinks": True}, {"softcap": 2.0}, {"dropout": 0.2})]
    cases += [Case(h=6, g=2, e=40, mask="bigbird", bias=True, sinks=True, softcap=2.0, dropout=0.2)]
    cases += [Case(dtype=torch.float32, mask="causal", precision=how) for how in ("ieee", "tf32x3")]
    low = (torch.float16, torch.bfloat16) if ARCHITECTURE >= 80 else (torch.float16,)
    return [replace(c, dtype=t) for c in cases for t in ((c.dtype,) if c.dtype == torch.float32 else low)]


def correctness():
    """Compare output and gradients with float64; an error may be twice that of plain attention, and 4 ulp."""
    cases = grid()
    compiled(cases)
    for case in cases:
        yield case.label() | attempt(lambda case=case: judged(case))


def judged(case):
    call = case.call(DEVICE)
    tensors = {name: x for name, x in call.keywords.items() if torch.is_tensor(x)}
    out = call()
    d_out = torch.randn_like(out)
    found = [out, *torch.autograd.grad(out, list(tensors.values()), d_out)]
    exact, low = (in_plain_torch(case, tensors, d_out, dtype) for dtype in (torch.float64, case.dtype))
    return verdict(("out", *tensors), found, exact, low)


def verdict(names, found, exact, low):
    """Compare with float64; an error may be twice that of plain attention in the same precision, and 4 ulp."""
    errors = {}
    for name, x, truth, fair in zip(names, found, exact, low, strict=True):
        unit = torch.finfo(fair.dtype).eps * 2.0 ** truth.abs().max().clamp(min=1e-30).log2().floor().item()
        error, plain_error = ((y.double() - truth).abs().max().item() for y in (x, fair))
        errors[name] = {"error": error, "budget": 2 * plain_error + 4 * unit}
    return {"ok": all(x["error"] <= x["budget"] for x in errors.values()), "errors": errors}


def in_plain_torch(case, tensors, d_out, dtype):
    leaves = {name: x.detach().to(dtype).requires_grad_() for name, x in tensors.items()}
    options, shape = case.options(), (case.b, case.h, case.n_q, case.n_k)
    mask, dropout = options.pop("mask", None), options.pop("dropout", None)
    dense = torch.ones(1, 1, dtype=torch.bool) if mask is None else torch.as_tensor(mask.dense(case.n_q, case.n_k))
    kept = None if dropout is None else torch.from_numpy(dropout.factors(shape)).to(DEVICE)
    out = plain.attend(**leaves, **options, see=dense.to(DEVICE).expand(shape), factors=kept).out
    return [out.detach(), *torch.autograd.grad(out, list(leaves.values()), d_out.to(dtype))]


def repeats():
    """Run one call again and again: output and gradients must keep their bits."""
    case = grid()[-1] if TINY else Case(h=6, g=2, n_q=1000, n_k=1000, mask="causal", dtype=LOW)
    call, back = case.call(DEVICE), case.gradients(DEVICE)
    first = [call(), *back()]
    times = 2 if TINY else 50
    same = all(bool((x == y).all()) for _ in range(times) for x, y in zip(first, [call(), *back()], strict=True))
    yield case.label() | {"times": times, "same_bits": same}


def lengths():
    """Time forward and backward over widths and lengths, beside torch's own kernels."""
    cases = [usual(n, d, mask) for d in WIDTHS for n in reversed(LENGTHS) for mask in ("full", "causal")]
    compiled([case for case in cases if case.n_q in (LENGTHS[0], LENGTHS[-1])])  # their kernels serve all lengths
    for case in cases:
        yield case.label() | timed("mha", case)
        names = RIVALS if case.n_q in (2048, 16384) else ("flash",)
        for name in () if TINY else names:
            yield case.label() | timed(name, case)


def shapes():
    """Time what the kernels have beyond plain attention: groups, and masks whose hidden tiles cost nothing."""
    n, d = LENGTHS[-1], WIDTHS[min(1, len(WIDTHS) - 1)]
    cases = [usual(n, d, mask, gradient=False) for mask in ("full", "causal", "window", "bigbird")]
    cases += [replace(cases[1], g=max(cases[1].h // 4, 1)), replace(cases[1], softcap=30.0)]
    passes = [replace(case, function=name) for case in cases for name in ("forward", "backward")]
    compiled(passes)
    for case in passes:
        back, share = case.function == "backward", flops(case) / flops(replace(case, mask="full"))
        times = attempt(lambda case=case, back=back: rate(case, milliseconds(case.call(DEVICE)), backward=back))
        yield case.label() | {"visible": round(share, 4)} | times


def decoding():
    """Compare a few rows with float64, then time one new token against many: a read of all keys and values."""
    n, d = (65, 16) if TINY else (16384, 128)
    few = Case(h=8, g=2, n_q=5, n_k=67 if TINY else 517, d=72, e=72, dtype=LOW, gradient=False)
    many = replace(few, h=4 if TINY else 32, g=2 if TINY else 8, n_q=1, n_k=n, d=d, e=d)
    functions = "decode_attention", "paged_attention"
    checks = [replace(few, function=name, mask=mask) for name in functions for mask in ("causal", "window")]
    timings = [replace(many, function=name, b=b) for name in functions for b in ((1,) if TINY else (1, 8, 32))]
    compiled([*checks, *timings])
    for case in checks:
        yield case.label() | attempt(lambda case=case: judged_rows(case))
    for case in timings:
        times = attempt(lambda case=case: milliseconds(case.call(DEVICE)))
        size = 2 * case.b * case.g * n * case.d * LOW.itemsize
        yield case.label() | times | ({"gb_per_s": round(size / times["ms"][0] / 1e6, 1)} if "ms" in times else {})


def judged_rows(case):
    out, tensors = case.call(DEVICE)(), case.tensors(DEVICE)
    exact, low = (in_plain_torch(case, tensors, torch.zeros_like(out), dtype) for dtype in (torch.float64, LOW))
    return verdict(("out",), [out], exact[:1], low[:1])


def linear():
    """Compare linear attention and its gradients with float64, then time it."""
    n = 33 if TINY else 301
    check = Case("linear_attention", n_q=n, n_k=n, d=72, e=40, dtype=LOW)
    timings = [replace(usual(n, d), function="linear_attention") for d in WIDTHS[:2] for n in LENGTHS[-2:]]
    compiled([check, *timings])
    yield check.label() | attempt(lambda: judged_linear(check))
    for case in timings:
        passes = {"forward": case.call, "backward": case.gradients}
        yield case.label() | attempt(
            lambda passes=passes: {name: milliseconds(f(DEVICE)) for name, f in passes.items()}
        )


def judged_linear(case):
    rows = case.tensors(DEVICE)
    d_out = torch.randn_like(rows["v"])

    def results(form, dtype):
        leaves = [x.detach().to(dtype).requires_grad_() for x in rows.values()]
        out = form(*leaves)
        return [out.detach(), *torch.autograd.grad(out, leaves, d_out.to(dtype))]

    found = results(lambda q, k, v: kernels.linear_attention(q, k, v)[0], case.dtype)
    exact, low = (results(lambda q, k, v: (q @ k.mT).tril() @ v, dtype) for dtype in (torch.float64, case.dtype))
    return verdict(("out", *rows), found, exact, low)


def flex():
    """Time FlexAttention, which compiles a kernel for each mask."""
    if TINY:
        return
    from torch._functorch import config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    config.donated_buffer = False  # or the backward pass can run once only
    fused = torch.compile(flex_attention, dynamic=False)
    for d in (128, 64):
        case = usual(16384, d, "causal")
        blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, case.n_q, case.n_k, device=DEVICE)
        yield case.label() | timed("flex", case, partial(fused, block_mask=blocks))


def timed(name, case, function=None):
    """Return the times of forward and backward: of mha, of one of torch's kernels, or of a function of q, k and v."""
    tensors = list(case.tensors(DEVICE).values())

    def call():
        if function is not None:
            return function(*tensors)
        with sdpa_kernel(RIVALS[name]):
            return F.scaled_dot_product_attention(
                *tensors, is_causal=case.mask == "causal", enable_gqa=case.h != case.g
            )

    def both():
        forward = case.call(DEVICE) if name == "mha" else call
        out = forward()
        learned = tensors if name != "mha" else [x for x in forward.keywords.values() if torch.is_tensor(x)]
        back = partial(torch.autograd.grad, out, learned, torch.randn_like(out), retain_graph=True)
        return {
            "forward": rate(case, milliseconds(forward)),
            "backward": rate(case, milliseconds(back), backward=True),
        }

    return {"by": name} | attempt(both)


def attempt(f):
    """Return the row, or what went wrong: one refusal does not end the run."""
    try:
        return f()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def compiled(cases):
    """Compile beforehand, on all processors, what these cases launch."""
    return [None] * len(cases) if TINY else compile_all([with_few_samples(c) for c in cases], ARCHITECTURE)


SECTIONS = ceilings, sweep, correctness, repeats, lengths, shapes, decoding, linear, flex


def device():
    if TINY:
        return {"name": "Triton's interpreter"}
    properties = torch.cuda.get_device_properties(DEVICE)
    memory = round(properties.total_memory / 2**30)
    return {"name": properties.name, "architecture": ARCHITECTURE, "gib": memory, "cuda": torch.version.cuda}
