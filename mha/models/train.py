"""One training loop for every model here: warm-up, clipping, a log, early stop, and a folder that it resumes from."""

import math

import torch

from mha.data.unavailable import missing_package
from mha.models.run import Run, check_settings, interruption, seeded

__all__ = ["History", "learning_rate", "train"]


class History(list):
    """The rows of the log, dicts of `step`, `loss`, `rate` and what `evaluate` told; `history["loss"]` is a column."""

    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def train(
    model, batch, loss, *, steps, rate, warmup=100, schedule="cosine", clip=1.0, weight_decay=0.01, seed=0,
    evaluate=None, every=100, patience=None, folder=None, progress=True, device=None,
) -> History:  # fmt: skip
    """Train the model in place, and leave it in evaluation mode.

    `batch(step)`, for steps from 0, gives what `loss(model, batch)` makes a scalar of; as it knows the step, a training
    that is resumed sees the batches that it would have seen. AdamW (Loshchilov & Hutter 2019), with the second moment's
    0.98 of Vaswani et al. 2017; weights decay where they are matrices, not in biases and norms. `rate` is the highest
    one: see `learning_rate`. Gradients longer than `clip` are shortened to it. `seed` is for dropout: the caller has
    initialised the model. The random state outside stays as it was.

    Each `every` steps, and behind the last one, the log gets a row: the mean loss of the steps since the row before,
    and what `evaluate(model)`, a dict of floats, tells. With `patience` the first of those is the one to be lowered:
    so many rows without a lower one end the training, and the weights of the best row are the model's.

    `folder` holds `log.csv` and `checkpoint.safetensors`, written with each row. If it has a checkpoint, training goes
    on from there, and on a CPU every number is the one of a training that was never broken off. Ctrl-C finishes the
    step, saves and raises KeyboardInterrupt; a second one does not wait. `device` None means where the model is.
    """
    settings = {
        "steps": steps, "rate": rate, "warmup": warmup, "schedule": schedule, "clip": clip,
        "weight_decay": weight_decay, "seed": seed, "every": every, "patience": patience,
        "evaluate": evaluate is not None,
    }  # fmt: skip
    check_settings(settings)
    device = next(model.parameters()).device if device is None else torch.device(device)
    run = Run(model.to(device), _adamw(model, weight_decay), settings, device)
    with seeded(seed, device), interruption() as interrupted:
        run.resume(folder)
        with _bar(progress, run.step, steps) as bar:
            while run.step < steps and not run.stalled():
                now = learning_rate(run.step, rate, warmup=warmup, schedule=schedule, steps=steps)
                run.losses.append(_step(run, _moved(batch(run.step), device), loss, now, clip))
                run.step += 1
                bar.update()
                if run.step % every == 0 or run.step == steps:
                    bar.set_postfix(run.record(now, evaluate))
                    run.save(folder)
                if interrupted:
                    run.save(folder)
                    raise KeyboardInterrupt
    if run.best:
        model.load_state_dict(run.best)
    model.eval()
    return History(run.rows)


def learning_rate(step, rate, *, warmup, schedule, steps):
    """Return the rate of a step from 0: a linear rise over `warmup` steps to `rate`, then what the schedule says.

    "constant"; "cosine", half a wave down to 0 behind the last step (Loshchilov & Hutter 2017); "inverse_sqrt",
    rate · √(warmup / step) (Vaswani et al. 2017).
    """
    if step < warmup:
        return rate * (step + 1) / warmup
    if schedule == "cosine":
        return rate * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2
    return rate * math.sqrt(max(1, warmup) / (step + 1)) if schedule == "inverse_sqrt" else rate


def _adamw(model, weight_decay):
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices, others = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.98))


def _step(run, batch, loss, rate, clip):
    """Make one step of the optimiser and return the loss before it."""
    run.model.train()
    run.optimizer.zero_grad(set_to_none=True)
    value = loss(run.model, batch)
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), math.inf if clip is None else clip)
    for name, number in (("loss", value.item()), ("gradient's norm", norm.item())):
        if not math.isfinite(number):
            raise FloatingPointError(
                f"the {name} is {number} at step {run.step}: expected a finite number; try a lower rate or more warmup"
            )
    for group in run.optimizer.param_groups:
        group["lr"] = rate
    run.optimizer.step()
    return value.item()


def _moved(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: _moved(value, device) for name, value in batch.items()}
    return type(batch)(_moved(value, device) for value in batch) if isinstance(batch, tuple | list) else batch


def _bar(progress, step, steps):
    """Return a progress bar, which says nothing where the output is no terminal."""
    try:
        from tqdm import tqdm
    except ImportError as absent:
        raise missing_package(absent) from None
    return tqdm(initial=step, total=steps, disable=None if progress else True, leave=False)
