"""The packages of the extra [train], imported where they are needed."""

from importlib import import_module


def needed(name):
    """Return the module called `name`, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as absent:
        hint = f"mha.models.train needs {absent.name}: install mha with the extra [train]"
        raise ImportError(hint, name=absent.name) from absent


def progress_bar(progress, step, steps):
    """Return a progress bar, which says nothing where the output is no terminal."""
    return needed("tqdm").tqdm(initial=step, total=steps, disable=None if progress else True, leave=False)
