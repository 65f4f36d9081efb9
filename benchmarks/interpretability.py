"""What do methods that explain a model say, also of noise?   python benchmarks/interpretability.py [PART ...]

SmolLM2-135M-Instruct and MiniLM-L6, and the control of each: the same model with the entries of every weight matrix
shuffled (after Adebayo et al. 2018), which knows nothing and has weights of the same sizes. Parts: `tokens`, which word
of a sentence decides the number of its verb, by nine methods; `heads`, which heads bring it there, by patching, and
what their weights say; `copying`, the same for random tokens said twice; `book`, the weights of 32 tokens against what
hiding each of them does; `probes` of labels with controls (Hewitt and Liang 2019). About 10 minutes on one core. A part
that is named takes the place of the same part in the result file. `--tiny` runs all on less, writes nothing.
"""

import argparse
import copy
import itertools
import time

import numpy as np
import torch
from generation import PASSAGES, VERBS, said_twice, sentences
from provenance import save

from mha import masks
from mha.analysis import (
    attention_flow,
    attention_rollout,
    capture,
    gradient_times_input,
    gradient_times_weights,
    integrated_gradients,
    leave_one_out,
    of_embeddings,
    patched_heads,
    probe_scores,
    split_tokens,
    split_types,
    value_norms,
)
from mha.analysis.metrics import rank_correlation
from mha.analysis.probe import ProbeScores
from mha.data import load, pretrained, result

SENTENCES, SHOWN, STEPS = 24, 8, 32
COPIED, DRAWS = 16, 4
LENGTH, PASSAGE_COUNT = 32, 8
ENDINGS = ("ing", "ed", "ly", "s")
SEEDS, RIDGE = range(3), 100.0


def shuffled(model, seed=0):
    """Return a copy of the model with the entries of each matrix in a random order."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            if parameter.ndim > 1:
                order = torch.randperm(parameter.numel(), generator=generator)
                parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return other.eval()


def hard_pairs(known, count):
    """Return sentences whose nouns differ in number and the same with the other subject, singular first in turns.

    Also the sign of the score: 1 where the first of the pair wants the plural verb.
    """
    by_numbers = {}
    for n, (text, number, between) in enumerate(sentences()):
        by_numbers[n // 4, number, between] = text
    templates = np.linspace(0, 49, count).astype(int)
    texts = [by_numbers[t, n % 2, 1 - n % 2] for n, t in enumerate(templates)]
    others = [by_numbers[t, 1 - n % 2, 1 - n % 2] for n, t in enumerate(templates)]
    rows, swapped = (torch.cat([known.encode(text) for text in which]) for which in (texts, others))
    return texts, rows, swapped, torch.tensor([2 * (n % 2) - 1 for n in range(count)])


def verb_score(known, signs):
    """Return the score of the model's output: log-probability of the right verb minus that of the wrong one."""
    ids = [[known.tokenizer.encode(verb, add_special_tokens=False).ids[0] for verb in pair] for pair in VERBS]
    verbs = torch.tensor(ids)
    return lambda logits: signs * (logits[:, -1, verbs[:, 1]] - logits[:, -1, verbs[:, 0]]).mean(1)


def runs_from(model, rows):
    """Return what each block of a decoder reads, and the function that runs the blocks from there on."""
    states = [model.embed(rows)]
    for block in model.blocks:
        states.append(block(states[-1], mask=masks.causal))

    def rest(x, layer):
        for block in model.blocks[layer:]:
            x = block(x, mask=masks.causal)
        return model.logits(x[:, -1:])

    return states, rest


@torch.no_grad()
def head_changes(model, rows, swapped, score, positions=None):
    """Return `patching_effects(…, normalised=False)`, without the blocks below the patch: (layers, heads, samples)."""
    with capture(model, detach=True) as clean:
        model(rows)
    (states, rest), found = runs_from(model, swapped), []
    start = score(rest(states[-1], len(model.blocks)))
    for layer in range(len(model.blocks)):
        for head in range(model.config.num_heads):
            with patched_heads(model, {(layer, head)}, clean, positions=positions):
                found.append(score(rest(states[layer], layer)) - start)
    return torch.stack(found).double().view(len(model.blocks), -1, len(rows)).numpy()


@torch.no_grad()
def stream_changes(model, rows, swapped, score):
    """Return `stream_patching_effects(…, normalised=False)` in the same way: (layers + 1, length, samples)."""
    clean, _ = runs_from(model, rows)
    (states, rest), found = runs_from(model, swapped), []
    start = score(rest(states[-1], len(model.blocks)))
    for layer, (ours, theirs) in enumerate(zip(states, clean, strict=True)):
        for place in range(rows.shape[1]):
            x = ours.clone()
            x[:, place] = theirs[:, place]
            found.append(score(rest(x, layer)) - start)
    return torch.stack(found).double().view(len(states), -1, len(rows)).numpy()


@torch.no_grad()
def looks(model, rows):
    """Return weights and value norms of the last query: two arrays (layers, sentences, heads, keys), and all maps."""
    with capture(model, detach=True) as seen:
        model(rows)
    weights = np.stack([call.weights.double().numpy() for call in seen.calls])
    norms = np.stack([value_norms(call)[..., -1, :].double().numpy() for call in seen.calls])
    return weights[..., -1, :], norms, weights


def token_scores(model, rows, score, steps):
    """Return {method: (sentences, tokens)}: how much each token has to do with the score at the last one."""
    last, norms, maps = looks(model, rows)
    merged = maps.mean(2)  # (layers, sentences, i, j)
    weights = gradient_times_weights(model, rows, score)
    function, x = of_embeddings(model, rows, score), model.embed(rows).detach()
    mean = model.embed.weight.detach().mean(0)
    path = integrated_gradients(function, x, baseline=mean, steps=steps)
    with torch.no_grad():
        rise = function(x) - function(mean.expand_as(x))
    found = {
        "last_layer": last[-1].mean(1),
        "mean_map": last.mean((0, 2)),
        "value_norms": norms.mean((0, 2)),
        "rollout": attention_rollout(merged)[-1, :, -1],
        "flow": np.stack([attention_flow(merged[:, n], -1) for n in range(len(rows))]),
        "gradient_weights": weights.sum((0, 2, 3)).numpy(),
        "gradient_input": gradient_times_input(function, x).numpy(),
        "integrated_gradients": path.attribution.numpy(),
        "leave_one_out": leave_one_out(model, rows, score).numpy(),
    }
    return found, (path.error.abs() / rise.abs()).median().item()


def tokens(known, tiny):
    """Return what each method says of the tokens, with how often the subject comes first, and the same of noise."""
    count = 2 if tiny else SENTENCES
    texts, rows, _, signs = hard_pairs(known, count)
    score, models = verb_score(known, signs), {"trained": known.model, "shuffled": shuffled(known.model)}
    about = {"sentences": texts[:SHOWN], "tokens": [known.tokens(row) for row in rows[:SHOWN]], "steps": STEPS}
    about["integral_error"], about["shown"], about["subject_first"], about["with_leave_one_out"] = {}, {}, {}, {}
    for name, model in models.items():
        scores, error = token_scores(model, rows, score, 2 if tiny else STEPS)
        about["integral_error"][name] = short(error)
        about["shown"][name] = {method: short(values[:SHOWN]) for method, values in scores.items()}
        first = {method: abs(values[:, 1:]).argmax(1) == 1 for method, values in scores.items()}  # not of <start>
        about["subject_first"][name] = {method: round(float(hit.mean()), 3) for method, hit in first.items()}
        about["with_leave_one_out"][name] = {
            method: spread(rank_correlation(abs(a[1:]), abs(b[1:])) for a, b in zip(values, left, strict=True))
            for left in [scores["leave_one_out"]]
            for method, values in scores.items()
            if method != "leave_one_out"
        }
    return about | {"count": count}


def weight_and_effect(weights, norms, effects):
    """Return how the weights of heads go with their effects, in each sample: all are (layers, heads, samples)."""
    samples = range(effects.shape[-1])
    pairs = {"weight_effect": weights, "value_norm_effect": norms}
    found = {}
    for name, values in pairs.items():
        flat, moved = values.reshape(-1, len(samples)), abs(effects).reshape(-1, len(samples))
        top = [set(np.argsort(-x)[:10]) & set(np.argsort(-y)[:10]) for x, y in zip(flat.T, moved.T, strict=True)]
        found[name] = spread(rank_correlation(flat[:, n], moved[:, n]) for n in samples)
        found[name] |= {"top_10_shared": spread(map(len, top))}
        found[name]["of_means"] = short(rank_correlation(flat.mean(1), abs(effects.mean(-1)).ravel()))
    return found


def heads(known, tiny):
    """Return what each head restores of the right number at the verb, and what its look at the subject says of it."""
    about = {}
    for name, count in (("trained", SENTENCES), ("shuffled", SENTENCES // 3)):
        count = 1 if tiny else count
        _, rows, swapped, signs = hard_pairs(known, count)
        model, score = known.model if name == "trained" else shuffled(known.model), verb_score(known, signs)
        with torch.no_grad():
            clean, corrupted = score(model(rows)), score(model(swapped))
        effects = head_changes(model, rows, swapped, score, positions=[-1])
        last, norms, _ = looks(model, rows)
        subject = (x[..., 2].transpose(0, 2, 1) for x in (last, norms))
        share = effects.mean(-1) / float((clean - corrupted).mean())
        about[name] = {"count": count, "clean": short(clean.mean()), "corrupted": short(corrupted.mean())}
        about[name] |= {"share": short(share), "weight_on_subject": short(last[..., 2].mean(1))}
        about[name] |= weight_and_effect(*subject, effects)
    return about | {"stream": streams(known, tiny)}


def streams(known, tiny):
    """Return what the state of one token restores, before the first layer and after each: the way of the number."""
    _, rows, swapped, signs = hard_pairs(known, 1 if tiny else SHOWN)
    score = verb_score(known, signs)
    with torch.no_grad():
        gap = (score(known.model(rows)) - score(known.model(swapped))).mean()
    found = stream_changes(known.model, rows, swapped, score)
    return {"count": len(rows), "share": short(found.mean(-1) / gap)}


def copying(known, tiny):
    """Return what each head restores when the first copy of random tokens is another one, and what its map says."""
    words = 4 if tiny else COPIED
    about = {"words": words}
    for name, count in (("trained", DRAWS), ("shuffled", 1)):
        model = known.model if name == "trained" else shuffled(known.model)
        rows = said_twice(known, range(1 if tiny else count), words)[:, :-1]
        swapped, place = rows.clone(), torch.arange(len(rows))
        swapped[:, 1 : words + 1] = said_twice(known, range(100, 100 + len(rows)), words)[:, 1 : words + 1]
        targets = rows[:, words]  # what stood behind the last token of `rows` the first time

        def score(logits, place=place, targets=targets):
            return torch.log_softmax(logits[:, -1], -1)[place, targets]

        with torch.no_grad():
            clean, corrupted = score(model(rows)), score(model(swapped))
        effects = head_changes(model, rows, swapped, score)
        last, norms, _ = looks(model, rows)
        looked = (x[..., words].transpose(0, 2, 1) for x in (last, norms))
        share = effects.mean(-1) / float((clean - corrupted).mean())
        about[name] = {"count": len(rows), "clean": short(clean.mean()), "corrupted": short(corrupted.mean())}
        about[name] |= {"share": short(share), "weight_on_target": short(last[..., words].mean(1))}
        about[name] |= weight_and_effect(*looked, effects)
    return about


def book(known, tiny):
    """Return how the weight of a token goes with what hiding it does, in passages of the book, also under noise."""
    count, length = (2, 8) if tiny else (PASSAGE_COUNT, LENGTH)
    chapters = load("moby_dick")["text"]
    starts = [(n * 7919) % 3000 for n in range(count)]
    texts = [chapters[PASSAGES[n % len(PASSAGES)] - 1][start:] for n, start in enumerate(starts)]
    rows = torch.cat([known.encode(text[text.index(" ") :][: 8 * length])[:, :length] for text in texts])
    about, found = {"count": count, "tokens": length}, {}
    for name, model in {"trained": known.model, "shuffled": shuffled(known.model)}.items():
        with torch.no_grad():
            best = model(rows)[:, -1].argmax(-1)

        def score(logits, best=best):
            return torch.log_softmax(logits[:, -1], -1)[torch.arange(len(best)), best]

        last, norms, maps = looks(model, rows)
        found[name] = {
            "last_layer": last[-1].mean(1),
            "mean_map": last.mean((0, 2)),
            "value_norms": norms.mean((0, 2)),
            "rollout": attention_rollout(maps.mean(2))[-1, :, -1],
            "gradient_weights": abs(gradient_times_weights(model, rows, score).sum((0, 2, 3)).numpy()),
            "gradient_input": abs(
                gradient_times_input(of_embeddings(model, rows, score), model.embed(rows).detach()).numpy()
            ),
            "leave_one_out": abs(leave_one_out(model, rows, score).numpy()),
        }
    for title, saying, moving in (
        ("trained", "trained", "trained"),
        ("shuffled", "shuffled", "shuffled"),
        ("shuffled_on_trained", "shuffled", "trained"),
    ):
        effects = found[moving]["leave_one_out"]
        about[title] = {
            method: {
                "tokens": spread(map(rank_correlation, values[:, 1:-1], effects[:, 1:-1])),
                "with_start": spread(map(rank_correlation, values[:, :-1], effects[:, :-1])),
            }
            for method, values in found[saying].items()
            if (saying, method) != (moving, "leave_one_out")
        }
    return about


def ending(word):
    """Return which of the endings a word has, a stand-in for its part of speech; none of them is an empty one."""
    return next((end for end in ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "")


def words_of_book(tiny):
    """Return an encoder, token numbers of the book in stretches, and (row, column, word, ending) of whole words."""
    known = pretrained("minilm")
    chapters, length = load("moby_dick")["text"], 128
    texts = [chapter[2000:4000].lower() for chapter in chapters if len(chapter) > 5000][: 3 if tiny else 100]
    rows = torch.cat([known.encode(text)[:, :length] for text in texts])
    places = []
    for r, row in enumerate(rows):
        pieces = [known.tokenizer.id_to_token(int(number)) for number in row]
        for c, (word, after) in enumerate(itertools.pairwise(pieces)):
            if word.isalpha() and ending(word) and not after.startswith("##"):
                places.append((r, c, word, ending(word)))
    return known, rows, places


@torch.no_grad()
def states(model, rows):
    """Return what enters the first block and what each block leaves: (layers + 1, rows, length, d_model)."""
    found = []
    hooks = [model.blocks[0].register_forward_pre_hook(lambda part, given: found.append(given[0]))]
    hooks += [block.register_forward_hook(lambda part, given, output: found.append(output)) for block in model.blocks]
    model(rows)
    for hook in hooks:
        hook.remove()
    return torch.stack(found).double().numpy()


def probed(features, labels, words, split):
    """Return the scores of probes of each layer, the mean of several seeds and their spread."""
    about = {name: [] for name in (*ProbeScores._fields, "low", "high")}
    for layer in features:
        runs = []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            runs.append(probe_scores(layer, labels, words, split(words, rng), rng, ridge=RIDGE))
        means = np.mean(runs, axis=0)
        for name, value in zip(ProbeScores._fields, means, strict=True):
            about[name].append(round(float(value), 3))
        about["low"].append(round(min(run.accuracy for run in runs), 3))
        about["high"].append(round(max(run.accuracy for run in runs), 3))
    return about


def probes(known, tiny):
    """Return what linear probes find of a word's ending and of the number of a subject."""
    encoder, rows, places = words_of_book(tiny)
    r, c, words, endings = (np.array(column) for column in zip(*places, strict=True))
    about = {"words": len(words), "types": len(set(words)), "ridge": RIDGE, "ending": {}, "number": {}}
    for name, model in {"trained": encoder.model, "shuffled": shuffled(encoder.model)}.items():
        features = states(model, rows)[:, r, c]
        splits = {"by_token": split_tokens, "by_type": split_types}
        about["ending"][name] = {title: probed(features, endings, words, split) for title, split in splits.items()}
    texts, numbers, _ = zip(*sentences(), strict=True)
    rows = torch.cat([known.encode(text) for text in texts])
    lemmas = np.arange(len(texts)) // 4
    for name, model in {"trained": known.model, "shuffled": shuffled(known.model)}.items():
        features = states(model, rows)
        places = {"at_subject": 2, "at_verb": 5}
        about["number"][name] = {
            place: probed(features[:: 5 if tiny else 1, :, column], np.array(numbers), lemmas, split_types)
            for place, column in places.items()
        }
    return about


def short(x):
    """Return numbers with four digits, as lists."""
    rounded = np.vectorize(lambda number: float(f"{number:.4g}"))(np.asarray(x, np.float64))
    return rounded.tolist()


def spread(values):
    """Return the mean of some numbers and where the middle half of them and all of them lie."""
    values = np.array(list(values), np.float64)
    low, first, third, high = np.quantile(values, (0, 0.25, 0.75, 1))
    return {
        name: short(x)
        for name, x in {
            "mean": values.mean(),
            "low": low,
            "first_quarter": first,
            "third_quarter": third,
            "high": high,
        }.items()
    }


PARTS = {part.__name__: part for part in (tokens, heads, copying, book, probes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"which: {', '.join(PARTS)}; all by default")
    parser.add_argument("--tiny", action="store_true", help="all parts on two blocks and less, nothing written")
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = pretrained("smollm2")
    if given.tiny:
        known.model.blocks = known.model.blocks[:2]
    for name in given.parts or PARTS:
        start = time.process_time()
        part = PARTS[name](known, given.tiny)
        print(f"{name}: {time.process_time() - start:.0f} s", flush=True)
        if not given.tiny:
            keep(known, name, part)


def keep(known, name, part):
    """Put the part into the result file, in place of the same part."""
    try:
        kept = {name: part for name, part in result("interpretability").items() if name in PARTS}
    except ValueError:
        kept = {}
    setting = {"model": known.describe(), "encoder": pretrained("minilm").describe(), "threads": 1}
    setting |= {"control": "the entries of every matrix shuffled, norms kept", "score": "log-odds of the right verb"}
    parts = {"setting": setting, **kept, name: part}
    save("interpretability", parts, note="nothing trained but the linear probes")


if __name__ == "__main__":
    main()
