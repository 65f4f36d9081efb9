"""Does half precision save time and memory on a processor?   python benchmarks/mixed_precision.py

One layer of multi-head attention, forward and backward, causal, one thread: its projections and PyTorch's fused
operator, in float32, in bfloat16 throughout, and in float32 under autocast to bfloat16. Time is that of the processor,
which other work on the machine does not touch. Memory is what autograd keeps for the backward pass, its tensors
counted once each, parameters left out.
"""

import statistics
import time

import torch
from provenance import save

from mha import masks
from mha.nn import MultiHeadAttention

D_MODEL, HEADS, LENGTHS, ROUNDS = 512, 8, (256, 1024), 7


def layers():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS)
    half = MultiHeadAttention(D_MODEL, HEADS).to(torch.bfloat16)
    half.load_state_dict(layer.state_dict())
    return {"float32": layer, "bfloat16": half, "autocast": layer}


def step(name, layer, x):
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "autocast"):
        out = layer(x, mask=masks.causal)
    out.float().sum().backward()


def kept(name, layer, x):
    """Return the bytes that the backward pass waits with."""
    parameters, found = {p.data_ptr() for p in layer.parameters()}, {}

    def pack(tensor):
        if tensor.data_ptr() not in parameters:
            found[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step(name, layer, x)
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values())


def main():
    torch.set_num_threads(1)
    floors = layers()
    inputs = {
        (name, n): torch.randn(1, n, D_MODEL, dtype=next(layer.parameters()).dtype)
        for name, layer in floors.items()
        for n in LENGTHS
    }
    samples = {key: [] for key in inputs}
    for round_ in range(ROUNDS + 1):
        for (name, n), x in inputs.items():
            start = time.process_time()
            step(name, floors[name], x)
            if round_:
                samples[name, n].append(time.process_time() - start)
    seconds = {name: {n: round(statistics.median(samples[name, n]), 6) for n in LENGTHS} for name in floors}
    memory = {name: {n: kept(name, floors[name], inputs[name, n]) for n in LENGTHS} for name in floors}
    flags = torch.backends.cpu.get_cpu_capability()
    setting = {"d_model": D_MODEL, "heads": HEADS, "threads": 1, "rounds": ROUNDS, "instructions": flags}
    print(seconds, memory, sep="\n")
    save("mixed_precision", {"setting": setting, "seconds": seconds, "bytes kept": memory}, note="medians of one run")


if __name__ == "__main__":
    main()
