"""Do models get smaller and faster when heads are removed, and by how much?   python benchmarks/pruned_speed.py

MiniLM encodes a batch; SmolLM2 reads a prompt and then decodes behind it; one thread, all variants in turn in each
round. Heads go in three ways: at random over the model, as many from each layer, and, where heads share keys, whole
groups at a time. One head a layer stays. What the models still can do is another question: `benchmarks/pruning.py`.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from provenance import save, write

from mha.analysis import remove_heads
from mha.data import load, pretrained
from mha.models.bert import Bert, BertConfig
from mha.models.llama import Llama, LlamaConfig

SHARES, SEED = (0.2, 0.4), 0
FULL = {"batch": 16, "sentence": 128, "prompt": 256, "new": 16, "rounds": 5}
TINY = {"batch": 2, "sentence": 7, "prompt": 11, "new": 3, "rounds": 2}


def at_random(counts, group, number, rng):
    """Return `number` heads of layers with these counts of heads, one of each layer left."""
    heads = [(layer, head) for layer, count in enumerate(counts) for head in rng.permutation(count)[1:].tolist()]
    return [heads[place] for place in rng.permutation(len(heads))[:number]]


def spread(counts, group, number, rng):
    """Return as many heads of each layer, up to one; the first layers give one more."""
    orders = [rng.permutation(count).tolist() for count in counts]
    turns = [(layer, order[turn]) for turn in range(max(counts) - 1) for layer, order in enumerate(orders)]
    return turns[:number]


def in_groups(counts, group, number, rng):
    """Return the heads of whole groups, which read one key head, one group of each layer left."""
    groups = at_random([count // group for count in counts], 1, number // group, rng)
    return [(layer, place * group + head) for layer, place in groups for head in range(group)]


def variants(model):
    """Return {(way, share): heads to remove}; the whole model first."""
    layers = [block.attention for block in model.blocks]
    group = layers[0].num_heads // layers[0].num_kv_heads
    counts = [layer.num_heads for layer in layers]
    ways = {"random": at_random, "spread": spread} | ({"groups": in_groups} if group > 1 else {})
    made = {("whole", 0.0): []}
    for way, choose in ways.items():
        for share in SHARES:
            made[way, share] = choose(counts, group, round(share * sum(counts)), np.random.default_rng(SEED))
    return made


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def encoding(model, tokens, setting):
    """Return {part: run} of an encoder."""
    x = torch.randn(*tokens.shape, model.config.d_model, generator=torch.Generator().manual_seed(SEED))
    return {
        "encoding": lambda: model(tokens),
        "attention of encoding": lambda: [block.attention(x) for block in model.blocks],
    }


def decoding(model, tokens, setting):
    """Return {part: run} of a decoder: prompt and steps, and the attention layers alone on as many rows."""
    make = torch.Generator().manual_seed(SEED)
    x = torch.randn(1, tokens.shape[1], model.config.d_model, generator=make)
    _, behind = model.step(tokens, model.caches(), last=True)

    def steps():
        caches = behind
        for number in range(setting["new"]):
            _, caches = model.step(tokens[:, number : number + 1], caches)

    def attention_steps():
        for block, cache in zip(model.blocks, behind, strict=True):
            for _ in range(setting["new"]):
                _, cache = block.attention.step(x[:, :1], cache)

    return {
        "prompt": lambda: model.step(tokens, model.caches(), last=True),
        "attention of prompt": lambda: [block.attention(x) for block in model.blocks],
        "decoding": steps,
        "attention of decoding": attention_steps,
    }


def sizes(model, tokens):
    """Return the bytes of parameters, those of attention among them, and of the caches behind the tokens."""
    counted = {"heads": sum(block.attention.num_heads for block in model.blocks)}
    counted["parameter_bytes"] = sum(p.numel() * p.itemsize for p in model.parameters())
    counted["attention_bytes"] = sum(p.numel() * p.itemsize for b in model.blocks for p in b.attention.parameters())
    if hasattr(model, "step"):
        _, caches = model.step(tokens, model.caches(), last=True)
        counted["cache_bytes"] = sum(x.numel() * x.itemsize for cache in caches for x in cache.rows)
    return counted


@torch.inference_mode()
def measured(model, tokens, parts, setting):
    """Return what each variant weighs and its seconds by part; the variants take turns."""
    chosen, found = variants(model), {}
    for round_ in range(setting["rounds"] + 1):
        for (way, share), heads in chosen.items():
            cut = remove_heads(model, heads)
            entry = found.setdefault(f"{way} {share:.0%}".replace("%", " %"), {"way": way, "share": share})
            if round_ == 0:
                entry |= sizes(model, tokens) | {"seconds": {}}
            for part, run in parts(model, tokens, setting).items():
                taken = seconds(run)
                if round_:  # the first warms up
                    entry["seconds"].setdefault(part, []).append(round(taken, 5))
            cut.undo()
    for entry in found.values():
        rows = {"encoding": tokens.numel(), "prompt": tokens.numel(), "decoding": setting["new"]}
        medians = {part: statistics.median(samples) for part, samples in entry["seconds"].items()}
        entry["median_seconds"] = {part: round(median, 5) for part, median in medians.items()}
        entry["tokens_per_second"] = {part: round(n / medians[part], 2) for part, n in rows.items() if part in medians}
    return found


def models(tiny, setting):
    """Return {name: (model, tokens, parts)}."""
    shape, length = (setting["batch"], setting["sentence"]), setting["prompt"]
    if tiny:
        bert = Bert(BertConfig(41, 2, 11, num_layers=2, d_model=15, num_heads=5, d_mlp=31, norm_eps=1e-12)).eval()
        llama = Llama(
            LlamaConfig(41, 3, 36, num_heads=9, num_kv_heads=3, d_mlp=31, rope_base=1e4, norm_eps=1e-6)
        ).eval()
        drawn = torch.randint(41, (shape[0] * shape[1] + length,), generator=torch.Generator().manual_seed(SEED))
        texts = drawn, drawn
    else:
        text = "\n".join(row["text"] for row in load("moby_dick"))[200_000:230_000]
        known = [pretrained(name) for name in ("minilm", "smollm2")]
        bert, llama = (one.model for one in known)
        texts = [one.encode(text)[0] for one in known]
    batch = texts[0][: shape[0] * shape[1]].reshape(shape)
    return {"minilm": (bert, batch, encoding), "smollm2": (llama, texts[1][None, :length], decoding)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="random models of a few heads, to see that it runs")
    parser.add_argument("--out", type=Path, help="write here, not into the package")
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = TINY if options.tiny else FULL
    found = {name: measured(*parts, setting) for name, parts in models(options.tiny, setting).items()}
    for name, by_variant in found.items():
        for variant, entry in by_variant.items():
            print(name, variant, entry["heads"], entry["parameter_bytes"], entry["tokens_per_second"])
    result = {"setting": setting | {"seed": SEED, "threads": 1, "dtype": "float32"}, "models": found}
    note = "seconds of processor time, medians over rounds in which the variants take turns; one run"
    if options.out:
        write("pruned_speed", {"note": note, **result}, options.out)
    elif not options.tiny:
        save("pruned_speed", result, note=note)


if __name__ == "__main__":
    main()
