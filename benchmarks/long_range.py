"""How far does attention reach, and what does it depend on?   python benchmarks/long_range.py [PART ...]

Parts: `recall` of a list across a gap, by depth and position scheme, trained with gaps up to 16 and asked across up to
1,024 (task and model in recall_task.py); `heads`, how thin the weights of SmolLM2-135M-Instruct spread as the keys
become more; `reach`, how its state at one token depends on the tokens before it, layer by layer, with all keys seen
and with a window. `recall` trains for about six minutes on one core, and resumes: each run adds a line to its log.
The others train nothing and take about three minutes. A part that is named takes the place of the same part in the
result file. `--tiny` runs all on less, writes nothing.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
import recall_task
import torch
from generation import passages
from provenance import commit, save

from mha import masks
from mha.analysis import capture, dilution, influence
from mha.data import pretrained, result

SETTINGS = {  # hops of the task, layers of the model and steps of its training: schemes
    (1, 1, 400): (*recall_task.SCHEMES,),
    (2, 2, 800): ("rotary", "none", "log_length", "alibi", "sinusoidal"),
    (2, 1, 800): ("rotary", "none"),
    (1, 1, 800): ("recurrent",),
}
RATES, SEEDS = (3e-3, 1e-2), (0, 1, 2)
GAPS, TESTED = (0, 16, 64, 256, 1024), 32
VISIBLE, QUANTILES = (16, 32, 64, 128, 256, 512, 1024), (0.1, 0.5, 0.9)
LAYERS, ROW, WINDOW, DRAWS = (1, 2, 5, 10, 20, 30), 511, 32, 4
LOG = Path(__file__).parent / "logs/long_range.jsonl"


def kept():
    """Return the lines of the log."""
    return [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()] if LOG.exists() else []


def keep(line):
    """Add a line to the log, and print it."""
    line |= {"commit": commit()}
    print(line, flush=True)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def trained(about, seed, rate, share=1.0):
    """Train the model of a setting, for all of its steps or a share of them."""
    steps = int(share * about["steps"])
    return recall_task.train(about["scheme"], about["layers"], about["hops"], seed, rate, steps)


def tuned(about):
    """Return the rate whose run of a third of the steps ends with the lower training loss."""
    found = {line["rate"]: line["loss"] for line in kept() if line.items() >= {"kind": "tuning", **about}.items()}
    for rate in RATES:
        if rate not in found:
            found[rate] = round(trained(about, 0, rate, share=1 / 3)[1], 4)
            keep({"kind": "tuning", **about, "rate": rate, "loss": found[rate]})
    return min(found, key=found.get)


def recall_once(about, seed, rate, gaps):
    """Train one model and return what it recalls across each gap."""
    started = time.process_time()
    model, loss = trained(about, seed, rate)
    seconds = round(time.process_time() - started, 1)
    told = {**about, "seed": seed, "rate": rate, "loss": round(loss, 4), "busy_seconds": seconds}
    told["parameters"] = sum(p.numel() for p in model.body.parameters())
    return told | {"accuracy": {str(gap): recall_task.accuracy(model, about["hops"], gap, TESTED) for gap in gaps}}


def recall(tiny):
    """Return the share of right answers by gap, for each depth and scheme: mean, lowest and highest of the seeds."""
    runs = [
        {"scheme": scheme, "layers": layers, "hops": hops, "steps": 2 if tiny else steps}
        for (hops, layers, steps), schemes in SETTINGS.items()
        for scheme in schemes
    ]
    if tiny:
        return [recall_once(about, 0, RATES[0], GAPS[:2]) for about in runs]
    for about, seed in itertools.product(runs, SEEDS):
        if not any(line.items() >= {"kind": "run", **about, "seed": seed}.items() for line in kept()):
            keep({"kind": "run"} | recall_once(about, seed, tuned(about), GAPS))
    return [about | over_seeds(about) for about in runs]


def over_seeds(about):
    """Return what the runs of one setting have in common, and their accuracies by gap."""
    runs = {line["seed"]: line for line in kept() if line.items() >= {"kind": "run", **about}.items()}
    lines, found = list(runs.values()), {}
    for gap in map(str, GAPS):
        values = [line["accuracy"][gap] for line in lines]
        found[gap] = {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}
    told = {key: lines[0][key] for key in ("rate", "parameters")} | {"seeds": len(lines)}
    return told | {"loss": max(line["loss"] for line in lines), "accuracy": found}


@torch.inference_mode()
def heads(known, tiny):
    """Return how thin the weights of all heads spread when a row sees 16 keys, 32, … of the book.

    The start token is left out and each row divided by the rest: what is told is about the words. Rows are those of
    the last sixteenth before each length; each number is the mean over them and over the chapters.
    """
    visible = VISIBLE[:2] if tiny else VISIBLE
    found, chapters = {}, passages(known, visible[-1] + 1)
    for chapter in chapters[: 1 if tiny else None]:
        with capture(known.model) as seen:
            known.model(chapter[None])
        for layer, call in enumerate(seen.calls):
            scores = call.scores[0].double().numpy()  # (heads, i, j)
            for n in visible:
                for row in range(n - n // 16 + 1, n + 1):
                    for name, values in of_row(scores[:, row, : row + 1]).items():
                        found.setdefault((name, n), np.zeros((len(seen.calls), scores.shape[0])))[layer] += values
    rows = len(chapters[: 1 if tiny else None])
    by_name = {}
    for (name, n), values in found.items():
        at = np.quantile(values / (rows * (n // 16)), QUANTILES)
        by_name.setdefault(name, {})[str(n)] = [float(f"{x:.4g}") for x in at]
    return {"chapters": rows, "quantiles_of_heads": QUANTILES, **by_name}


def of_row(scores):
    """Return for each head (heads, keys) the largest weight, the number of keys, the spread, the start's weight."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    start = weights[:, 0] / weights.sum(-1)
    words, scores = weights[:, 1:] / weights[:, 1:].sum(-1, keepdims=True), scores[:, 1:]
    entropy = -(words * np.log(np.maximum(words, np.finfo(float).tiny))).sum(-1)
    spread = scores.std(-1)
    chance = [dilution.largest_weight(scores.shape[1], s) for s in spread]
    return {
        "largest": words.max(-1), "by_chance": chance, "effective_keys": np.exp(entropy),
        "spread": spread, "on_start": start,
    }  # fmt: skip


def reach(known, tiny):
    """Return by layer how far back the tokens are that the last token's state depends on, in quantiles of influence.

    Influence is that of the words before: the token itself and the start token are left out.
    """
    row, layers = (32, LAYERS[:2]) if tiny else (ROW, LAYERS)
    model, rows = known.model.requires_grad_(False), passages(known, row + 1)
    forms = {"all": masks.causal, "window": masks.window_of(WINDOW) | (masks.causal & masks.prefix(1))}
    found = {}
    for name, mask in forms.items():
        by_layer = np.mean([influences(model, tokens, mask, layers) for tokens in rows[: 1 if tiny else None]], axis=0)
        shares = by_layer / by_layer.sum(-1, keepdims=True)
        for layer, share in zip(layers, shares, strict=True):
            back = np.cumsum(share)
            reached = {str(q): int(np.searchsorted(back, q) + 1) for q in (0.5, 0.9, 0.99)}
            beyond = {str(d): float(f"{1 - back[d - 1]:.4g}") for d in (1, 8, 31, 64, 128, 256) if d < row}
            found.setdefault(name, {})[str(layer)] = {"reached": reached, "beyond": beyond}
            if not tiny:
                found[name][str(layer)]["farthest"] = int(np.flatnonzero(share)[-1] + 1)
    return {"row": row, "window_keys": WINDOW, "draws": DRAWS, **found}


def influences(model, tokens, mask, layers):
    """Return the influence of the words 1, 2, … places back on the last one after each of the layers."""
    inputs = model.embed(tokens[None]).requires_grad_()
    x, found, draw = inputs, [], torch.Generator().manual_seed(0)
    for number, block in enumerate(model.blocks[: layers[-1]], start=1):
        x = block(x, mask=mask)
        if number in layers:
            found.append(influence(x[0, -1], inputs, draws=DRAWS, generator=draw)[0].flip(0)[1:-1].numpy())
    return np.stack(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["recall", "heads", "reach"], help="which, all by default")
    parser.add_argument("--tiny", action="store_true", help="all parts on less, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    real = {"heads": heads, "reach": reach}
    known = pretrained("smollm2") if set(given.parts) & set(real) else None
    found = {name: real[name](known, given.tiny) if name in real else recall(given.tiny) for name in given.parts}
    if given.tiny:
        return print(found)
    try:
        old = result("long_range")
    except ValueError:
        old = {}
    setting = {
        "items": recall_task.ITEMS, "trained_gap": recall_task.TRAINED_GAP, "gaps": GAPS,
        "d_model": recall_task.D_MODEL, "heads": recall_task.HEADS, "batch": recall_task.BATCH,
        "rates": RATES, "seeds": SEEDS, "tested": TESTED,
        "model": "SmolLM2-135M-Instruct, 4-bit quantised, float32",
    }  # fmt: skip
    parts = {name: old[name] for name in ("recall", "heads", "reach") if name in old}
    save("long_range", {"setting": setting, **parts, **found}, note="shares of right answers; weights; tokens back")


if __name__ == "__main__":
    main()
