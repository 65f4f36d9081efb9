"""What does reading both ways buy, and does BERT's training show at this size?   python benchmarks/bert.py

A gap: small models read stretches of 16 characters of Moby Dick. Two are trained as masked language models (Devlin et
al. 2019), with the 80/10/10 rule and with every chosen character hidden; one of the same size, weights and batches,
under a causal mask, guesses the next character. Then each fills a gap in held-out chapters, at every place of the
stretch; so do counts of one character, of pairs and of both neighbours. Pairs: the same form on byte-pair tokens is
also asked if the second piece follows the first or is from elsewhere in the book; and cosines of the real MiniLM are
asked which of two sentences is the next (python -m mha.data fetch minilm).

Weights begin larger than BERT's, as the models are narrow, and positions as sinusoids; what a masked model does from
BERT's own start is trained apart. The learning rate of both ways of reading is tuned on
the same grid, by the training loss of shorter runs. Small is meant: two layers, 64 wide.

Each run adds a line to the log, and what is there is not run again; without a log, the whole takes about 5 minutes on
one core. The result file is a summary of the log. `--tiny` trains each model for a few steps and writes nothing.
"""

import argparse
import itertools
import json
import math
import re
import time
from pathlib import Path

import torch
from provenance import commit, save
from torch.nn import functional as F

from mha import masks
from mha.data import load, pretrained
from mha.data.tokenizer import BOS, EOS, CharacterTokenizer, train_bpe
from mha.models.bert import BertConfig, BertForPreTraining
from mha.models.masking import masked, masked_loss
from mha.models.train import train
from mha.nn.position import sinusoidal

D_MODEL, HEADS, LAYERS, LENGTH, BATCH, STEPS, TUNING_STEPS, WARM_UP = 64, 4, 2, 16, 64, 600, 300, 50
RATES, SEEDS, EVERY, WINDOWS = (1.5e-3, 3e-3, 6e-3, 1.2e-2), (0, 1, 2), 50, 1024
PIECE, VOCABULARY, PAIR_STEPS, PAIRS, COSINES = 14, 512, 500, 2048, 200
RULES = {"both": {}, "hidden": {"hidden": 1.0, "random": 0.0}, "left": None}  # None: causal, the next character
SPECIAL = (0, BOS, EOS)
LOG = Path(__file__).parent / "logs/bert.jsonl"


def chapters():
    """Return the chapters to train on, and every tenth, which is held out."""
    texts = load("moby_dick")["text"]
    return [text for n, text in enumerate(texts) if n % 10 != 9], texts[9::10]


def characters():
    """Return the numbers of the characters, to train on and held out, and how many kinds there are, [MASK] the last."""
    parts = chapters()
    tokenizer = CharacterTokenizer([text for part in parts for text in part])
    train_ids, held_out = (torch.tensor(tokenizer.encode("".join(part))) for part in parts)
    return train_ids, held_out, tokenizer.vocab_size + 1


def model_of(ids, vocab_size, length, seed, *, as_bert=False):
    """Return a model whose guesses begin as the frequencies of the tokens.

    Its matrices keep the size of what they read and its positions begin as sinusoids, unless it is to start `as_bert`.
    """
    torch.manual_seed(seed)
    config = BertConfig(vocab_size, 2, length, LAYERS, D_MODEL, HEADS, 4 * D_MODEL, norm_eps=1e-5)
    model = BertForPreTraining(config)
    with torch.no_grad():
        model.word_bias.copy_(frequencies(ids, vocab_size).log())
        if as_bert:
            return model
        for weight in (p for p in model.bert.blocks.parameters() if p.ndim == 2):
            weight.normal_(0, weight.shape[1] ** -0.5)
        model.bert.positions.weight.copy_(0.03 * sinusoidal(torch.arange(length), D_MODEL))
    return model


def frequencies(ids, vocab_size):
    """Return the share of each token, none of them 0."""
    counts = torch.bincount(ids, minlength=vocab_size).double() + 1
    return counts / counts.sum()


def windows(ids, length, count, generator):
    """Return this many stretches, begun anywhere."""
    starts = torch.randint(len(ids) - length + 1, (count,), generator=generator)
    return ids[starts[:, None] + torch.arange(length)]


def gapped(ids, vocab_size, rule):
    """Return the batches and the loss of filling gaps in; without a rule, of guessing the next character."""
    mask = vocab_size - 1

    def batch(step):
        generator = torch.Generator().manual_seed(step)
        tokens = windows(ids, LENGTH, BATCH, generator)
        if rule is None:
            return tokens[:, :-1], tokens[:, 1:]
        return masked(tokens, vocab_size=mask + 1, mask=mask, special=SPECIAL, generator=generator, **rule)

    return batch, lambda model, batch: masked_loss(*guesses(model, *batch, causal=rule is None))


def guesses(model, tokens, targets, *, causal):
    """Return the logits where there is a target, and the targets."""
    asked = targets >= 0
    hidden = model.bert(tokens, mask=masks.causal if causal else None)
    return model.words(hidden[asked]), targets[asked]


@torch.inference_mode()
def gap_losses(model, held_out, *, causal):
    """Return loss and share of right guesses for a gap at each place of a stretch: ((length,), (length,)).

    A causal model guesses from what stands before the gap; it has no guess for the first place.
    """
    mask = model.config.vocab_size - 1
    tokens = windows(held_out, LENGTH, WINDOWS, torch.Generator().manual_seed(0))
    if causal:
        hidden = model.bert(tokens, mask=masks.causal)[:, :-1]
    else:
        gaps = torch.eye(LENGTH, dtype=torch.bool)
        hidden = [model.bert(tokens.masked_fill(gap, mask))[:, gap] for gap in gaps]
        hidden = torch.cat(hidden, dim=1)
    logits = model.words(hidden)
    logits[..., mask] = -math.inf  # not a character
    targets = tokens[:, -logits.shape[1] :]
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    right = logits.argmax(-1) == targets
    return losses.mean(0), right.double().mean(0)


def counted(ids, held_out, vocab_size):
    """Return the loss of counts in nats: of one character, of pairs from the left, of pairs on both sides."""
    p = frequencies(ids, vocab_size)
    pairs = torch.zeros(vocab_size, vocab_size, dtype=torch.double)
    pairs.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1, dtype=torch.double), accumulate=True)
    after = ((pairs + p) / (pairs.sum(1, keepdim=True) + 1)).log()  # Laplace's rule with p as the prior
    tokens = windows(held_out, LENGTH, WINDOWS, torch.Generator().manual_seed(0))
    middle = LENGTH // 2
    before, gap, behind = tokens[:, middle - 1], tokens[:, middle], tokens[:, middle + 1]
    both = after[before] + after[:, behind].T
    found = {"one": p.log().expand(len(gap), -1), "left": after[before], "both": both.log_softmax(-1)}
    return {
        name: measured(-logits[torch.arange(len(gap)), gap], logits.argmax(-1) == gap) for name, logits in found.items()
    }


def measured(losses, right):
    return {"loss": round(float(losses.mean()), 4), "right": round(float(right.double().mean()), 4)}


def pair_data():
    """Return the chapters as tokens, to train on and held out, and the number of kinds, [MASK] the last."""
    parts = chapters()
    tokenizer = train_bpe(parts[0], VOCABULARY)
    return *([torch.tensor(tokenizer.encode(text)) for text in part] for part in parts), tokenizer.vocab_size + 1


def pairs(texts, count, generator):
    """Return [CLS] a [SEP] b [SEP], the segments, and 0 where b follows a, 1 where it is from elsewhere: half each."""
    texts = [text for text in texts if len(text) > 2 * PIECE]
    rows, labels = [], torch.randint(2, (count,), generator=generator)
    for label in labels.tolist():
        first, other = torch.randint(len(texts), (2,), generator=generator).tolist()
        both = windows(texts[first], 2 * PIECE, 1, generator)[0]
        second = windows(texts[other], PIECE, 1, generator)[0] if label else both[PIECE:]
        ends = torch.tensor([BOS]), both[:PIECE], torch.tensor([EOS]), second, torch.tensor([EOS])
        rows.append(torch.cat(ends))
    segments = torch.tensor([0] * (PIECE + 2) + [1] * (PIECE + 1)).expand(count, -1)
    return torch.stack(rows), segments, labels


def paired(texts, vocab_size):
    """Return the batches and the loss of both objectives of BERT."""

    def batch(step):
        generator = torch.Generator().manual_seed(step)
        tokens, segments, labels = pairs(texts, BATCH // 2, generator)
        hidden = masked(tokens, vocab_size=vocab_size, mask=vocab_size - 1, special=SPECIAL, generator=generator)
        return *hidden, segments, labels

    def loss(model, batch):
        tokens, targets, segments, labels = batch
        hidden = model.bert(tokens, segments=segments)
        words = masked_loss(model.words(hidden[targets >= 0]), targets[targets >= 0])
        return words + F.cross_entropy(model.next_sentence(hidden), labels)

    return batch, loss


@torch.inference_mode()
def pair_accuracy(model, texts):
    """Return the share of held-out pairs that are judged rightly, and the loss of their masked tokens."""
    mask, generator = model.config.vocab_size - 1, torch.Generator().manual_seed(0)
    tokens, segments, labels = pairs(texts, PAIRS, generator)
    hidden, targets = masked(tokens, vocab_size=mask + 1, mask=mask, special=SPECIAL, generator=generator)
    judged = model.next_sentence(model.bert(tokens, segments=segments)).argmax(-1)
    words = masked_loss(*guesses(model, hidden, targets, causal=False))
    return {"right": round(float((judged == labels).double().mean()), 4), "masked_loss": round(float(words), 4)}


@torch.inference_mode()
def cosines():
    """Return how often the real encoder finds a sentence nearer to the next one than to one from elsewhere."""
    sentences = [re.split(r"(?<=[.!?])\s+", text) for text in chapters()[1]]
    follow = [
        (a, b) for part in sentences for a, b in itertools.pairwise(part) if min(map(len, (a.split(), b.split()))) >= 5
    ]
    generator, model = torch.Generator().manual_seed(0), pretrained("minilm")
    chosen = torch.randperm(len(follow), generator=generator)[:COSINES].tolist()
    vectors = [[_vector(model, sentence) for sentence in follow[n]] for n in chosen]
    first, second = (torch.stack(side) for side in zip(*vectors, strict=True))
    near, far = (first * second).sum(-1), (first * second.roll(1, 0)).sum(-1)
    return {"right": round(float((near > far).double().mean()), 4), "next": round(float(near.mean()), 4),
            "elsewhere": round(float(far.mean()), 4), "pairs": len(chosen)}  # fmt: skip


def _vector(model, sentence):
    return F.normalize(model.model(model.encode(sentence)[:, :128])[0].mean(0), dim=0)


def trained(model, seed, batch, loss, rate, steps):
    """Train the model; return the mean training loss of each stretch of steps. Seeds differ in batches too."""
    rows = train(model, lambda step: batch(step + 10**6 * seed), loss, steps=steps, rate=rate, warmup=WARM_UP,
                 every=EVERY, progress=False)  # fmt: skip
    return [round(x, 4) for x in rows["loss"]]


def kept(log):
    """Return the lines of the log."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def keep(log, line):
    """Add a line to the log, print and return it."""
    line |= {"commit": commit()}
    print(line, flush=True)
    log.parent.mkdir(exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return line


def known(log, **key):
    """Return the line of the log that has these entries, if there is one."""
    return next((line for line in kept(log) if key.items() <= line.items()), None)


def tuned(kind, log, data):
    """Return the rate whose short run ends with the lowest training loss; no held-out text is looked at."""
    ids, _, vocab_size = data
    found = {}
    for rate in RATES:
        key = {"kind": "tuning", "rule": kind, "rate": rate}
        if (line := known(log, **key)) is None:
            model = model_of(ids, vocab_size, LENGTH, seed=0)
            curve = trained(model, 0, *gapped(ids, vocab_size, RULES[kind]), rate, TUNING_STEPS)
            line = keep(log, key | {"loss": curve[-1]})
        found[rate] = line["loss"]
    return min(found, key=found.get)


def run_gap(kind, seed, log, data):
    """Train one model to fill gaps in, or to guess the next character, and let it fill the gaps of held-out text."""
    key = {"kind": "gap", "rule": kind, "seed": seed}
    if known(log, **key):
        return
    ids, held_out, vocab_size = data
    rate = tuned("left" if kind == "left" else "both", log, data)
    model = model_of(ids, vocab_size, LENGTH, seed)
    started = time.process_time()
    curve = trained(model, seed, *gapped(ids, vocab_size, RULES[kind]), rate, STEPS)
    seconds = round(time.process_time() - started)
    loss, right = gap_losses(model, held_out, causal=RULES[kind] is None)
    by_place = {"loss": [round(float(x), 4) for x in loss], "right": [round(float(x), 4) for x in right]}
    about = {"rate": rate, "parameters": sum(p.numel() for p in model.parameters()), "seconds": seconds}
    keep(log, key | about | {"curve": curve} | by_place)


def run_start(seed, log, data):
    """Train one masked model from weights drawn as BERT draws them."""
    key = {"kind": "start", "seed": seed}
    if known(log, **key):
        return
    ids, held_out, vocab_size = data
    rate = tuned("both", log, data)
    model = model_of(ids, vocab_size, LENGTH, seed, as_bert=True)
    curve = trained(model, seed, *gapped(ids, vocab_size, RULES["both"]), rate, STEPS)
    loss = float(gap_losses(model, held_out, causal=False)[0][LENGTH // 2])
    keep(log, key | {"rate": rate, "curve": curve, "loss": round(loss, 4)})


def run_pairs(seed, log, data):
    """Train one model on both objectives of BERT."""
    key = {"kind": "pairs", "seed": seed}
    if known(log, **key):
        return
    texts, held_out, vocab_size = data
    ids = torch.cat(texts)
    model = model_of(ids, vocab_size, 2 * PIECE + 3, seed)
    curve = trained(model, seed, *paired(texts, vocab_size), RATES[1], PAIR_STEPS)
    unigram = float(-frequencies(ids, vocab_size).log()[torch.cat(held_out)].mean())
    keep(log, key | {"rate": RATES[1], "curve": curve, "unigram": round(unigram, 4)} | pair_accuracy(model, held_out))


def summary(lines):
    """Return what is read of a log: the mean over seeds, the lowest and the highest."""

    def over_seeds(values):
        return {"mean": round(sum(values) / len(values), 4), "low": min(values), "high": max(values)}

    table = {}
    for kind in RULES:
        runs = [line for line in lines if (line["kind"], line.get("rule")) == ("gap", kind)]
        middle = LENGTH // 2 - (kind == "left")
        table[kind] = {name: over_seeds([run[name][middle] for run in runs]) for name in ("loss", "right")}
        table[kind]["by_place"] = [
            over_seeds(values)["mean"] for values in zip(*(run["loss"] for run in runs), strict=True)
        ]
        table[kind]["curve"] = [
            over_seeds(values)["mean"] for values in zip(*(run["curve"] for run in runs), strict=True)
        ]
        table[kind] |= {name: runs[0][name] for name in ("rate", "parameters")}
    runs = [line for line in lines if line["kind"] == "start"]
    table["as_bert"] = {"loss": over_seeds([run["loss"] for run in runs])}
    curves = zip(*(run["curve"] for run in runs), strict=True)
    table["as_bert"]["curve"] = [over_seeds(values)["mean"] for values in curves]
    runs = [line for line in lines if line["kind"] == "pairs"]
    told = {name: over_seeds([run[name] for run in runs]) for name in ("right", "masked_loss", "unigram")}
    others = {line["kind"]: line for line in lines if line["kind"] in ("counts", "cosines")}
    return {"gap": table, "pairs": told} | {name: line["found"] for name, line in others.items()}


def tiny():
    """Train each model for a few steps."""
    ids, held_out, vocab_size = characters()
    for kind, rule in RULES.items():
        model = model_of(ids, vocab_size, LENGTH, seed=0)
        curve = trained(model, 0, *gapped(ids, vocab_size, rule), RATES[0], 2)
        print(kind, curve, gap_losses(model, held_out[: 4 * LENGTH], causal=rule is None)[0].tolist())
    texts, held_out, vocab_size = pair_data()
    model = model_of(torch.cat(texts), vocab_size, 2 * PIECE + 3, seed=0)
    print(trained(model, 0, *paired(texts, vocab_size), RATES[0], 2), pair_accuracy(model, held_out))


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--tiny", action="store_true", help="a few steps of each, nothing written")
    torch.set_num_threads(1)
    if options.parse_args().tiny:
        return tiny()
    data = characters()
    if not known(LOG, kind="counts"):
        keep(LOG, {"kind": "counts", "found": counted(*data)})
    for seed in SEEDS:
        for kind in RULES:
            run_gap(kind, seed, LOG, data)
        run_start(seed, LOG, data)
    data = pair_data()
    for seed in SEEDS:
        run_pairs(seed, LOG, data)
    if not known(LOG, kind="cosines"):
        keep(LOG, {"kind": "cosines", "found": cosines()})
    setting = {
        "d_model": D_MODEL, "heads": HEADS, "layers": LAYERS, "length": LENGTH, "batch": BATCH, "steps": STEPS,
        "tuning_steps": TUNING_STEPS, "rates": RATES, "seeds": SEEDS, "windows": WINDOWS, "every": EVERY,
        "piece": PIECE, "vocabulary": VOCABULARY, "pair_steps": PAIR_STEPS, "pairs": PAIRS,
    }  # fmt: skip
    note = "held-out loss in nats and share of right guesses, in the middle of a stretch; mean, low and high of seeds"
    save("bert", {"setting": setting, **summary(kept(LOG))}, note=note)


if __name__ == "__main__":
    main()
