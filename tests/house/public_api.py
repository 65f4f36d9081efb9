"""The public names of `mha` with their signatures. After a change that is meant: python tests/house/public_api.py"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mha

LISTED = Path(__file__).with_name("public_api.txt")


def signature(thing) -> str:
    parameters = inspect.signature(thing).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return re.sub(" at 0x[0-9a-f]+", "", str(inspect.Signature(bare)))


def public_modules(rooms: list[ModuleType]) -> Iterator[ModuleType]:
    """These rooms and the public modules in them; where a room names nothing, all modules in it are public."""
    for room in rooms:
        inner = [getattr(room, name) for name in public_names(room)]
        if hasattr(room, "__path__") and not inner:
            inner = [
                importlib.import_module(found.name)
                for found in pkgutil.iter_modules(room.__path__, f"{room.__name__}.")
            ]
        yield room
        yield from public_modules([one for one in inner if inspect.ismodule(one)])


def public_names(module: ModuleType) -> list[str]:
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return sorted(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def members(kind: type) -> dict[str, object]:
    """What a class and its bases in the same room define; not what other libraries' classes do."""
    room = kind.__module__.rpartition(".")[0]
    own = [base for base in reversed(kind.__mro__) if base is kind or base.__module__.startswith(f"{room}.")]
    return {name: member for base in own for name, member in vars(base).items()}


def described(path: str, thing) -> Iterator[str]:
    if inspect.isclass(thing) and issubclass(thing, Exception):
        yield f"class {path}"
    elif inspect.isclass(thing):
        yield f"class {path}{signature(thing)}"
        for name, member in sorted(members(thing).items()):
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if not name.startswith("_") and inspect.isfunction(function):
                yield f"{path}.{name}" if isinstance(member, property) else f"{path}.{name}{signature(function)}"
    elif callable(thing) and not isinstance(thing, mha.masks.Mask):
        yield f"{path}{signature(thing)}"
    else:
        yield path


def listing() -> list[str]:
    return [
        line
        for module in public_modules([mha])
        for name in public_names(module)
        for line in described(f"{module.__name__}.{name}", getattr(module, name))
        if not inspect.ismodule(getattr(module, name))
    ]


if __name__ == "__main__":
    LISTED.write_text("\n".join(listing()) + "\n", "utf-8")
