"""T5's bias against the reference; in a layer, where nothing but the distance counts."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.nn import RelativeBias, attention, relative_buckets
from nn.layers import draw, layer

BATCH, N, D_MODEL = 2, 7, 13


def scheme(**options):
    made = RelativeBias(6, num_buckets=8, max_distance=16, dtype=torch.float64, **options)
    made.weight.data.copy_(draw(8, 6))
    return made


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_and_bias_are_those_of_the_reference(bidirectional):
    for num_buckets, max_distance in ((32, 128), (8, 16), (14, 37)):
        options = {"num_buckets": num_buckets, "max_distance": max_distance, "bidirectional": bidirectional}
        distances = np.arange(-500, 501)
        found = relative_buckets(torch.from_numpy(distances), **options)
        assert_equal(found, reference.relative_buckets(distances, **options))
    made, q_positions, k_positions = scheme(bidirectional=bidirectional), np.array([[4, 500], [-30, 1]]), np.arange(N)
    options = {"max_distance": 16, "bidirectional": bidirectional}
    expected = reference.relative_bias(made.weight.detach().numpy(), q_positions, k_positions, **options)
    assert_equal(made.bias(torch.from_numpy(q_positions), torch.from_numpy(k_positions)), expected)


def test_made_without_memory_and_filled_later():
    made = RelativeBias(6, device="meta").to_empty(device="cpu")
    made.reset_parameters()
    assert_equal(made.weight, np.zeros((32, 6)))


def test_positions_of_any_integers():
    q_positions, k_positions = torch.arange(3), torch.arange(N)
    expected = scheme().bias(q_positions, k_positions)
    assert_equal(scheme().bias(q_positions.to(torch.uint8), k_positions.to(torch.uint8)), expected)
    with pytest.raises(TypeError, match=r"k_positions has dtype torch\.float32: expected integers"):
        scheme().bias(q_positions, k_positions.float())


def test_a_layer_adds_the_bias():
    module, x, given = layer(D_MODEL, 6, d_head=4, position=scheme()), draw(BATCH, N, D_MODEL), draw(6, N, N, seed=2)
    places = torch.arange(N)
    plain = layer(D_MODEL, 6, d_head=4)
    plain.load_state_dict({name: value for name, value in module.state_dict().items() if name in plain.state_dict()})
    q, k, v = plain.project(x)
    by_distance = module.position.bias(places, places)
    expected = attention(q, k, v, bias=by_distance + given, mask=masks.causal)
    assert_equal(module.per_head(x, mask=masks.causal, bias=given), expected, rtol=1e-12, atol=1e-13)


def test_only_the_distance_counts():
    module, x = layer(D_MODEL, 6, d_head=4, position=scheme()), draw(BATCH, N, D_MODEL)
    expected = module(x, mask=masks.causal)
    assert_equal(module(x, mask=masks.causal, positions=torch.arange(N) + 100), expected, rtol=1e-13)
    assert_equal(module(x[:, -2:], x, mask=masks.causal), expected[:, -2:], rtol=1e-12, atol=1e-13)
    samples = [module(x[b : b + 1, :n], mask=masks.causal) for b, n in enumerate((N, 4))]
    right = module(x, mask=masks.causal & masks.lengths([N, 4]))
    assert_equal(right[1:, :4], samples[1], rtol=1e-12, atol=1e-13)
    left = torch.cat([draw(1, 3, D_MODEL, seed=5), x[1:, :4]], 1)
    seen = masks.dense(torch.arange(N)[None] >= 3)
    assert_equal(module(left, mask=masks.causal & seen)[:, 3:], samples[1], rtol=1e-12, atol=1e-13)


def test_layers_share_one_scheme_and_its_gradient():
    shared = scheme()
    layers = [layer(D_MODEL, 6, d_head=4, position=shared, seed=n) for n in (1, 2)]
    x = draw(BATCH, N, D_MODEL)
    sum(module(x).square().sum() for module in layers).backward()
    whole = shared.weight.grad.clone()
    parts = []
    for module in layers:
        shared.weight.grad = None
        module(x).square().sum().backward()
        parts.append(shared.weight.grad)
    assert_equal(whole, sum(parts), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_buckets": 3}, "num_buckets is 3: expected at least 4"),
        ({"num_buckets": 32, "max_distance": 8}, "max_distance is 8: expected at least 9"),
        ({"num_buckets": 32, "max_distance": 16, "bidirectional": False}, "max_distance is 16: expected at least 17"),
    ],
)
def test_sizes_that_make_no_buckets(options, words):
    with pytest.raises(ValueError, match=words):
        RelativeBias(6, **options)
    places, table = np.arange(3), np.ones((options.get("num_buckets", 32), 6))
    for floor, take in ((reference, np.asarray), (nn, torch.from_numpy)):
        with pytest.raises(ValueError, match=words):
            floor.relative_buckets(take(places), **options)
        without = {name: value for name, value in options.items() if name != "num_buckets"}
        with pytest.raises(ValueError, match=words):
            floor.relative_bias(take(table), take(places), take(places), **without)


def test_what_is_no_distance_and_no_table():
    for floor, take in ((reference, np.asarray), (nn, torch.from_numpy)):
        with pytest.raises(TypeError, match=r"distances has dtype .*: expected .*integers"):
            floor.relative_buckets(take(np.arange(3) / 2))
        with pytest.raises(TypeError, match=r"num_buckets is 32\.0: expected an integer"):
            floor.relative_buckets(take(np.arange(3)), num_buckets=32.0)
        with pytest.raises(ValueError, match=r"table has shape \(8,\): expected \(8, 8\)"):
            floor.relative_bias(take(np.ones(8)), take(np.arange(3)), take(np.arange(3)), max_distance=16)
        unsigned = take(np.arange(40, dtype=np.uint8))
        expected = reference.relative_buckets(np.arange(40), bidirectional=False)
        assert_equal(floor.relative_buckets(unsigned, bidirectional=False), expected)
