"""Shape annotations are checked in tests only: every call of an annotated function of `mha` that returns.

A call that raises is left alone, so that a test sees the package's own error. Batch dimensions of arguments broadcast.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
import types

import jaxtyping
import numpy as np
from beartype.door import is_bearable

ROOMS = ("mha.reference.", "mha.nn.", "mha.analysis.")
KINDS = ("Bool", "Float", "Int")


def is_shape(annotation) -> bool:
    return isinstance(annotation, str) and any(f"{kind}[" in annotation for kind in KINDS)


@functools.cache  # beartype compiles a check for each new type: one type an annotation keeps it to one
def resolve(annotation: str, module: str):
    """Turn "Float[Array, '*b h i d']" into the type; Tensor needs torch, and who is annotated with it has loaded it."""
    names = vars(sys.modules[module])
    torch = sys.modules.get("torch")
    shapes = {kind: getattr(jaxtyping, kind) for kind in KINDS} | {"Array": np.ndarray | np.generic}
    shapes["Int"] = jaxtyping.Integer  # unsigned ones too
    return eval(annotation, names | shapes | ({"Tensor": torch.Tensor} if torch else {}))


def is_array(value) -> bool:
    return type(value).__module__.partition(".")[0] in {"numpy", "torch"} and hasattr(value, "shape")


def tracing() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def checked(function):
    """Return the function, which compares what it was given and what it returns with its annotations."""
    signature = inspect.signature(function)
    hints = {name: hint for name, hint in function.__annotations__.items() if is_shape(hint)}

    @functools.wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if not tracing():
            compare(function, hints, signature.bind(*args, **kwargs).arguments | {"return": result})
        return result

    return call


def compare(function, hints, values):
    """Raise unless all arrays agree with their annotations at once: one letter, one number."""
    module = function.__module__
    with jaxtyping.jaxtyped("context"):
        for name, hint in hints.items():
            value = values.get(name)
            broadcast = hint if name == "return" else hint.replace("'*b", "'*#b")
            if (name == "return" or is_array(value)) and not is_bearable(value, resolve(broadcast, module)):
                shapes = {key: tuple(one.shape) for key, one in values.items() if is_array(one)}
                raise AssertionError(f"{function.__qualname__}: {name} is not {hint}, given {shapes}")


def check_module(module: types.ModuleType):
    """Wrap every annotated function that the module defines, before another module imports it."""
    for name, value in list(vars(module).items()):
        ours = isinstance(value, types.FunctionType) and value.__module__ == module.__name__
        if ours and any(map(is_shape, value.__annotations__.values())):
            setattr(module, name, checked(value))


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if not fullname.startswith(ROOMS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                check_module(module)

            spec.loader.exec_module = exec_module
        return spec


def install():
    sys.meta_path.insert(0, Finder())
