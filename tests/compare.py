"""The one comparison of numbers in the tests: it raises, so it cannot be computed and dropped."""

import numpy as np


def as_numpy(x):
    """Return `x` as an array: torch tensors are detached, and bfloat16 becomes float32."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float() if str(x.dtype) == "torch.bfloat16" else x
        return x.numpy()
    return np.asarray(x)


def assert_equal(actual, expected, *, rtol=0.0, atol=0.0, label=""):
    """Raise unless the shapes agree and |actual − expected| ≤ atol + rtol·|expected|; NaN equals NaN."""
    actual, expected = as_numpy(actual), as_numpy(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"{label}: shape {actual.shape} is not {expected.shape}")
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=label)
