"""The state of a training: all that the next step depends on, in one file that is there whole or not at all."""

import csv
import json
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mha.data.unavailable import missing_package
from mha.integers import count

CHECKPOINT, LOG = "checkpoint.safetensors", "log.csv"
SCHEDULES = ("cosine", "constant", "inverse_sqrt")


@dataclass
class Run:
    """A model in training; `losses` are those since the last row of the log."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    settings: dict[str, Any]
    device: torch.device
    step: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    best: dict[str, torch.Tensor] = field(default_factory=dict)

    def record(self, rate, evaluate):
        """Add a row to the log and return it; keep the weights if they are the best ones and may be asked for."""
        row = {"step": self.step, "loss": sum(self.losses) / len(self.losses), "rate": rate}
        if evaluate is not None:
            self.model.eval()
            with torch.no_grad():
                row |= {name: float(value) for name, value in evaluate(self.model).items()}
        self.rows.append(row)
        self.losses.clear()
        if self.settings["patience"] is not None and self._best_row() == len(self.rows) - 1:
            self.best = _copied(self.model.state_dict())
        return row

    def stalled(self):
        """Tell whether as many rows as our patience lasts have brought nothing lower."""
        patience = self.settings["patience"]
        return patience is not None and bool(self.rows) and len(self.rows) - 1 - self._best_row() >= patience

    def _best_row(self):
        name = list(self.rows[0])[3]  # behind step, loss and rate: the first that `evaluate` tells
        return min(range(len(self.rows)), key=lambda number: self.rows[number][name])

    def save(self, folder):
        """Put the state into the folder, in the place of the one before."""
        if folder is None:
            return
        save_file, _ = _safetensors()
        Path(folder).mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
        tensors |= {f"random.{name}": value for name, value in random_state(self.device).items()}
        rest = {"settings": self.settings, "step": self.step, "rows": self.rows, "losses": self.losses}
        _write_log(Path(folder, LOG), self.rows)
        with _replacing(Path(folder, CHECKPOINT)) as path:
            save_file(_copied(tensors), path, {"run": json.dumps(rest)})

    def resume(self, folder):
        """Take the state that the folder holds, if it holds one, and it is one of this training."""
        if folder is None or not (path := Path(folder, CHECKPOINT)).exists():
            return
        _, safe_open = _safetensors()
        with safe_open(path, "pt") as file:
            rest = json.loads(file.metadata()["run"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _check_same(folder, rest["settings"], self.settings)
        parts = {part: _part(tensors, part) for part in ("model", "best", "optimizer", "random")}
        _check_model(folder, parts["model"], self.model.state_dict())
        self.model.load_state_dict(parts["model"])
        state: dict[int, dict] = {}
        for name, value in parts["optimizer"].items():
            number, name = name.split(".")
            state.setdefault(int(number), {})[name] = value
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        set_random_state(parts["random"], self.device)
        self.step, self.rows, self.losses, self.best = rest["step"], rest["rows"], rest["losses"], parts["best"]


def check_settings(settings):
    """Raise unless the settings make sense."""
    for name in ("steps", "warmup", "every"):
        count(name, settings[name])
    if settings["every"] < 1:
        raise ValueError("every is 0: expected 1 step at least between two rows of the log")
    if settings["schedule"] not in SCHEDULES:
        raise ValueError(f"schedule is {settings['schedule']!r}: expected one of {', '.join(SCHEDULES)}")
    if settings["patience"] is not None and (count("patience", settings["patience"]) < 1 or not settings["evaluate"]):
        raise ValueError(f"patience is {settings['patience']}: expected 1 row at least, and `evaluate` to be judged by")


@contextmanager
def seeded(seed, device):
    """Draw random numbers from this seed on, and give the caller his own state back."""
    before = random_state(device)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        set_random_state(before, device)


def random_state(device):
    """Return the state of the generators that a model on this device draws from."""
    state = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state[device.type] = torch.get_device_module(device).get_rng_state()
    return state


def set_random_state(state, device):
    """Go back to a state that `random_state` told; one of another kind of device counts for nothing."""
    torch.set_rng_state(state["cpu"])
    if device.type in state and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[device.type])


@contextmanager
def interruption():
    """Yield a list that Ctrl-C makes true, instead of breaking in at once; pressed again, it does break in."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen  # Python sends Ctrl-C to the main thread alone
        return
    before = signal.getsignal(signal.SIGINT)

    def notice(number, frame):
        seen.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, notice)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _replacing(path):
    """Yield another name to write under, which becomes this one when all is written."""
    other = path.with_name(path.name + ".part")
    yield other
    os.replace(other, path)


def _write_log(path, rows):
    with _replacing(path) as other, open(other, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["step", "loss", "rate"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _check_same(folder, saved, settings):
    for name, value in settings.items():
        if saved.get(name) != value:
            raise ValueError(
                f"{name} is {value!r}: expected {saved.get(name)!r}, as in the training that {folder} holds; "
                "to begin another one, give another folder"
            )


def _check_model(folder, saved, present):
    for name in sorted(saved.keys() | present.keys()):
        got, expected = (tuple(x[name].shape) if name in x else "absent" for x in (present, saved))
        if got != expected:
            raise ValueError(
                f"the model's {name} is {got}: expected {expected}, as in the training that {folder} holds"
            )


def _part(tensors, part):
    return {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}


def _copied(tensors):
    return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}


def _safetensors():
    try:
        from safetensors import safe_open
        from safetensors.torch import save_file
    except ImportError as absent:
        raise missing_package(absent) from None
    return save_file, safe_open
