"""The libraries of arrays that an attention function may speak: how numbers enter, leave, and are differentiated.

NumPy has no derivatives of its own and gets central differences; torch and JAX use theirs. A derivative is that of
an array `f(*inputs)` with respect to all inputs.
"""

from contextlib import nullcontext

import numpy as np


class NumPy:
    """Arrays as they are. The first derivative is by central differences; there is no other."""

    exact_derivatives = False

    def enter(self, x):
        return x

    def leave(self, x):
        return np.asarray(x)

    def session(self):
        """Return the context in which the library computes in float64."""
        return nullcontext()

    def compiled(self, f):
        return f

    def gradients(self, f, inputs, d_output):
        """Return the gradients of the sum of output · d_output, one an input, as exact as the coarsest number."""
        dtypes = {x.dtype for x in (*inputs, np.asarray(f(*inputs))) if x.dtype.kind == "f"}
        coarsest = max(map(np.finfo, dtypes), key=lambda info: info.eps)
        return [self._differences(f, inputs, d_output, place, coarsest) for place in range(len(inputs))]

    def _differences(self, f, inputs, d_output, place, info):
        step = 2.0 ** round(np.log2(info.eps) / 3)  # truncation and rounding are alike
        gradient, used = np.zeros(inputs[place].shape, info.dtype), d_output != 0
        for index in np.ndindex(gradient.shape):
            sides = []
            for sign in (1, -1):
                moved = [np.array(x) for x in inputs]
                moved[place][index] += sign * step
                sides.append(np.asarray(f(*moved), np.float64))
            gradient[index] = ((sides[0] - sides[1])[used] * d_output[used]).sum() / (2 * step)
        return gradient


class Torch:
    """Tensors, on the CPU unless another device is named; reverse mode, reverse over reverse, and forward mode."""

    exact_derivatives = True

    def __init__(self, device="cpu"):
        self.device = device

    def enter(self, x):
        import torch

        if not isinstance(x, np.ndarray):
            return x
        return torch.from_numpy(x if x.flags.writeable else x.copy()).to(self.device)

    def leave(self, x):
        return x.detach().resolve_neg().cpu().numpy()

    def session(self):
        return nullcontext()

    def compiled(self, f):
        return f

    def gradients(self, f, inputs, d_output):
        return self._gradients(f, self._leaves(inputs), d_output)

    def second(self, f, inputs, d_output, tangents):
        """Return the gradients of sum(gradients · tangents), the gradients being those of sum(f · d_output)."""

        def along(*inputs):
            first = self._gradients(f, inputs, d_output, create_graph=True)
            return sum((g * t).sum() for g, t in zip(first, tangents, strict=True))

        return self._gradients(along, self._leaves(inputs), None)

    def forward(self, f, inputs, tangents):
        """Return the derivative of f along the tangents."""
        import torch.autograd.forward_ad as forward_mode

        with forward_mode.dual_level():
            duals = [forward_mode.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True)]
            return forward_mode.unpack_dual(f(*duals)).tangent

    def _gradients(self, f, inputs, d_output, **options):
        import torch

        found = torch.autograd.grad(f(*inputs), inputs, d_output, allow_unused=True, **options)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]

    def _leaves(self, inputs):
        return [x.detach().requires_grad_() for x in inputs]  # over the same memory, with its strides


class Jax:
    """JAX arrays; `jax.vjp` and `jax.jvp`. A call is compiled as one."""

    exact_derivatives = True

    def enter(self, x):
        import jax.numpy as jnp

        return jnp.asarray(x) if isinstance(x, np.ndarray) else x

    def leave(self, x):
        return np.asarray(x)

    def session(self):
        import jax

        return jax.enable_x64(True)

    def compiled(self, f):
        import jax

        return jax.jit(f)

    def gradients(self, f, inputs, d_output):
        return self.compiled(self._gradients(f, d_output))(*inputs)

    def second(self, f, inputs, d_output, tangents):
        import jax

        def along(*inputs):
            first = self._gradients(f, d_output)(*inputs)
            return sum((g * t).sum() for g, t in zip(first, tangents, strict=True))

        return self.compiled(jax.grad(along, argnums=tuple(range(len(inputs)))))(*inputs)

    def forward(self, f, inputs, tangents):
        import jax

        return self.compiled(lambda *inputs: jax.jvp(f, inputs, tuple(tangents))[1])(*inputs)

    def _gradients(self, f, d_output):
        import jax

        def pulled(*inputs):
            output, pull = jax.vjp(f, *inputs)
            return pull(d_output.astype(output.dtype))

        return pulled
