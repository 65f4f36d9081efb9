"""The training loop: warm-up, clipping, a log, early stop, and a folder that it resumes from."""

import math

import torch

from mha.models.train.device import moved, seeded
from mha.models.train.extra import progress_bar
from mha.models.train.interrupt import interruption
from mha.models.train.optimiser import adamw, learning_rate
from mha.models.train.run import History, Run, check_settings


def train(
    model, batch, loss, *, steps, rate, warmup=100, schedule="cosine", clip=1.0, weight_decay=0.01, seed=0,
    evaluate=None, every=100, patience=None, folder=None, progress=True, device=None,
) -> History:  # fmt: skip
    """Train the model in place with AdamW, leave it in evaluation mode, and return the log.

    `batch(step)`, for steps from 0, gives what `loss(model, batch)` makes a scalar of: as it knows the step, a resumed
    training sees the batches that it would have seen. `rate` is the highest learning rate, see `learning_rate`; longer
    gradients are cut to the length `clip`, unless it is None. `seed` is for dropout; the initial weights are the
    caller's. `device` None is where the model is.

    Each `every` steps and at the end the log gets a row: the mean loss of the steps since the row before, and the
    floats that `evaluate(model)` tells. With `patience` the first of those is to fall: so many rows without a lower
    one end the training, and the model gets the weights of the best row.

    `folder` holds `log.csv` and `checkpoint.safetensors`, written with each row. If the checkpoint is there, training
    goes on from it, and on a CPU every number is the one of a training that was never broken off. Ctrl-C finishes the
    step, saves and raises KeyboardInterrupt; a second one does not wait.
    """
    settings = {
        "steps": steps, "rate": rate, "warmup": warmup, "schedule": schedule, "clip": clip,
        "weight_decay": weight_decay, "seed": seed, "every": every, "patience": patience,
        "evaluate": evaluate is not None,
    }  # fmt: skip
    settings = check_settings(settings)
    device = next(model.parameters()).device if device is None else torch.device(device)
    run = Run(model.to(device), adamw(model, weight_decay), settings, device, folder)
    with seeded(seed, device), interruption() as interrupted:
        run.resume()
        with progress_bar(progress, run.step, steps) as bar:
            while run.step < steps and not run.stalled() and not interrupted:
                now = learning_rate(run.step, settings["rate"], warmup=warmup, schedule=schedule, steps=steps)
                run.losses.append(_step(run, moved(batch(run.step), device), loss, now, clip))
                run.step += 1
                bar.update()
                if run.step % every == 0 or run.step == steps:
                    bar.set_postfix(run.record(now, evaluate))
                    run.save()
        if interrupted:
            run.save()
            raise KeyboardInterrupt
    if run.best:
        model.load_state_dict(run.best)
    model.eval()
    return run.rows


def _step(run, batch, loss, rate, clip):
    """Make one step of the optimiser and return the loss before it."""
    run.model.train()
    run.optimizer.zero_grad(set_to_none=True)
    value = loss(run.model, batch)
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), math.inf if clip is None else clip)
    for name, number in (("loss", value.item()), ("norm of the gradient", norm.item())):
        if not math.isfinite(number):
            raise FloatingPointError(
                f"the {name} is {number} at step {run.step}: expected a finite number; try a lower rate or more warmup"
            )
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.optimizer.step()
    return value.item()
