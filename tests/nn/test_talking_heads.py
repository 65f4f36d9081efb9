"""Talking heads against the reference; as the core of a layer."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from compare import assert_equal
from mha import masks, reference
from mha.nn import TalkingHeads, talking_heads_attention
from nn.layers import draw, layer

BIAS = np.random.default_rng(3).standard_normal((6, 7, 11))
BIAS[2, 1] = BIAS[4, 2, 3] = -np.inf
SEE = np.random.default_rng(4).random((2, 6, 7, 11)) > 0.4
SEE[1, :, 2] = False
OPTIONS = {
    "nothing": {},
    "causal": {"mask": masks.causal, "q_start": 1},
    "lengths": {"mask": masks.lengths([5, 0]), "scale": 0.7},
    "bias": {"bias": BIAS},
    "all": {"mask": SEE, "bias": BIAS, "scale": 0.4},
}


def tensors(n_q=7, n_k=11):
    return (
        draw(2, 6, n_q, 5), draw(2, 3, n_k, 5, seed=1), draw(2, 3, n_k, 2, seed=2),
        draw(6, 6, seed=3), draw(6, 6, seed=4),
    )  # fmt: skip


def in_torch(options):
    return {key: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for key, x in options.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_equals_the_reference(name):
    given, options = tensors(), OPTIONS[name]
    expected = reference.talking_heads_attention(*(x.numpy() for x in given), **options)
    assert_equal(talking_heads_attention(*given, **in_torch(options)), expected, atol=1e-12)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (1, 1)], ids=str)
def test_short_sequences(lengths):
    given = tensors(*lengths)
    expected = reference.talking_heads_attention(*(x.numpy() for x in given), mask=masks.causal)
    assert_equal(talking_heads_attention(*given, mask=masks.causal), expected, atol=1e-13)


def test_a_nan_acts_on_the_rows_that_see_it():
    q, k, v, before, after = tensors(11, 11)
    k[:, :, 8], v[:, :, 9] = torch.nan, torch.inf
    found = talking_heads_attention(q, k, v, before, after, mask=masks.causal)
    part = [x[:, :, :8] for x in (q, k, v)]
    assert_equal(found[:, :, :8], talking_heads_attention(*part, before, after, mask=masks.causal), atol=1e-13)
    assert found[:, :, 8:].isnan().all()
    assert np.isnan(
        reference.talking_heads_attention(*(x.numpy() for x in (q, k, v, before, after)), mask=masks.causal)[:, :, 8:]
    ).all()


def test_gradients_with_an_empty_row():
    q, k, v, before, after = tensors(3, 4)
    given = [x.detach().requires_grad_() for x in (q[:1], k[:1], v[:1], before, after)]
    assert gradcheck(lambda *x: talking_heads_attention(*x, mask=masks.causal, q_start=-1), given)


def test_as_the_core_of_a_layer():
    module, x = layer(13, 6, d_head=4, num_kv_heads=3, core=TalkingHeads(6, dtype=torch.float64)), draw(2, 7, 13)
    q, k, v = module.project(x)
    expected = talking_heads_attention(q, k, v, module.core.before, module.core.after, mask=masks.causal)
    assert_equal(module.per_head(x, mask=masks.causal), expected, atol=1e-14)
    module.core.reset_parameters()
    silent = layer(13, 6, d_head=4, num_kv_heads=3)
    own = {name: value for name, value in module.state_dict().items() if not name.startswith("core")}
    silent.load_state_dict(own)
    assert_equal(module(x, mask=masks.causal), silent(x, mask=masks.causal), atol=1e-13)
    with pytest.raises(ValueError, match="sinks is given: talking-heads attention has no sinks"):
        layer(13, 6, d_head=4, sinks=True, core=module.core)(x)
