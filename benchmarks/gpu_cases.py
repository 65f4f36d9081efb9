"""One call of a kernel as a value: what gpu_attention.py checks and times, and what its helpers compile beforehand."""

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context

import torch
import torch.nn.functional as F

from mha import kernels, masks, shapes
from mha.dropout import Dropout
from mha.kernels.dot_product.backward import backward
from mha.kernels.dot_product.forward import forward
from mha.kernels.dot_product.problem import problem_of
from mha.kernels.tile_sizes import TABLE, TileSize

BLOCK = 64
PAGE = 16
MASKS = {
    "full": lambda n: None,
    "causal": lambda n: masks.causal,
    "window": lambda n: masks.causal & masks.window(max(n // 16, 1) - 1, 0),
    "bigbird": lambda n: masks.window(3 * BLOCK, 3 * BLOCK) | masks.global_tokens([*range(min(BLOCK, n))]),
    "lengths": lambda n: masks.causal & masks.lengths(torch.tensor([n, n // 3])),
    "segments": lambda n: masks.causal & masks.segments(torch.arange(n) * 5 // n, torch.arange(n) * 5 // n),
}


@dataclass(frozen=True)
class Case:
    """Sizes and options; `function` is a public one of mha.kernels, "forward" or "backward": one pass, other tiles."""

    function: str = "attention"
    b: int = 2
    h: int = 4
    g: int = 4
    n_q: int = 301
    n_k: int = 301
    d: int = 64
    e: int = 64
    dtype: torch.dtype = torch.bfloat16
    mask: str = "full"
    bias: bool = False
    sinks: bool = False
    softcap: float | None = None
    dropout: float = 0.0
    precision: str = "ieee"
    gradient: bool = True
    sizes: tuple[tuple[str, TileSize], ...] = ()

    def label(self):
        """Return the fields that are not as usual."""
        usual = Case()
        told = {name: x for name, x in vars(self).items() if x != getattr(usual, name)}
        return {name: str(x) if name in ("dtype", "sizes") else x for name, x in told.items()}

    def tensors(self, device):
        """Return random q, k, v and, where the case has them, bias and sinks."""
        make = torch.Generator(device).manual_seed(0)
        shapes = {
            "q": (self.b, self.h, self.n_q, self.d),
            "k": (self.b, self.g, self.n_k, self.d),
            "v": (self.b, self.g, self.n_k, self.e),
        }
        shapes |= {"bias": (self.h, self.n_q, self.n_k)} if self.bias else {}
        shapes |= {"sinks": (self.h,)} if self.sinks else {}
        return {
            name: torch.randn(shape, generator=make, device=device, dtype=self.dtype).requires_grad_(self.gradient)
            for name, shape in shapes.items()
        }

    def options(self):
        """Return the options of the call besides tensors."""
        dropout = Dropout(self.dropout, 7) if self.dropout else None
        mask = MASKS[self.mask](self.n_k)
        given = {"mask": mask, "softcap": self.softcap, "dropout": dropout}
        return {name: x for name, x in given.items() if x is not None}

    def call(self, device):
        """Return a function without arguments that makes the call; what it needs is there already."""
        tensors = self.tensors(device)
        if self.function == "linear_attention":
            return partial(kernels.linear_attention, *tensors.values())
        if self.function == "decode_attention":
            return partial(kernels.decode_attention, *tensors.values(), **self.options())
        if self.function == "paged_attention":
            return partial(kernels.paged_attention, *in_pages(*tensors.values()), **self.options())
        if self.function == "attention":
            return partial(kernels.attention, **tensors, **self.options(), precision=self.precision)
        return self._one_pass(*(x.detach() for x in tensors.values()))

    def _one_pass(self, q, k, v):
        problem = problem_of(shapes.check(q, k, v, **self.options()), q, k, v, sizes=dict(self.sizes))
        if self.function == "forward":
            return partial(forward, q, k, v, problem)
        out = torch.randn_like(q)
        return partial(backward, out, q, k, v, out, torch.ones(q.shape[:3], device=q.device), problem)

    def gradients(self, device):
        """Return a function without arguments that sends a gradient back through the call."""
        call = self.call(device)
        out = call()
        if self.function == "linear_attention":
            out, _state = out
        learned = [x for x in (*call.args, *call.keywords.values()) if getattr(x, "requires_grad", False)]
        return partial(torch.autograd.grad, out, learned, torch.randn_like(out), retain_graph=True)


def in_pages(q, k, v):
    """Return the arguments of paged_attention: these keys and values in pages that lie in random order."""
    make = torch.Generator(q.device).manual_seed(1)
    b, columns = len(q), -(-k.shape[2] // PAGE)
    places = torch.randperm(b * columns, generator=make, device=q.device)
    pages = []
    for x in (k, v):
        whole = F.pad(x, (0, 0, 0, columns * PAGE - x.shape[2]))
        in_order = whole.unflatten(2, (columns, PAGE)).transpose(1, 2).flatten(0, 1)
        pages.append(torch.empty_like(in_order).index_copy_(0, places, in_order))
    return q, *pages, places.reshape(b, columns).int(), torch.full((b,), k.shape[2], device=q.device)


def compile_all(cases, architecture):
    """Fill Triton's cache, many cases at once; return what the assembler says, a list of dicts for each case."""
    try:
        return list(helpers().map(partial(compile_one, architecture=architecture, table=TABLE), cases))
    except BrokenProcessPool as error:  # the compiler has ended its process; others may go on with the next cases
        helpers.cache_clear()
        return [[{"error": f"{type(error).__name__}: {error}"}]] * len(cases)


@cache
def helpers():
    """Return processes that compile. They serve all sections: to start takes each as long as some kernels."""
    return ProcessPoolExecutor(min(len(os.sched_getaffinity(0)), 16), mp_context=get_context("spawn"))


def compile_one(case, architecture, table):
    """Compile what a case launches with this table of tile sizes, which may be newer than the helper's own."""
    from mha.kernels.ahead_of_time import compiling_for

    torch.set_num_threads(1)
    TABLE.update(table)
    with compiling_for(architecture) as launches:
        try:
            if case.gradient:
                case.gradients("cpu")()
            else:
                case.call("cpu")()
        except Exception as error:  # the device will say it again, in its own row
            return [{"error": f"{type(error).__name__}: {error}"}]
    names = "kernel", "registers", "spills", "shared"
    return [{name: getattr(launch, name) for name in names} for launch in launches]


def with_few_samples(case):
    """Return the case with at most two samples, which a CPU makes at once; it has the same kernels."""
    return replace(case, b=min(case.b, 2))
