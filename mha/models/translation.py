"""Teach an encoder–decoder to translate, and translate: a `Seq2Seq`, a `Recurrent`, or what is called like them."""

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from mha.integers import count
from mha.models.decoding import beam_search, generate
from mha.vocabulary import BOS, EOS, PAD

__all__ = ["translate", "translation_loss"]


def translation_loss(model, batch):
    """Return the mean cross-entropy, in nats, of target tokens given those before.   Book: {eq}`teacher-forcing`.

    `batch` is source and target tokens, (b, j) and (b, i), with PAD behind; each target begins with BOS and ends with
    EOS. The model reads the true tokens, whatever it would have written itself: teacher forcing (Williams & Zipser
    1989).
    """
    source, target = batch
    logits = model(source, target[:, :-1], source_keep=source != PAD)
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


@torch.inference_mode()
def translate(model, sources, longest, *, width=1, length_penalty=1.0) -> list[list[int]]:
    """Return what the model writes for each source, rows of token numbers: the target up to EOS, `longest` at most.

    The model should be in evaluation mode. `width` 1 takes the most probable token each time; more is a beam search,
    of which the best target is returned: see `beam_search`, also for `length_penalty`.
    """
    width = count("width", width, 1)
    if not sources:
        return []
    device = next(model.parameters()).device
    rows = [torch.tensor(row, dtype=torch.long, device=device) for row in sources]
    tokens = pad_sequence(rows, batch_first=True, padding_value=PAD)
    given = model.given(tokens, keep=tokens != PAD)
    start = torch.full((len(tokens), 1), BOS, device=device)
    if width == 1:
        written = generate(given, start, longest, stop=EOS)
    else:
        beams = beam_search(given, start, longest, width=width, length_penalty=length_penalty, stop=EOS)
        written = beams.tokens[:, 0]
    return [_until(row, EOS) for row in written[:, 1:].tolist()]


def _until(row, stop):
    return row[: row.index(stop)] if stop in row else row
