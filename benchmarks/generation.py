"""What do the heads of a real decoder do, and what breaks without them?   python benchmarks/generation.py [PART ...]

SmolLM2-135M-Instruct, 270 heads, as its weights are; nothing is trained. Parts: `distances` of what heads look at in a
book; `nuclei`, how many tokens may come next; `copying` of random tokens said twice, with and without the induction
heads (Olsson et al. 2022); `sinks`, a window with and without the first tokens (Xiao et al. 2024); `reach`, smaller
windows; `agreement` of subject and verb across a noun of the other number (Linzen et al. 2016), with each head silenced
in turn. About 15 minutes on one core, of which agreement is most.
A part that is named takes the place of the same part in the result file. `--tiny` runs all on less, writes nothing.
"""

import argparse
import itertools
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from provenance import save

from mha import masks
from mha.analysis import patterns, without_heads
from mha.data import load, pretrained, result

PASSAGES, LENGTH = (1, 41, 87), 256  # chapters of the book
WORDS, SCORED, TESTED, DRAWS = 50, range(5), range(5, 10), 10
SINK_LENGTH, WINDOW, SINKS, MEASURED_FROM = 768, 128, 4, 256
VERBS = (" is", " are"), (" was", " were"), (" has", " have")
TEMPLATES = Path(__file__).parent / "agreement_templates.txt"


def passages(known, length):
    """Return the first tokens of some chapters, each behind the start token: (chapters, length)."""
    chapters = load("moby_dick")["text"]
    return torch.cat([known.encode(chapters[n - 1][: 8 * length])[:, :length] for n in PASSAGES])


def maps_of(model, rows):
    """Yield the weights of all heads on one row after the other: (layers, heads, i, j)."""
    for row in rows:
        yield model.attention_maps(row[None])[:, 0].double().numpy()


def losses(model, rows, *, mask=None):
    """Return the surprise of each token but the first, in nats: (rows, length − 1)."""
    with torch.inference_mode():
        return torch.cat([_losses(model(row[None], mask=mask)[:, :-1], row[None, 1:]) for row in rows])


def _losses(logits, targets):
    return F.cross_entropy(logits.mT, targets, reduction="none")


def distances(known, tiny):
    """Return how far back each head looks in the book, with the start token and without, and what chance would do."""
    rows = passages(known, 32 if tiny else LENGTH)
    scores = {"distance": patterns.attention_distance, "sink": patterns.sink_score, "entropy": patterns.entropy}
    scores["distance_without_start"] = lambda maps: patterns.attention_distance(maps[..., 1:, 1:])
    scores["previous_token"] = patterns.previous_token_score
    found = {name: [] for name in scores}
    for maps in maps_of(known.model, rows):
        for name, score in scores.items():
            found[name].append(score(maps))
    n = rows.shape[-1]
    about = {"chapters": PASSAGES, "tokens": n, "uniform": (n - 1) / 4, "uniform_without_start": (n - 2) / 4}
    spread = [np.ptp(found["distance_without_start"], axis=0)]
    about["largest_change_between_chapters"] = round(float(np.max(spread)), 1)
    found = {name: np.mean(values, axis=0) for name, values in found.items()}
    about["without"] = without_near_and_far(known.model, rows, ranked(found["distance_without_start"]))
    return about | {name: table(values) for name, values in found.items()}


def without_near_and_far(model, rows, order):
    """Return the loss on the rows, whole and without a tenth of the heads: the far ones, the near ones, random ones."""

    def loss(heads):
        with without_heads(model, heads):
            return round(float(losses(model, rows).mean()), 3)

    count, rng = len(order) // 10, np.random.default_rng(0)
    draws = [rng.choice(len(order), count, replace=False) for _ in range(DRAWS // 2)]
    random = sorted(loss([order[n] for n in draw]) for draw in draws)
    return {
        "heads": count,
        "none": loss(()),
        "far": loss(order[:count]),
        "near": loss(order[-count:]),
        "random": random,
    }


def table(values, digits=3):
    """Return (layers, heads) as lists of rounded numbers."""
    return [[round(float(x), digits) for x in layer] for layer in values]


def said_twice(known, seeds, words):
    """Return random tokens of the whole vocabulary, then the same once more, behind the start token."""
    start = int(known.encode("")[0, 0])
    draws = [
        torch.randint(3, known.config.vocab_size, (words,), generator=torch.Generator().manual_seed(s)) for s in seeds
    ]
    return torch.stack([torch.cat([torch.tensor([start]), words, words]) for words in draws])


def ranked(scores):
    """Return the heads, the highest score first."""
    order = np.argsort(-scores, axis=None)
    return [tuple(int(n) for n in np.unravel_index(place, scores.shape)) for place in order]


def beside(heads, rng):
    """Return another head of the same layer for each of the heads, all different."""
    found = []
    for layer, _ in heads:
        free = [(layer, head) for head in range(9) if (layer, head) not in (*heads, *found)]
        found.append(free[rng.integers(len(free))])
    return found


def copying(known, tiny):
    """Return scores of the heads on some draws, and the surprise on others with heads taken out."""
    words = 10 if tiny else WORDS
    scored, tested = (said_twice(known, seeds[:1] if tiny else seeds, words) for seeds in (SCORED, TESTED))
    maps = [m[..., 1:, 1:] for m in maps_of(known.model, scored)]  # without the start token
    induction = np.mean([patterns.induction_score(m, words) for m in maps], axis=0)
    previous = np.mean([patterns.previous_token_score(m) for m in maps], axis=0)

    def second_copy(heads):
        with without_heads(known.model, heads):
            return round(float(losses(known.model, tested)[:, words:].mean()), 3)

    whole, order, rng = losses(known.model, tested), ranked(induction), np.random.default_rng(0)
    others = {"top": {}, "random": {}, "same_layers": {}}
    for count in (1, 2, 4, 8, 16)[: 2 if tiny else None]:
        top, rest = order[:count], order[count:]
        others["top"][count] = second_copy(top)
        if count in (4, 16):
            draws = [rng.choice(len(rest), count, replace=False) for _ in range(DRAWS)]
            others["random"][count] = sorted(second_copy([rest[n] for n in draw]) for draw in draws)
        if count == 4:
            others["same_layers"][count] = sorted(second_copy(beside(top, rng)) for _ in range(DRAWS))
    first, second = whole[:, :words].mean(), whole[:, words:].mean()
    about = {"words": words, "first_copy": round(float(first), 3), "second_copy": round(float(second), 3)}
    about |= {"top_heads": order[:16], "without": others}
    return about | {"induction": table(induction), "previous_token": table(previous)}


def sinks(known, tiny):
    """Return the perplexity of the end of some passages under windows that keep the first tokens or do not."""
    n, window, start = (64, 16, 32) if tiny else (SINK_LENGTH, WINDOW, MEASURED_FROM)
    kept = masks.window_of(window - SINKS)
    elsewhere = start // 2
    forms = {
        "all": None,
        "window": masks.window_of(window),
        "window_and_1_sink": masks.window_of(window - 1) | masks.prefix(1),
        "window_and_4_sinks": kept | masks.prefix(SINKS),
        "window_and_4_others": kept | (masks.prefix(elsewhere + SINKS) & ~masks.prefix(elsewhere)),
    }
    rows = passages(known, n)
    about = {"chapters": PASSAGES, "tokens": n, "window": window, "measured_from": start, "others_from": elsewhere}
    return about | {"perplexity": {name: perplexity(known.model, rows, mask, start) for name, mask in forms.items()}}


def reach(known, tiny):
    """Return the perplexity of the same passages when queries see few of the last keys, and the sinks."""
    n, start = (64, 32) if tiny else (SINK_LENGTH, MEASURED_FROM)
    rows, windows = passages(known, n), (8, 32)
    forms = {keys: masks.window_of(keys) | masks.prefix(SINKS) for keys in windows}
    about = {"chapters": PASSAGES, "tokens": n, "sinks": SINKS, "measured_from": start}
    return about | {"perplexity": {keys: perplexity(known.model, rows, mask, start) for keys, mask in forms.items()}}


def perplexity(model, rows, mask, start):
    """Return the exponential of the loss of each row, from token `start` on."""
    return [round(math.exp(loss), 1) for loss in losses(model, rows, mask=mask)[:, start - 1 :].double().mean(1)]


def nuclei(known, tiny):
    """Return how many tokens reach 90 % together at the places of the passages, and what the best 40 have there."""
    with torch.inference_mode():
        logits = torch.cat([known.model(row[None])[0] for row in passages(known, 32 if tiny else LENGTH)])
    sorted_down = logits.double().softmax(-1).sort(-1, descending=True).values
    reached = sorted_down.cumsum(-1)
    sizes, best = ((reached < 0.9).sum(-1) + 1).numpy(), reached[:, 39].numpy()
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    about = {"chapters": PASSAGES, "places": len(sizes), "p": 0.9, "k": 40}
    about["tokens_by_share_of_places"] = {str(q): int(np.quantile(sizes, q, method="nearest")) for q in shares}
    return about | {"best_40_by_share_of_places": {str(q): round(float(np.quantile(best, q)), 3) for q in shares}}


def sentences():
    """Return (text, number of the subject, number of the noun between) of each template: 0 for one, 1 for several."""
    for line in TEMPLATES.read_text(encoding="utf-8").splitlines():
        *subject, between, one, several = line.split()
        for number, other in itertools.product((0, 1), repeat=2):
            yield f"The {subject[number]} {between} the {(one, several)[other]}", number, other


def agreement(known, tiny):
    """Return how much likelier the right verb is, and what each head has to do with it.

    Heads are chosen on the first half of the templates and tested on the second.
    """
    texts, numbers, between = zip(*list(sentences())[: 16 if tiny else None], strict=True)
    rows = torch.cat([known.encode(text) for text in texts])  # equally many tokens, every noun is one
    numbers, between = np.array(numbers), np.array(between)
    verbs = torch.tensor([[known.tokenizer.encode(v, add_special_tokens=False).ids[0] for v in pair] for pair in VERBS])

    def margin(heads, rows, numbers):
        """Return log-probability of the right verb minus that of the wrong one, mean of the verbs: (sentences,)."""
        with torch.inference_mode(), without_heads(known.model, heads):
            logits = known.model.step(rows, known.model.caches(), last=True)[0][:, -1]
        one_minus_several = (logits[:, verbs[:, 0]] - logits[:, verbs[:, 1]]).mean(1).double().numpy()
        return np.where(numbers == 0, 1, -1) * one_minus_several

    whole, hard = margin((), rows, numbers), numbers != between
    half = np.arange(len(rows)) < len(rows) // 2
    choose, test = hard & half, hard & ~half
    layers, heads = known.config.num_layers, known.config.num_heads
    effects = np.zeros((layers, heads))
    for layer, head in itertools.product(range(1 if tiny else layers), range(heads)):
        effects[layer, head] = (whole[choose] - margin({(layer, head)}, rows[choose], numbers[choose])).mean()
    order, rng = ranked(effects), np.random.default_rng(0)

    def told(heads):
        found = margin(heads, rows[test], numbers[test])
        return {"margin": round(float(found.mean()), 3), "accuracy": round(float((found > 0).mean()), 3)}

    draws = [rng.choice(len(order) - 4, 4, replace=False) + 4 for _ in range(2 if tiny else DRAWS)]
    about = {"templates": len(rows) // 4, "sentences": texts[:4], "verbs": VERBS}
    for name, which in (("same_number", ~hard), ("other_number", hard)):
        about[name] = {
            "margin": round(float(whole[which].mean()), 3),
            "accuracy": round(float((whole[which] > 0).mean()), 3),
        }
        about[name] |= {"sentences": int(which.sum())}
    about |= {
        "effects": table(effects),
        "top_heads": order[:8],
        "tested": {"sentences": int(test.sum()), "whole": told(())},
    }
    for count in (1, 2, 4, 8):
        about["tested"][f"without_top_{count}"] = told(order[:count])
    about["tested"]["without_random_4"] = [told([order[n] for n in draw]) for draw in draws]
    return about | {"on_subject": looks(known, rows[hard], order[:4])}


def looks(known, rows, heads):
    """Return the mean weights of some heads from the last token to each token, in the order of the sentence."""
    maps = known.model.attention_maps(rows).double().numpy()  # (layers, sentences, heads, i, j)
    return {f"{layer}.{head}": [round(float(x), 3) for x in maps[layer, :, head, -1].mean(0)] for layer, head in heads}


PARTS = {part.__name__: part for part in (distances, nuclei, copying, sinks, reach, agreement)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"which: {', '.join(PARTS)}; all by default")
    parser.add_argument("--tiny", action="store_true", help="all parts on less, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = pretrained("smollm2")
    found = {}
    for name in given.parts or PARTS:
        found[name] = PARTS[name](known, given.tiny)
        print(name, {key: value for key, value in found[name].items() if not isinstance(value, list)}, flush=True)
    if given.tiny:
        return
    try:
        kept = {name: part for name, part in result("generation").items() if name in PARTS}
    except ValueError:
        kept = {}
    setting = {"model": known.describe(), "threads": 1, "dtype": "float32", "ablation": "what the head found is zero"}
    save("generation", {"setting": setting, **kept, **found}, note="nats where no other unit is named; nothing trained")


if __name__ == "__main__":
    main()
