"""A training of a tenth of a second: three classes of random points, with dropout, so that random numbers count."""

import os
import signal
import sys

import torch

from mha.models.train import train

STEPS, EVERY = 45, 10
SETTINGS = {"steps": STEPS, "rate": 1e-2, "warmup": 5, "every": EVERY, "progress": False}


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Dropout(0.2), torch.nn.Linear(7, 3))


def batch(step):
    random = torch.Generator().manual_seed(step)
    return torch.randn(11, 5, generator=random), torch.randint(0, 3, (11,), generator=random)


def loss(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y)


def evaluate(model):
    return {"validation": loss(model, batch(10**6)).item(), "norm": model[0].weight.norm().item()}


def trained(**settings):
    """Return the model and the log of a training, by these settings instead of the usual ones."""
    one = model()
    return one, train(one, **({"batch": batch, "loss": loss, "evaluate": evaluate} | SETTINGS | settings))


def killed(folder, step):
    """Train until the batch of this step, which kills the process."""

    def last_batch(now):
        if now == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch(now)

    trained(batch=last_batch, folder=folder)


if __name__ == "__main__":
    killed(sys.argv[1], int(sys.argv[2]))
