"""An adapter under examination: NumPy in, NumPy out, whatever it computes with."""

import numpy as np

from mha.conformance.arrays import NumPy

INPUTS = ("q", "k", "v", "bias", "sinks")  # what has a gradient


class Subject:
    """The calls that cases make. Every array goes in and comes out as NumPy's."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.arrays = adapter.arrays
        self.differentiates = adapter.backward is not None or self.arrays.exact_derivatives

    def attend(self, q, k, v, *, as_given=False, **options):
        """Return the output; with `as_given`, of the library's own function, its mask not converted."""
        own = as_given and self.adapter.as_given is not None
        return self._call(self.adapter.as_given if own else self.adapter.attend, q, k, v, **options)

    def attend_beside_weights(self, q, k, v, **options):
        """Return the output of a call that also gives the weights."""
        return self._call(self.adapter.both, q, k, v, **options)

    def weights(self, q, k, v, **options):
        return self._call(self.adapter.weights, q, k, v, **options)

    def stat(self, name, q, k, v, **options):
        """Return lse, max_logit or entropy."""
        return self._call(lambda *inputs, **given: self.adapter.stats(*inputs, **given)[name], q, k, v, **options)

    def rotate(self, x, positions):
        return self._call(self.adapter.rotate, x, positions=positions)

    def part(self, name, *inputs, item=None, **options):
        """Return what a function beside attention gives; of several results, the one that `item` counts."""

        def asked(*inputs, **options):
            found = self.adapter.parts[name](*inputs, **options)
            return found if item is None else found[item]

        return self._call(asked, *inputs, **options)

    def gradients(self, q, k, v, *, d_output, **options):
        """Return the gradients of sum(output · d_output) by the name of the input."""
        if self.adapter.backward is not None:
            return self.adapter.backward(q, k, v, d_output, **options)
        names, inputs, f = self._function(q, k, v, options)
        with self.arrays.session():
            found = self.arrays.gradients(f, inputs, self._enter(d_output))
            return {name: self.arrays.leave(x) for name, x in zip(names, found, strict=True)}

    def differences(self, q, k, v, *, d_output, **options):
        """Return what `gradients` returns, as central differences of the output."""
        names, _, f = self._function(q, k, v, options)
        f, given = self.arrays.compiled(f), {"q": q, "k": k, "v": v, **options}
        inputs = [given[name].astype(self.adapter.dtype) for name in names]

        def output(*inputs):
            return self.arrays.leave(f(*(self._enter(x) for x in inputs)))

        with self.arrays.session():
            found = NumPy().gradients(output, inputs, d_output)
        return dict(zip(names, found, strict=True))

    def second(self, q, k, v, *, d_output, tangents, **options):
        """Return the gradients of sum(gradients · tangents) by the name of the input."""
        names, inputs, f = self._function(q, k, v, options)
        with self.arrays.session():
            tangents = [self._enter(tangents[name]) for name in names]
            found = self.arrays.second(f, inputs, self._enter(d_output), tangents)
            return {name: self.arrays.leave(x) for name, x in zip(names, found, strict=True)}

    def forward(self, q, k, v, *, tangents, **options):
        """Return the derivative of the output along the tangents."""
        names, inputs, f = self._function(q, k, v, options)
        with self.arrays.session():
            return self.arrays.leave(self.arrays.forward(f, inputs, [self._enter(tangents[n]) for n in names]))

    def rounding(self, got):
        """Return the rounding unit in which this output was computed."""
        return max(float(np.finfo(x).eps) / 2 for x in (got.dtype, self.adapter.dtype) if np.dtype(x).kind == "f")

    def _enter(self, x):
        """Return an array of the library; float64 in the dtype that the function takes."""
        double = getattr(x, "dtype", None) == np.float64
        return self.arrays.enter(x.astype(self.adapter.dtype, copy=False) if double else x)

    def _call(self, function, *inputs, **options):
        with self.arrays.session():
            inputs = [self._enter(x) for x in inputs]
            given = {name: self._enter(x) for name, x in options.items()}
            call = self.arrays.compiled(lambda *inputs: one_array(function(*inputs, **given)))
            return real(self.arrays.leave(call(*inputs)))

    def _function(self, q, k, v, options):
        """Return the names and values of what is differentiated, and the output as a function of it."""
        differentiable = {"q": q, "k": k, "v": v} | {name: x for name, x in options.items() if name in INPUTS}
        with self.arrays.session():
            rest = {name: self._enter(x) for name, x in options.items() if name not in INPUTS}
            inputs = [self._enter(x) for x in differentiable.values()]

        def f(q, k, v, *more):
            return one_array(
                self.adapter.attend(q, k, v, **dict(zip([*differentiable][3:], more, strict=True)), **rest)
            )

        return [*differentiable], inputs, f


class NoOutput(TypeError):
    """What came back is no output: neither right nor a refusal."""


def one_array(output):
    """Return the output unless it is nothing or several."""
    if output is None or isinstance(output, tuple | dict | str):
        raise NoOutput(f"the function returned a {type(output).__name__}: expected the output alone, an array")
    return output


def real(x):
    """Return the numbers that came out unless they are of a kind that an output is not."""
    if x.dtype.kind not in "fiu":
        raise NoOutput(f"the function returned {x.dtype.name}: expected real numbers")
    return x
