"""The state of a training: all that the next step depends on, in one file that is there whole or not at all."""

import csv
import json
import math
import os
from collections import defaultdict
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from mha.integers import count, integer
from mha.models.train.device import random_state, set_random_state
from mha.models.train.extra import needed
from mha.models.train.optimiser import SCHEDULES
from mha.nn import checks


class History(list):
    """The rows of the log, dicts of `step`, `loss`, `rate` and what `evaluate` told; `history["loss"]` is a column."""

    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


class Run:
    """A model in training: `step` steps are done, `rows` are the log, `losses` those since the last row."""

    def __init__(self, model, optimizer, settings, device, folder):
        self.model, self.optimizer, self.settings, self.device = model, optimizer, settings, device
        self.folder = None if folder is None else Path(folder)
        self.step = 0
        self.rows = History()
        self.losses: list[float] = []
        self.best: dict[str, torch.Tensor] = {}

    def record(self, rate, evaluate):
        """Add a row to the log and return it; with patience, keep the weights if they are the best."""
        row = {"step": self.step, "loss": sum(self.losses) / len(self.losses), "rate": rate}
        if evaluate is not None:
            self.model.eval()
            with torch.no_grad():
                told = evaluate(self.model)
            _check_told(told, row, self.rows)
            row |= {name: float(value) for name, value in told.items()}
        self._check_judged(row)
        self.rows.append(row)
        self.losses.clear()
        if self.settings["patience"] is not None and self._rows_since_best() == 0:
            self.best = _copied(self.model.state_dict())
        return row

    def stalled(self):
        """Tell whether patience has ended."""
        patience = self.settings["patience"]
        return patience is not None and bool(self.rows) and self._rows_since_best() >= patience

    def _rows_since_best(self):
        values = [_judged(row)[1] for row in self.rows]
        return len(values) - 1 - values.index(min(values))

    def _check_judged(self, row):
        patience, (name, value) = self.settings["patience"], _judged(row)
        if patience is not None and math.isnan(value):
            raise FloatingPointError(f"{name} is nan at step {self.step}: expected a number, for patience={patience}")

    def save(self):
        """Put the state into the folder, in the place of the one before."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors |= {f"random.{name}": value for name, value in random_state(self.device).items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in moments.items()}
        rest = {"settings": self.settings, "step": self.step, "rows": self.rows, "losses": self.losses}
        with _replacing(self.folder / "checkpoint.safetensors") as path:
            needed("safetensors.torch").save_file(_copied(tensors), path, {"run": json.dumps(rest)})
        self._write_log()

    def _write_log(self):
        columns = list(self.rows[0]) if self.rows else ["step", "loss", "rate"]
        with _replacing(self.folder / "log.csv") as path, path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def resume(self):
        """Take up the state that the folder holds, if there is one."""
        if self.folder is None or not (path := self.folder / "checkpoint.safetensors").exists():
            return
        rest, tensors = _read(path)
        self._check(rest["settings"], tensors["model"])
        self.model.load_state_dict(tensors["model"])
        moments: dict[int, dict[str, Any]] = defaultdict(dict)
        for name, value in tensors["optimizer"].items():
            number, name = name.split(".")
            moments[int(number)][name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        set_random_state(tensors["random"], self.device)
        self.step, self.rows, self.losses = rest["step"], History(rest["rows"]), rest["losses"]
        self.best = dict(tensors["best"])
        self._write_log()  # which may have been cut off between the checkpoint and itself

    def _check(self, settings, weights):
        """Raise unless the folder holds a training with our settings and of a model with our shapes."""
        held = f"as in the training that {self.folder} holds; for another training give another folder"
        for name, value in self.settings.items():
            if settings[name] != value:
                raise ValueError(f"{name} is {value!r}: expected {settings[name]!r}, {held}")
        ours = {name: tuple(value.shape) for name, value in self.model.state_dict().items()}
        theirs = {name: tuple(value.shape) for name, value in weights.items()}
        for name in sorted(ours.keys() | theirs.keys()):
            got, expected = ours.get(name, "absent"), theirs.get(name, "absent")
            if got != expected:
                raise ValueError(f"the model's {name} is {got}: expected {expected}, {held}")


def _judged(row):
    """Return name and value of what a row of the log is judged by: the first that `evaluate` told, behind the rate."""
    return next(islice(row.items(), 3, None), ("what evaluate tells", math.nan))


def _check_told(told, row, before):
    """Raise unless these are numbers under names of their own, the same in each row."""
    if not isinstance(told, dict):
        raise TypeError(f"evaluate(model) is a {type(told).__name__}: expected a dict of floats")
    if taken := sorted(told.keys() & row.keys()):
        raise ValueError(f"evaluate(model) tells {', '.join(taken)}: expected other names, for the log has this itself")
    if before and row.keys() | told.keys() != before[0].keys():
        names = ", ".join(list(before[0])[3:]) or "nothing"
        raise ValueError(f"evaluate(model) tells {', '.join(told) or 'nothing'}: expected {names}, as the rows before")


def check_settings(settings):
    """Return the settings as numbers that JSON knows; raise unless they make sense."""
    numbers: dict[str, int | float] = {"seed": integer("seed", settings["seed"])}
    for name, least in (("steps", 0), ("warmup", 0), ("every", 1)):
        numbers[name] = count(name, settings[name], least)
    numbers["rate"] = float(checks.positive("rate", settings["rate"]))
    if settings["clip"] is not None:
        numbers["clip"] = float(checks.positive("clip", settings["clip"], "; None does not clip"))
    numbers["weight_decay"] = float(checks.number("weight_decay", settings["weight_decay"]))
    if numbers["weight_decay"] < 0:
        raise ValueError(f"weight_decay is {settings['weight_decay']}: expected 0 or more")
    if settings["schedule"] not in SCHEDULES:
        raise ValueError(f"schedule is {settings['schedule']!r}: expected one of {', '.join(SCHEDULES)}")
    if settings["patience"] is not None:
        numbers["patience"] = count("patience", settings["patience"], 1)
        if not settings["evaluate"]:
            raise ValueError(f"evaluate is None: expected a function, for patience={settings['patience']} to judge by")
    return settings | numbers


def _read(path):
    """Return what `Run.save` wrote: what is no tensor, and the tensors of each part by name."""
    tensors: dict[str, dict[str, torch.Tensor]] = defaultdict(dict)
    library = needed("safetensors")
    try:
        with library.safe_open(path, "pt") as file:
            rest = json.loads(file.metadata()["run"])
            for full in file.keys():  # noqa: SIM118
                part, name = full.split(".", 1)
                tensors[part][name] = file.get_tensor(full)
    except (library.SafetensorError, TypeError, KeyError):
        raise ValueError(f"{path} is not a file that a training wrote, or not all of it: move it away") from None
    return rest, tensors


@contextmanager
def _replacing(path):
    """Yield another name to write under; all that was written takes the place of `path` at once."""
    other = path.with_name(path.name + ".part")
    yield other
    os.replace(other, path)


def _copied(tensors):
    return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
