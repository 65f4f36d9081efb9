"""What the launches of one call need, made from the checked call: scales, rule and tables of the mask, tile lists.

    problem = problem_of(call, q, k, v, bias=None, sinks=None, precision="ieee", sizes=None, passes=PASSES)

`call` is what `mha.shapes.check` returns, q, k and v are four-axis tensors (b, h, i, d), (b, g, j, d), (b, g, j, e)
with `b = call.batch` and a last stride of 1, `bias` a tensor (b | 1, h | 1, i | 1, j | 1) or a `BiasRule`. `sizes` puts
other tile sizes, by pass, in the place of the table's; `passes` names those that will run. A launch passes on

    strides(x, unit)                      of every tensor; kernels multiply them by UNIT
    *problem.bias_arguments()             bias, bias_b, bias_h, bias_i, bias_j
    *problem.base_2()                     scale, cap
    *problem.dropout_arguments()          seed, p_drop: `kept(tl.load(seed), pair, p_drop)` of language.py
    problem.tables, problem.added_tables  p, added_p
    *problem.rules()                      rule, added: constants of the kernel
    *lists.arguments(), lists.in_runs     lists, line_b, line_h; `tile_lists` tells how to read them
    **size.options()                      num_warps, num_stages

with `size, lists = problem.passes["forward" | "dq" | "dkdv"]`; the lists of "dkdv" go by key. A mask that is None has
no lists: `lists.table` is None, and a kernel walks all tiles. All fields are numbers, strings and tensors, so that an
operator can take them one by one.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from mha.kernels import runtime
from mha.kernels.dot_product.bias_rule import BiasRule, function_named
from mha.kernels.tile_lists import NO_LISTS, Lists, lists_of
from mha.kernels.tile_sizes import TileSize, tile_size
from mha.masks import Dense, InBlocks, RandomBlocks
from mha.masks.arrays import in_numpy
from mha.masks.source import rule_of, source_of

__all__ = ["Pass", "Problem", "problem_of"]

PASSES = "forward", "dq", "dkdv"
LOG2_E = math.log2(math.e)
MOST_KEPT = 2**20  # entries in the tables of a mask whose lists are kept: their content is compared at each call
OF_GRAPHS: list[tuple[Any, ...]] = []  # tables and lists that captured CUDA graphs read whenever they run


class Pass(NamedTuple):
    """How one kernel cuts the scores into tiles, and which of these tiles it visits."""

    size: TileSize
    lists: Lists


class Problem(NamedTuple):
    """What the launches of one call take besides q, k and v."""

    scale: float
    softcap: float | None
    precision: str  # of products of float32: "ieee" or "tf32x3"
    p_drop: float
    seed: Any  # an int64 tensor of one entry, or None
    bias: Any  # (b | 1, h | 1, i | 1, j | 1), or None
    sinks: Any  # (h,), or None
    start: Any  # the position of query slot 0: an integer tensor (1,) or (b,)
    rule: str  # the text of the mask, "" for none
    tables: tuple[Any, ...]  # that the rule reads
    added: str  # the name of a BiasRule's function, "" for none
    added_tables: tuple[Any, ...]
    passes: dict[str, Pass]

    def base_2(self):
        """Return (scale, cap) of scores in base 2: products · scale, or cap · tanh(products · scale)."""
        if self.softcap is None:
            return self.scale * LOG2_E, None
        return self.scale / self.softcap, self.softcap * LOG2_E

    def rules(self):
        """Return the functions of the mask and of the BiasRule as constants of a kernel; None for none."""
        rule = rule_of(self.rule, runtime.jit) if self.rule else None
        return rule, runtime.jit(function_named(self.added)) if self.added else None

    def bias_arguments(self):
        """Return the bias and its four strides, 0 where it has size 1."""
        if self.bias is None:
            return None, 0, 0, 0, 0
        axes = zip(self.bias.shape, self.bias.stride(), strict=True)
        return self.bias, *(0 if size == 1 else step for size, step in axes)

    def dropout_arguments(self):
        """Return (seed, p_drop), both None without dropout."""
        return (None, None) if self.seed is None else (self.seed, self.p_drop)


def problem_of(call, q, k, v, *, bias=None, sinks=None, precision="ieee", sizes=None, passes=PASSES):
    """Return the Problem of a checked call; see the head of this file."""
    call = on_host(call)
    is_rule = isinstance(bias, BiasRule)
    width, itemsize = max(q.shape[-1], v.shape[-1]), q.element_size()
    crowded = bias is not None or call.dropout is not None or _looks_up_pairs(call.mask)
    device = runtime.architecture(q.device)
    table = {name: tile_size(name, device, width, itemsize=itemsize, crowded=crowded) for name in passes}
    chosen = table | (sizes or {})
    start = start_of(call, q.device)
    cuts = tuple((chosen[name][:2], name == "dkdv") for name in passes)
    rule, tables, lists = _on_device(call, cuts, q.device)
    return Problem(
        scale=call.scale,
        softcap=call.softcap,
        precision=precision,
        p_drop=0.0 if call.dropout is None else call.dropout.p,
        seed=None if call.dropout is None else _seed(call.dropout.seed, q.device),
        bias=None if is_rule else bias,
        sinks=None if sinks is None else sinks.contiguous(),
        start=start,
        rule=rule,
        tables=tables,
        added=bias.name if is_rule else "",
        added_tables=bias.on(q.device) if is_rule else (),
        passes={name: Pass(chosen[name], of_pass) for name, of_pass in zip(passes, lists, strict=True)},
    )


def _looks_up_pairs(mask):
    """Tell whether a term of a mask reads a table at each pair, which fills as many registers as a bias does."""
    return isinstance(mask, (Dense, InBlocks, RandomBlocks)) or (
        mask is not None and any(map(_looks_up_pairs, mask.parts()))
    )


def on_host(call):
    """Return the call with the tables of its mask and its q_start in NumPy: what is on a device is waited for once."""
    mask = None if call.mask is None else call.mask.on_tables(in_numpy)
    return call._replace(mask=mask, q_start=call.q_start if isinstance(call.q_start, int) else in_numpy(call.q_start))


def start_of(call, device):
    """Return the position of each sample's first query as a tensor, of 32 bits if all positions and distances fit."""
    start = np.reshape(call.q_start, -1)
    near = int(np.abs(start).max(initial=0)) + call.n_q + call.n_k < 2**31
    if len(start) == 1:
        return torch.full((1,), int(start[0]), dtype=torch.int32 if near else torch.int64, device=device)
    return torch.from_numpy(start.astype(np.int32 if near else np.int64)).to(device)


def _seed(seed, device):
    if isinstance(seed, torch.Tensor):
        return seed.to(device, torch.int64).reshape(1)
    return torch.full((1,), seed, dtype=torch.int64, device=device)


def _on_device(call, cuts, device):
    """Return the text of the mask's rule, its tables and the lists of each cut.

    A cut is the size of the tiles, and whether lists go by key.
    """
    if call.mask is None:
        return "", (), (NO_LISTS,) * len(cuts)
    start = call.q_start if isinstance(call.q_start, int) else tuple(call.q_start.tolist())
    read = _read_once if sum(map(_size, call.mask.tables())) <= MOST_KEPT else _read
    found = read(call.mask, start, call.n_q, call.n_k, cuts, str(device))
    if runtime.is_captured(device):
        OF_GRAPHS.append(found)
    return found


def _read(mask, start, n_q, n_k, cuts, device):
    start = start if isinstance(start, int) else np.array(start, np.int64)
    source = source_of(mask.placed(start))
    tables = tuple(torch.from_numpy(np.array(table)).to(device) for table in source.p)
    tiles = {size: mask.tiles(n_q, n_k, size=size, q_start=start) for size, _ in cuts}
    lists = {(size, by_key): lists_of(tiles[size], device, by_key=by_key) for size, by_key in set(cuts)}
    return source.text, tables, tuple(lists[cut] for cut in cuts)


_read_once = lru_cache(maxsize=64)(_read)  # masks are equal by what they hold: a function of values alone


def _size(table):
    return math.prod(table.shape)
