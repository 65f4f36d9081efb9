"""Time several ways to compute the same thing, taking turns in one process, so that a slow moment meets all of them."""

import statistics
import time

import torch

__all__ = ["grad_of", "medians", "verdict"]

WARM_UP = 5


def medians(contenders, rounds):
    """Return the median seconds that each function keeps this thread busy; who goes first changes."""
    samples = {name: [] for name in contenders}
    names = list(contenders)
    for round_ in range(rounds + WARM_UP):
        turn = round_ % len(names)
        for name in names[turn:] + names[:turn]:
            start = time.thread_time()
            contenders[name]()
            if round_ >= WARM_UP:
                samples[name].append(time.thread_time() - start)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def grad_of(function, inputs, d_out):
    """Return a function that runs the forward pass of `function`, and the backward pass if there is a `d_out`."""
    if d_out is None:
        return torch.no_grad()(function)
    return lambda: torch.autograd.grad(function(), inputs, d_out)


def verdict(limit, holds):
    """Say whether a limit holds; None where there is none."""
    return "" if limit is None else f"limit {limit}: {'holds' if holds else 'MISSED'}"
