"""Exact multi-head attention, and the textbook that explains it.

Every name is loaded when it is first used: `import mha` alone costs nothing.
"""

from importlib import import_module

_FUNCTIONS = {"attention": "floors", "which": "floors"}
_MODULES = {  # and the extra that each needs
    "alt": None,
    "analysis": None,
    "book": "book",
    "conformance": None,
    "cost": None,
    "data": "data",
    "dropout": None,
    "exercises": None,
    "kernels": "triton",
    "masks": None,
    "models": "torch",
    "nn": "torch",
    "plot": "book",
    "reference": None,
    "shapes": None,
    "text": None,
    "widgets": "widgets",
}

__all__ = ["__version__", *_FUNCTIONS, *_MODULES]


def __getattr__(name):
    if name == "__version__":
        from importlib.metadata import version

        return version("mha")
    if name in _FUNCTIONS:
        return getattr(import_module(f"mha.{_FUNCTIONS[name]}"), name)
    if name not in _MODULES:
        raise AttributeError(f"module 'mha' has no attribute {name!r}")
    try:
        return import_module(f"mha.{name}")
    except ModuleNotFoundError as error:
        if _MODULES[name] is None or error.name.startswith("mha"):
            raise
        hint = f"mha.{name} needs {error.name}: install mha with the extra [{_MODULES[name]}]"
        raise ImportError(hint) from error


def __dir__():
    return sorted(__all__)
