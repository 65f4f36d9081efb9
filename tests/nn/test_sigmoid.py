"""Sigmoid attention against the reference; as the core of a layer."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, reference
from mha.dropout import Dropout
from mha.nn import sigmoid_attention, sigmoid_weights
from nn.layers import draw, layer

BIAS = np.random.default_rng(3).standard_normal((6, 7, 11))
BIAS[2, 1] = BIAS[4, 2, 3] = -np.inf
SEE = np.random.default_rng(4).random((2, 6, 7, 11)) > 0.4
SEE[1, :, 2] = False
OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal, "q_start": 1},
    "lengths": {"mask": masks.lengths([5, 0]), "scale": 0.7},
    "offset": {"offset": -1.3, "mask": masks.causal},
    "bias": {"bias": BIAS},
    "all": {"mask": SEE, "bias": BIAS, "softcap": 1.5, "scale": 0.4, "dropout": Dropout(0.3, 5)},
}


def tensors(n_q=7, n_k=11):
    return draw(2, 6, n_q, 5), draw(2, 3, n_k, 5, seed=1), draw(2, 3, n_k, 2, seed=2)


def in_torch(options):
    return {key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in options.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_reference(name):
    given, options = tensors(), OPTIONS[name]
    expected = reference.sigmoid_attention(*(x.numpy() for x in given), **options)
    assert_equal(sigmoid_attention(*given, **in_torch(options)), expected, atol=1e-13)
    options = {key: x for key, x in options.items() if key != "dropout"}
    expected = reference.sigmoid_weights(*(x.numpy() for x in given[:2]), **options)
    assert_equal(sigmoid_weights(*given[:2], **in_torch(options)), expected, atol=1e-14)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1)], ids=str)
def test_short_sequences(lengths):
    given = tensors(*lengths)
    expected = reference.sigmoid_attention(*(x.numpy() for x in given), mask=masks.causal)
    assert_equal(sigmoid_attention(*given, mask=masks.causal), expected, atol=1e-14)


def test_a_nan_acts_on_the_rows_that_see_it():
    q, k, v = tensors(11, 11)
    k[:, :, 8], v[:, :, 9] = torch.nan, torch.inf
    found = sigmoid_attention(q, k, v, mask=masks.causal)
    assert_equal(found[:, :, :8], sigmoid_attention(*(x[:, :, :8] for x in (q, k, v)), mask=masks.causal), atol=1e-14)
    assert found[:, :, 8:].isnan().all()


def test_gradients_with_an_empty_row():
    given = [x[:1, :3].detach().requires_grad_() for x in tensors(3, 4)]
    assert gradcheck(lambda *x: sigmoid_attention(*x, mask=masks.causal, q_start=-1), given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logits_are_at_least_float32(dtype):
    q, k, v = (x.to(dtype) for x in tensors())
    expected = sigmoid_attention(q.float(), k.float(), v.float())
    found = sigmoid_attention(q, k, v)
    assert found.dtype == dtype
    assert_equal(found.float(), expected, atol=torch.finfo(dtype).eps * float(expected.abs().max()))


def test_as_the_core_of_a_layer():
    core = partial(sigmoid_attention, offset=-1.0)
    module, x = layer(13, 6, d_head=4, num_kv_heads=3, core=core), draw(2, 7, 13)
    q, k, v = module.project(x)
    assert_equal(module.per_head(x, mask=masks.causal), sigmoid_attention(q, k, v, offset=-1.0, mask=masks.causal))
    with pytest.raises(ValueError, match="sinks is given: sigmoid attention has no sinks"):
        layer(13, 6, d_head=4, sinks=True, core=core)(x)
