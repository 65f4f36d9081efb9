"""The layer of Mamba-2: the reference, transformers' layer with its gradients, padding, steps and what it refuses."""

import copy

import pytest
import torch
from transformers import Mamba2Config
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from compare import assert_equal
from exact import redraw
from mha import nn, reference
from mha.models.hybrid import from_hub_names
from mha.nn import Mamba2, StateCache
from space_calls import SIZES

N, CHUNKS = 13, [(13,), (1,) * 13, (5, 0, 1, 4, 3)]


def theirs(seed=1):
    return redraw(Mamba2Mixer(Mamba2Config(**SIZES, num_hidden_layers=1, vocab_size=3), 0), seed=seed)


def ours(layer, **options):
    state = {f"backbone.layers.0.mixer.{name}": x for name, x in layer.state_dict().items()}
    made = Mamba2(14, 4, 5, num_groups=2, **options).eval()
    made.load_state_dict({name.removeprefix("blocks.0.state_space."): x for name, x in from_hub_names(state).items()})
    return made


def drawn(**options):
    return redraw(Mamba2(14, 4, 5, num_groups=2, dtype=torch.float64, **options), seed=3)


def draw(n=N, samples=3):
    return torch.randn(samples, n, 14, generator=torch.Generator().manual_seed(n), dtype=torch.float64)


@pytest.mark.parametrize("n", [0, 1, 13])
def test_equals_the_reference(n):
    layer, x = drawn(), draw(n)
    array = {name: parameter.detach().numpy() for name, parameter in layer.named_parameters()}
    weights = array["in_proj.weight"].T, array["conv_weight"], array["out_proj.weight"].T
    options = {name: array[name] for name in ("dt_bias", "A_log", "D")}
    options |= {"b_conv": array["conv_bias"], "gain": array["norm_gain"], "d_state": 5, "num_groups": 2}
    assert_equal(layer(x), reference.mamba2_mixer(x.numpy(), *weights, **options), atol=1e-12)


def test_equals_the_mixer_of_mamba2_and_its_gradients():
    layer, x = theirs(), draw().float()
    made = ours(layer)
    expected, found = layer(x), made(x)
    assert_equal(found, expected, atol=2e-6)
    expected.square().sum().backward()
    found.square().sum().backward()
    own = dict(made.named_parameters())
    for name, parameter in layer.named_parameters():
        name = name.replace("conv1d.", "conv_").replace("norm.weight", "norm_gain")
        size = float(parameter.grad.abs().max())
        assert_equal(own[name].grad, parameter.grad.view_as(own[name]), atol=2e-5 * size, label=name)
    assert len(own) == len(list(layer.parameters()))


@pytest.mark.parametrize("wrong", ["conv_weight", "dt_bias", "A_log", "D", "norm_gain", "num_groups"])
def test_a_fault_in_any_part_would_show(wrong):
    layer, x = theirs(), draw().float()
    made = ours(layer)
    if wrong == "num_groups":
        made.norm_eps = 1.0
    else:
        part = getattr(made, wrong)
        part.data = part.data.flip(-1)
    with torch.no_grad():
        assert (made(x) - layer(x)).abs().max() > 1e-3


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_steps_are_the_whole(chunks):
    layer, x = drawn(), draw()
    cache, outputs = StateCache(), []
    for part in x.split(chunks, 1):
        y, cache = layer.step(part, cache)
        outputs.append(y)
    assert_equal(torch.cat(outputs, 1), layer(x), atol=1e-12)
    assert cache.lengths == N
    assert cache.inputs.shape == (3, 28 + 20, 3)
    assert cache.state.shape == (3, 4, 5, 7)


def test_a_step_leaves_the_old_cache_as_it_was():
    layer, x = drawn(), draw()
    _, cache = layer.step(x[:, :5], StateCache())
    before = copy.deepcopy(cache.state.detach())
    first, _ = layer.step(x[:, 5:], cache)
    assert_equal(cache.state, before)
    assert_equal(layer.step(x[:, 5:], cache)[0], first)


@pytest.mark.parametrize("side", ["front", "behind"])
def test_padding_may_hold_anything(side):
    layer, x, padding = drawn(), draw(), torch.tensor([0, 5, 13])
    places = torch.arange(N) if side == "front" else torch.arange(N - 1, -1, -1)
    keep = places >= padding[:, None]
    x = x.masked_fill(~keep[..., None], torch.nan)
    x.requires_grad_()
    y = layer(x, keep=keep)
    for sample in range(2):
        assert_equal(y[sample, keep[sample]], layer(x[sample : sample + 1, keep[sample]])[0], atol=1e-12)
    y[keep].sum().backward()
    assert bool(x.grad.isfinite().all())
    assert not x.grad[~keep].any()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())


def test_steps_of_padded_sequences():
    layer, x, padding = drawn(), draw(), torch.tensor([0, 5, 2])
    cache, outputs = StateCache(-padding), []
    for part in x.split((3, 4, 6), 1):
        y, cache = layer.step(part, cache)
        outputs.append(y)
    y = torch.cat(outputs, 1)
    for sample, front in enumerate(padding.tolist()):
        assert_equal(y[sample, front:], layer(x[sample : sample + 1, front:])[0], atol=1e-12)
    assert cache.lengths.tolist() == [13, 8, 11]


def test_weights_are_those_of_the_state_space():
    layer, x = drawn(), draw()
    weights = layer.weights(x)
    assert weights.shape == (3, 4, N, N)
    gate, value, *_ = layer._projected(x, None, None)
    y = nn.join_heads(weights @ value + layer.D[:, None, None] * value)
    y = nn.gated_rms_norm(y, gate, layer.norm_gain, num_groups=2)
    assert_equal(layer.out_proj(y), layer(x), atol=1e-12)


def test_it_starts_with_steps_and_decays_of_many_speeds():
    torch.manual_seed(0)
    layer = Mamba2(16, 32, 5, d_head=1)
    steps = torch.nn.functional.softplus(layer.dt_bias)
    assert bool(((steps > 0.99e-3) & (steps < 0.101)).all())
    assert steps.max() > 10 * steps.min()
    decays = layer.A_log.exp()
    assert bool(((decays >= 1) & (decays <= 16)).all())
    assert decays.max() > 4 * decays.min()


@torch.no_grad()
def test_autocast_and_bfloat16_keep_a_wide_state():
    layer, x = drawn().float(), draw().float()
    with torch.autocast("cpu", torch.bfloat16):
        y, cache = layer.step(x, StateCache())
    assert (y.dtype, cache.state.dtype) == (torch.bfloat16, torch.float32)
    low, cache = copy.deepcopy(layer).bfloat16().step(x.bfloat16(), StateCache())
    assert (low.dtype, cache.state.dtype) == (torch.bfloat16, torch.float32)
    exact = layer(x)
    for found in (y, low):
        assert_equal(found.float(), exact, atol=0.1 * float(exact.abs().max()))


def test_compiles_to_one_graph():
    layer, x = drawn(), draw()
    keep = torch.arange(N) >= torch.tensor([0, 5, 2])[:, None]
    assert_equal(torch.compile(layer, fullgraph=True, backend="eager")(x, keep=keep), layer(x, keep=keep), atol=1e-12)


def test_misfits_of_the_gated_norm_are_named():
    x = torch.zeros(2, 6)
    with pytest.raises(TypeError, match="gate is a NumPy array: expected a torch tensor"):
        nn.gated_rms_norm(x, x.numpy())
    with pytest.raises(ValueError, match=r"gain has shape \(1,\): expected \(6,\)"):
        nn.gated_rms_norm(x, x, torch.ones(1))


def test_misuse_is_named():
    layer, x = drawn(), draw()
    keep = torch.ones(3, N, dtype=torch.bool)
    keep[1, 4] = False
    with pytest.raises(ValueError, match="keep of sample 1 has a hole: expected padding before or behind"):
        layer(x, keep=keep)
    with pytest.raises(ValueError, match=r"keep has shape \(3, 12\): expected \(3, 13\)"):
        layer(x, keep=keep[:, 1:])
    with pytest.raises(TypeError, match=r"cache is a Cache: expected mha\.nn\.StateCache"):
        layer.step(x, nn.Cache())
    with pytest.raises(ValueError, match="x has 3 samples: expected 2, those of the cache"):
        layer.step(x, StateCache(torch.tensor([0, -1])))
    _, cache = layer.step(x[:1], StateCache())
    with pytest.raises(ValueError, match="x has 3 samples: expected 1, those of the cache"):
        layer.step(x, cache)
    with pytest.raises(TypeError, match=r"x has dtype torch\.float32: expected torch\.float64"):
        layer(x.float())
    with pytest.raises(ValueError, match="2 · d_model is 28 and num_heads is 3, remainder 1"):
        Mamba2(14, 3, 5)
    with pytest.raises(ValueError, match="num_groups is 3 and num_heads is 4"):
        Mamba2(14, 4, 5, num_groups=3)
    with pytest.raises(ValueError, match="d_state is 0: expected at least 1"):
        Mamba2(14, 4, 0)
    with pytest.raises(TypeError, match="core is 3: expected a function with the arguments of"):
        Mamba2(14, 4, 5, core=3)
