"""How far off are the approximations of attention, and what do they save?   python benchmarks/linear.py

Four questions. How errors fall with the number of features, of random directions and of random projections. How many
pairs a state remembers. What time and memory do with the length, and where each form overtakes torch's attention. Both
at once on queries and keys of real models, a decoder on 4,096 tokens of a book and an encoder on 512; these need the
weights: python -m mha.data fetch all.
"""

import json
import sys
from functools import partial

import numpy as np
import torch
from linear_time import HEADS, LENGTHS, WIDTH, seconds, slope, timing
from provenance import RESULTS, save

from mha import masks, nn, reference
from mha.analysis import capture
from mha.data import load, pretrained

COUNTS, TOKENS, LAYERS = [16, 32, 64, 128, 256, 512], 4096, (2, 10, 18)
CAUSAL = {"mask": masks.causal}


def feature_errors(norm, orthogonal, *, d=16, vectors=64, groups=5, seeds=16):
    """Return the relative error of the kernel by number of features, and the slopes of groups of seeds."""
    rng = np.random.default_rng(0)
    q, k = (norm * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in rng.standard_normal((2, vectors, d)))
    errors = np.empty((groups, seeds, len(COUNTS)))
    for *at, place in np.ndindex(errors.shape):
        core = reference.Performer(COUNTS[place], d, at[0] * seeds + at[1], orthogonal)
        ours, theirs = (reference.positive_features(x, core.directions) for x in (q, k))
        errors[*at, place] = np.mean((ours @ theirs.T / np.exp(q @ k.T) - 1) ** 2)
    errors = np.sqrt(errors.mean(1))
    slopes = [slope(COUNTS, one) for one in errors]
    return {"error": errors.mean(0).round(4).tolist(), "slope": slope(COUNTS, errors.mean(0)), "slopes": slopes}


def projection_errors(*, n=512, seeds=10):
    """Return the relative errors by rank of A P Pᵀ V and of Linformer, P drawn once and never trained."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, n, WIDTH))
    weights = reference.attention_weights(q, k)
    exact, around, inside = weights @ v, [], []
    for seed in range(seeds):
        draws = [np.random.default_rng((seed, m)).standard_normal((n, m)) / m**0.5 for m in COUNTS]
        around.append([np.linalg.norm(weights @ p @ (p.T @ v) - exact) / np.linalg.norm(exact) for p in draws])
        inside.append([reference.approximation_error(reference.Linformer(p, p), q, k, v) for p in draws])
    found = {}
    for name, errors in (("around", around), ("inside", inside)):
        slopes, mean = [slope(COUNTS, one) for one in errors], np.mean(errors, 0)
        found[name] = {"error": mean.round(4).tolist(), "slope": slope(COUNTS, mean), "slopes": slopes}
    return found


def frontier(cores, layers, options):
    """Return seconds and errors of each core on q, k, v of each layer; where queries are keys, k is left out."""
    found = {}
    for name, (core, shared) in cores.items():
        given = options if not isinstance(core, partial) else {}
        calls = [_shared(q, v) if shared else (q, k, v) for q, k, v in layers]
        errors = [_error(core, call, given, options) for call in calls]
        took = min(seconds(lambda call=call, core=core, given=given: core(*call, **given)) for call in calls)
        found[name] = {"seconds": took, "errors": errors}
        print(name, found[name], flush=True)
    return found


def _shared(q, v):
    return q, q, v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)


def _error(core, call, given, options):
    exact = getattr(core, "exact", nn.attention)(*call, **options)
    return round(float((core(*call, **given) - exact).norm() / exact.norm()), 4)


def common(width, n):
    """Return the cores that are causal too, and whether queries are keys to them."""
    maps = {"elu": nn.elu_plus_one, "squared relu": nn.squared_relu, "softmax features": nn.softmax_features}
    cores = {"exact": nn.attention} | {name: nn.FeatureAttention(feature_map) for name, feature_map in maps.items()}
    cores |= {f"performer {m}": nn.Performer(m, width) for m in (64, 256, 1024)}
    cores |= {f"reformer, rounds {r}": nn.Reformer(width, max(2, 2 * n // 64), rounds=r) for r in (1, 4)}
    return {name: (core, name.startswith("reformer")) for name, core in cores.items()}


@torch.no_grad()
def on_real_inputs():
    """Return errors and seconds on a decoder, causal, and on an encoder, not causal."""
    decoder, encoder = pretrained("smollm2"), pretrained("minilm")
    text = "\n".join(row["text"] for row in load("moby_dick"))
    x, layers = decoder.model.embed(decoder.encode(text[: 6 * TOKENS])[:, :TOKENS]), []
    for at, block in enumerate(decoder.model.blocks[: LAYERS[-1] + 1]):
        if at in LAYERS:
            layers.append(block.attention.project(block.attention_norm(x), mask=masks.causal))
        x = block(x, masks.causal)
    cores = common(WIDTH, TOKENS) | {
        "window 128": (partial(nn.attention, mask=masks.window_of(128)), False),
        "window 128, first 4": (
            partial(nn.attention, mask=masks.causal & (masks.window_of(128) | masks.prefix(4))),
            False,
        ),
    }
    found = {"decoder": frontier(cores, layers, CAUSAL)}
    with capture(encoder.model) as seen:
        encoder.model(encoder.encode(text[:4000])[:, :512])
    torch.manual_seed(0)
    cores = common(32, 512)
    cores |= {f"nystrom {m}": (nn.Nystrom(m), False) for m in (16, 64, 128)}
    cores |= {f"linformer {r}, not trained": (nn.Linformer(512, r), False) for r in (64, 256)}
    return found | {"encoder": frontier(cores, [(call.q, call.k, call.v) for call in seen.calls], {})}


def recall(*, width=64, labels=64, seeds=5):
    """Return the share of labels, one-hot values, that come back for their keys, random and of norm 1."""
    shares = {name: [] for name in ("softmax", "linear", "elu")}
    counts = [32, 64, 128, 256, 512, 1024]
    for n in counts:
        right = dict.fromkeys(shares, 0.0)
        for seed in range(seeds):
            rng = np.random.default_rng((seed, n))
            k = rng.standard_normal((1, n, width))
            k, asked = k / np.linalg.norm(k, axis=-1, keepdims=True), rng.integers(0, labels, n)
            v = np.eye(labels)[asked][None]
            _, state = reference.linear_attention(k, k, v)
            answers = {
                "softmax": reference.attention(k, k, v, scale=32.0),
                "linear": k @ state,
                "elu": reference.FeatureAttention()(width**0.5 * k, width**0.5 * k, v),
            }
            for name, answer in answers.items():
                right[name] += np.mean(answer[0].argmax(-1) == asked) / seeds
        for name, share in right.items():
            shares[name].append(round(float(share), 4))
    return {"pairs": counts, "right": shares}


def all_feature_errors():
    """Return the errors for vectors of three norms and for both kinds of directions."""
    kinds = {"orthogonal": True, "independent": False}
    return {f"norm {norm}, {kind}": feature_errors(norm, kinds[kind]) for norm in (0.5, 1, 1.5) for kind in kinds}


PARTS = {
    "features": all_feature_errors,
    "projections": projection_errors,
    "recall": recall,
    "time": timing,
    "real": on_real_inputs,
}


def main():
    torch.set_num_threads(1)
    parts = sys.argv[1:] or PARTS
    setting = {"lengths": LENGTHS, "heads": HEADS, "width": WIDTH, "counts": COUNTS, "threads": 1, "dtype": "float32"}
    setting |= {"decoder": f"smollm2, {TOKENS} tokens, layers {LAYERS}", "encoder": "minilm, 512 tokens, all layers"}
    note = "errors are root mean squares relative to the exact output; seconds that the one thread was busy"
    known = RESULTS / "linear.json"
    found = json.loads(known.read_text("utf-8")) if known.exists() and len(parts) < len(PARTS) else {}
    for part in parts:
        found[part] = PARTS[part]()
        save("linear", {"setting": setting} | {name: found[name] for name in PARTS if name in found}, note=note)


if __name__ == "__main__":
    main()
