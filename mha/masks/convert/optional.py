"""Libraries that only some conversions need: masks themselves cost NumPy and nothing else."""

from importlib import import_module


def library(name, extra="torch"):
    """Return an imported module, or say how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        hint = f"this conversion needs {missing.name}: install mha with the extra [{extra}]"
        raise ImportError(hint, name=missing.name) from missing
