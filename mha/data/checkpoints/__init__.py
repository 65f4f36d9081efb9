"""Small models that were trained here, committed with the package: the scripts in `benchmarks/` make them."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

from mha.data.unavailable import DataUnavailable, check_name, missing_package

__all__ = ["checkpoint", "save_checkpoint"]


def checkpoint(name: str) -> tuple:
    """Return the configuration of the model called `name`, a dict, and its weights in float32 by name.

    They make the model: `model = GPT(GPTConfig(**config))`, then `model.load_state_dict(weights)`.
    """
    here = files(__package__)
    check_name(name, sorted(entry.name[:-5] for entry in here.iterdir() if entry.name.endswith(".json")))
    try:
        from safetensors.torch import load
    except ImportError as absent:
        raise missing_package(absent) from absent
    config = json.loads((here / f"{name}.json").read_text(encoding="utf-8"))
    file, expected = here / f"{name}.safetensors", config.pop("sha256", "absent")
    if not file.is_file():
        raise DataUnavailable(f"{file.name} is not there, only its configuration is; install mha again")
    found = hashlib.sha256(stored := file.read_bytes()).hexdigest()
    if found != expected:
        raise DataUnavailable(f"{file.name} was changed: expected sha256 {expected}, got {found}; install mha again")
    return config, {key: x.float() if x.is_floating_point() else x for key, x in load(stored).items()}


def save_checkpoint(name: str, config: dict, model, *, folder=None):
    """Write the weights of a model, in half precision, and its configuration, for `checkpoint` to read."""
    import torch
    from safetensors.torch import save

    folder = Path(str(files(__package__))) if folder is None else Path(folder)
    weights = {key: x.half() if x.is_floating_point() else x for key, x in model.state_dict().items()}
    for key, x in weights.items():
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            raise ValueError(f"{key} holds numbers that float16 cannot: expected at most 65504 in size")
    stored = save({key: x.contiguous().clone() for key, x in weights.items()})
    (folder / f"{name}.safetensors").write_bytes(stored)
    about = config | {"sha256": hashlib.sha256(stored).hexdigest()}
    (folder / f"{name}.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")
