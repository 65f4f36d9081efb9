"""Draw masks in Triton's interpreter, or compile the kernel that would: cases come in a pickle, results leave in one.

Run by test_source.py in processes of its own, since TRITON_INTERPRET counts when triton is imported.
"""

import os
import pickle
import sys

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mha.masks import query_start
from mha.masks.source import rule_of, source_of

TILE = 32, 64


@triton.jit
def load(table, index):
    return tl.load(table + index)


@triton.jit
def draw(out, start, n_q, n_k, start_step, num_heads, rule: tl.constexpr, p, BM: tl.constexpr, BN: tl.constexpr):
    group, row, column = tl.program_id(0), tl.program_id(1) * BM, tl.program_id(2) * BN
    b, h = group // num_heads, group % num_heads
    i, j = row + tl.arange(0, BM), column + tl.arange(0, BN)
    query, key = tl.minimum(i, n_q - 1)[:, None], tl.minimum(j, n_k - 1)[None, :]  # no table is read past its end
    first = tl.load(start + b * start_step)
    see = rule(load, b, h, first + query, key, p) & (query >= 0) & (key >= 0)  # [BM, BN]
    inside = (i < n_q)[:, None] & (j < n_k)[None, :]
    tl.store(out + (group * n_q + i[:, None]) * n_k + j[None, :], see.to(tl.int8), mask=inside)


def plain(function):
    return function


def picture(mask, n_q, n_k, q_start, batch, num_heads):
    start = query_start(mask, n_q, n_k, q_start)
    source = source_of(mask.placed(start))
    starts = torch.as_tensor(np.reshape(np.asarray(start), -1).astype(np.int32))
    out = torch.full((batch, num_heads, n_q, n_k), -1, dtype=torch.int8)
    p = tuple(torch.from_numpy(np.array(x)) for x in source.p)
    grid = batch * num_heads, triton.cdiv(n_q, TILE[0]), triton.cdiv(n_k, TILE[1])
    step = int(len(starts) > 1)
    draw[grid](out, starts, n_q, n_k, step, num_heads, rule_of(source.text, plain), p, BM=TILE[0], BN=TILE[1])
    return out.numpy()


def compiled(mask):
    """Return the machine code for sm_90 of the kernel that draws this mask, made without a device."""
    source = source_of(mask.placed(0))
    types = {"out": "*i8", "start": "*i32", "n_q": "i32", "n_k": "i32", "start_step": "i32", "num_heads": "i32"}
    types |= {"p": tuple({"int32": "*i32", "bool": "*i1"}[str(x.dtype)] for x in source.p)}
    constants = {"rule": rule_of(source.text, triton.jit), "BM": TILE[0], "BN": TILE[1]}
    signature = types | dict.fromkeys(constants, "constexpr")
    built = ASTSource(draw, {name: signature[name] for name in draw.arg_names}, constants)
    return triton.compile(built, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    with open(sys.argv[1], "rb") as file:
        cases = pickle.load(file)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    with open(sys.argv[2], "wb") as file:
        pickle.dump([picture(*case) if interpreted else compiled(case) for case in cases], file)
