"""What an exercise is: a solution, the inputs to try it on, and the mistakes worth a hint of their own."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Exercise:
    """One exercise. Its words live in `mha/text/en/exercises.toml`, under its id.

    `cases(rng)` lists tuples of positional arguments, the smallest first, because the first one that fails is
    shown to the reader. A property is a test `holds(output, *inputs)` of an output of the right shape. A mistake
    is a whole wrong solution: an answer that behaves like it on every case receives its hint.
    An exercise solved on paper has a `solve()` without parameters, no cases and mistakes that are slips.
    """

    id: str
    solve: Callable
    mistakes: Mapping[str, Callable]
    cases: Callable = lambda rng: [()]
    properties: Mapping[str, Callable] = field(default_factory=dict)
    tolerance: float = 1e-9

    @property
    def parameters(self):
        """The names of the arguments that an answer is called with."""
        return tuple(inspect.signature(self.solve).parameters)

    @property
    def is_on_paper(self):
        """Whether the answer is a number rather than a function."""
        return not self.parameters
