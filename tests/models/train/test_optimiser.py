"""Schedules against torch's own, and what decays."""

import pytest
import torch

from compare import assert_equal
from mha.models.train import learning_rate
from mha.models.train.optimiser import adamw


def torch_rates(steps, warmup, after):
    """Rates by torch's schedulers: a linear one for the warm-up, then another."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    schedule = after(optimizer)
    if warmup > 1:  # torch's linear rise starts at 1/warmup and needs no step to have done so
        rise = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, schedule], [warmup])
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
def test_equals_torch(warmup, schedule):
    kinds = {
        "constant": lambda optimizer: torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0),
        "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=53 - warmup),
    }
    ours = [learning_rate(step, 0.3, warmup=warmup, schedule=schedule, steps=53) for step in range(53)]
    assert_equal(ours, torch_rates(53, warmup, kinds[schedule]), rtol=1e-12)


def test_inverse_square_root_is_the_papers():
    """Vaswani et al. 2017, equation 3, with steps from 1; its peak is d_model^−0.5 · warmup^−0.5."""
    d_model, warmup = 512, 11
    paper = [d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in range(1, 100)]
    peak = (d_model * warmup) ** -0.5
    ours = [learning_rate(step, peak, warmup=warmup, schedule="inverse_sqrt", steps=99) for step in range(99)]
    assert_equal(ours, paper, rtol=1e-12)


def test_a_warm_up_longer_than_the_training_only_rises():
    assert_equal([learning_rate(step, 1.0, warmup=5, schedule="cosine", steps=3) for step in range(3)], [0.2, 0.4, 0.6])


def test_matrices_decay_and_vectors_do_not():
    model = torch.nn.Sequential(torch.nn.Embedding(3, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 7))
    matrices, vectors = adamw(model, 0.1).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert [tuple(p.shape) for p in matrices["params"]] == [(3, 5), (7, 5)]
    assert [tuple(p.shape) for p in vectors["params"]] == [(5,), (5,), (7,)]
