"""What a training has on its device: the batches, and the state of the random numbers."""

from contextlib import contextmanager

import torch


def moved(batch, device):
    """Return the batch, a tensor or tuples, lists and dicts of them, on the device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: moved(value, device) for name, value in batch.items()}
    return tuple(moved(value, device) for value in batch) if isinstance(batch, tuple | list) else batch


@contextmanager
def seeded(seed, device):
    """Draw random numbers from this seed on, and give the caller the own state back."""
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
    """Go back to a state that `random_state` told, as far as it is about this kind of device."""
    torch.set_rng_state(state["cpu"])
    if device.type != "cpu" and device.type in state:
        torch.get_device_module(device).set_rng_state(state[device.type])
