"""What the bench of BERT trains and asks: gaps in stretches of characters, pairs of pieces of byte-pair tokens.

Small is meant: two layers, 64 wide, read in stretches of 16 characters.
"""

import math

import torch
from torch.nn import functional as F

from mha import masks
from mha.data import load
from mha.data.tokenizer import BOS, EOS, CharacterTokenizer, train_bpe
from mha.models.bert import BertConfig, BertForPreTraining
from mha.models.masking import masked, masked_loss
from mha.nn.position import sinusoidal

D_MODEL, HEADS, LAYERS, LENGTH, BATCH, WINDOWS = 64, 4, 2, 16, 64, 1024
PIECE, VOCABULARY, PAIRS = 14, 512, 2048
SPECIAL = (0, BOS, EOS)


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
