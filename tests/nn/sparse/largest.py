"""How large the largest tensor is that a computation makes."""

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    """Looks at what every operation of torch returns."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.numbers = max([self.numbers, *(x.numel() for x in tree_leaves(result) if hasattr(x, "numel"))])
        return result


def largest_tensor(compute):
    """Return the number of entries of the largest tensor that `compute` makes on its way, views included."""
    with Largest() as seen:
        compute()
    return seen.numbers
