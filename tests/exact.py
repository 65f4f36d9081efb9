"""Is the other library's float32 result the same function as ours, up to float32 rounding?"""

import numpy as np
import torch

from compare import as_numpy, assert_equal


def assert_same_function(theirs, ours, exact, *, label):
    """Raise unless `theirs` is as near to our float64 result as our own float32 run is, within a factor of four.

    The two libraries round in different places, so their errors differ; they have the same size.
    """
    theirs, ours, exact = (as_numpy(x).astype(np.float64) for x in (theirs, ours, exact))
    rounding = np.abs(ours - exact).max()
    assert 0 < rounding < 1e-3 * np.abs(exact).max(), f"{label}: rounding {rounding} says nothing"
    assert_equal(theirs, exact, atol=4 * rounding, label=label)


def redraw(model, *, seed, std=0.3):
    """Draw all weights anew, wide enough that attention is not uniform and a fault shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, std, generator=generator)
    return model.eval()
