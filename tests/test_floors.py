"""`mha.attention` takes the floor of its arguments, and `mha.which` says so beforehand."""

import numpy as np
import pytest
import torch

import mha
from compare import assert_equal
from mha import masks, nn, reference

Q, K, V = (np.random.default_rng(s).normal(size=(2, 3, n, 5)) for s, n in enumerate((4, 7, 7)))


def test_numpy_goes_to_the_reference():
    assert_equal(mha.attention(Q, K, V, mask=masks.causal), reference.attention(Q, K, V, mask=masks.causal))
    choice = mha.which(Q, K, V, mask=masks.causal)
    assert choice.floor == "reference"
    assert set(choice.refused) == {"nn", "kernels"}


def test_torch_goes_to_nn():
    q, k, v = map(torch.from_numpy, (Q, K, V))
    assert_equal(mha.attention(q, k, v, scale=0.3), nn.attention(q, k, v, scale=0.3))
    choice = mha.which(q, k, v)
    assert choice.floor == "nn"
    assert choice.refused["kernels"] == "not part of this version"
    assert str(choice).splitlines()[0] == "nn"


def test_mixed_libraries_are_refused():
    with pytest.raises(TypeError, match="k is a torch tensor and q is a NumPy array"):
        mha.attention(Q, torch.from_numpy(K), V)
    with pytest.raises(TypeError, match="q has dtype int64"):
        mha.which(Q.astype(int), K, V)
    with pytest.raises(TypeError, match="q is a list: expected a NumPy array or a torch tensor"):
        mha.attention(Q.tolist(), K, V)
    with pytest.raises(TypeError, match="v is a NoneType: expected a NumPy array or a torch tensor"):
        mha.which(Q, K, None)
