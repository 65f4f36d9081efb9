"""The masked language model of BERT (Devlin et al. 2019): what is hidden from it, and the loss of what it guesses."""

import torch
from torch.nn import functional as F

__all__ = ["IGNORED", "masked", "masked_loss"]

IGNORED = -100  # the target where nothing is to be guessed: `torch.nn.functional.cross_entropy` leaves it out


def masked(tokens, *, vocab_size, mask, special=(), chosen=0.15, hidden=0.8, random=0.1, generator=None):
    """Return the tokens with some corrupted, and as targets what stood there.   Book: {eq}`masked-corruption`.

    Every token but the special ones, such as padding, is chosen with probability `chosen`. Of the chosen, a share
    `hidden` becomes the token `mask`, a share `random` another ordinary token, each equally likely, and the rest stays
    as it is. Targets are `IGNORED` where a token was not chosen. Both are long and of the shape of `tokens`.
    Devlin et al. (2019, section 3.1 and appendix A.1).
    """
    _check(tokens, vocab_size, mask, chosen, hidden, random)
    special = torch.tensor(sorted({mask, *special}), device=tokens.device)
    draw = torch.rand(2, *tokens.shape, generator=generator, device=tokens.device)
    is_chosen = (draw[0] < chosen) & ~torch.isin(tokens, special)
    ordinary = torch.arange(vocab_size, device=tokens.device)
    ordinary = ordinary[~torch.isin(ordinary, special)]
    place = torch.randint(len(ordinary), tokens.shape, generator=generator, device=tokens.device)
    corrupted = torch.where(is_chosen & (draw[1] < hidden), mask, tokens)
    corrupted = torch.where(is_chosen & (draw[1] >= hidden) & (draw[1] < hidden + random), ordinary[place], corrupted)
    return corrupted, torch.where(is_chosen, tokens, IGNORED)


def masked_loss(logits, targets):
    """Return the mean cross-entropy of the guesses, in nats, where there is a target.   Book: {eq}`masked-loss`.

    `logits` are (…, vocab), `targets` (…) from `masked`. Without any target the loss is 0, with a gradient of 0.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(f"targets has shape {tuple(targets.shape)}: expected {tuple(logits.shape[:-1])}, like logits")
    total = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (targets != IGNORED).sum().clamp(min=1)


def _check(tokens, vocab_size, mask, chosen, hidden, random):
    if tokens.dtype != torch.long:
        raise TypeError(f"tokens has dtype {tokens.dtype}: expected torch.long, token numbers")
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise ValueError(f"tokens holds {int(tokens.min())} to {int(tokens.max())}: expected 0 to {vocab_size - 1}")
    if not 0 <= mask < vocab_size:
        raise ValueError(f"mask is {mask}: expected a token number from 0 to {vocab_size - 1}")
    for name, share in (
        ("chosen", chosen),
        ("hidden", hidden),
        ("random", random),
        ("hidden + random", hidden + random),
    ):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}: expected a share from 0 to 1")
