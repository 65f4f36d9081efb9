"""What does a window of 256 keys cost on 16,384 positions?   python benchmarks/window.py

Time and memory of `mha.nn.attention` with the mask as a value, of torch's attention with the same mask as an array,
with its causal flag (which computes half of all pairs) and of compiled FlexAttention, whose backward pass does not
run on a CPU. Each runs in a process of its own; memory is what the peak exceeds the inputs by, outputs and gradients
taken off.
"""

import json
import resource
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from provenance import save

from mha import masks, nn

LENGTH, HEADS, WIDTH, WINDOW = 16384, 8, 64, 256
CONTENDERS = "ours", "is_causal", "bool", "flex"
OVER_BOOL, OVER_CAUSAL, MOST_MB = 25, 10, 100
MASK = masks.window_of(WINDOW)


def attend(name):
    """Return the function of (q, k, v), whatever it needs made beforehand."""
    if name == "ours":
        return lambda q, k, v: nn.attention(q, k, v, mask=MASK)
    if name == "is_causal":
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if name == "bool":
        see = torch.from_numpy(MASK.dense(LENGTH, LENGTH))
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=see)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    inside = lambda b, h, i, j: (j <= i) & (i - j < WINDOW)  # noqa: E731
    blocks = create_block_mask(inside, 1, 1, LENGTH, LENGTH, device="cpu")
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks)


def measure(name):
    """Return seconds and megabytes of one forward pass and of one with its backward pass, after a short warm-up."""
    torch.set_num_threads(1)
    make = torch.Generator().manual_seed(0)
    q, k, v, d_out = (torch.randn(1, HEADS, LENGTH, WIDTH, generator=make) for _ in range(4))
    megabytes = q.nbytes / 2**20
    nn.attention(q[..., :64, :], k[..., :64, :], v[..., :64, :])
    before = _peak()
    function = attend(name)
    if name == "flex":
        function(q, k, v)  # compiles
    repeats = 5 if name in ("ours", "flex") else 1
    with torch.no_grad():
        forward = min(_seconds(lambda: function(q, k, v)) for _ in range(repeats))
    result = {"forward_s": forward, "forward_mb": _peak() - before - megabytes}
    if name != "flex":
        leaves = [x.requires_grad_() for x in (q, k, v)]
        both = min(_seconds(lambda: torch.autograd.grad(function(q, k, v), leaves, d_out)) for _ in range(repeats))
        result |= {"with_backward_s": both, "with_backward_mb": _peak() - before - 4 * megabytes}
    return {key: round(value, 4 if key.endswith("s") else 0) for key, value in result.items()}


def _seconds(run):
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    found = {}
    for name in CONTENDERS:
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
        found[name] = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-300:]}
        print(name, found[name], flush=True)
    ours = found["ours"]
    for other, factor in (("bool", OVER_BOOL), ("is_causal", OVER_CAUSAL)):
        for key in ("forward_s", "with_backward_s"):
            ratio = found[other][key] / ours[key]
            print(
                f"{key}: {ratio:.1f} × faster than {other}, limit {factor}: {'holds' if ratio >= factor else 'MISSED'}"
            )
    most = max(ours["forward_mb"], ours["with_backward_mb"])
    print(f"{most:.0f} MB beyond output and gradients, limit {MOST_MB}: {'holds' if most <= MOST_MB else 'MISSED'}")
    setting = {"length": LENGTH, "heads": HEADS, "width": WIDTH, "window": WINDOW, "threads": 1, "dtype": "float32"}
    save("window", {"setting": setting, "contenders": found}, note="seconds that the one thread was busy, one run")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
