"""One call, one meaning: `mha.nn` against `mha.reference`, option by option and then at random."""

import math

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn, reference
from mha.dropout import Dropout

EPS = 2.0**-53


def tolerance(num_keys, width):
    """Bound on the difference of two float64 evaluations with entries of order 1.

    A score sums `width` products, the output `num_keys`; both errors pass through an exponential of slope ≤ 1,
    and each evaluation makes them: 2 · (width + num_keys + a few roundings of exp and division) · ε · size,
    where 64 covers the sizes (|s| ≤ 8, |v| ≤ 8) that normal draws of these counts do not exceed.
    """
    return {"rtol": 0.0, "atol": 2 * (width + num_keys + 8) * 64 * EPS}


def in_torch(x):
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


def call_both(name, q, k, v, **options):
    tensors = q, k, v
    if name == "attention_weights":
        tensors = q, k
    expected = getattr(reference, name)(*tensors, **options)
    actual = getattr(nn, name)(*map(in_torch, tensors), **{key: in_torch(x) for key, x in options.items()})
    return actual, expected


def compare(q, k, v, **options):
    close = tolerance(k.shape[-2], q.shape[-1])
    assert_equal(*call_both("attention", q, k, v, **options), **close, label="attention")
    if "dropout" not in options:
        assert_equal(*call_both("attention_weights", q, k, v, **options), **close, label="weights")
    (out, stats), (expected, expected_stats) = call_both("attention_stats", q, k, v, **options)
    assert_equal(out, expected, **close, label="output beside stats")
    for field in ("lse", "max_logit", "entropy"):
        assert_equal(getattr(stats, field), getattr(expected_stats, field), **close, label=field)


def draw(rng, batch, num_heads, num_groups, n_q, n_k, width, value_width):
    make = rng.standard_normal
    return (
        make((*batch, num_heads, n_q, width)),
        make((*batch, num_groups, n_k, width)),
        make((*batch, num_groups, n_k, value_width)),
    )


LENGTHS = [(7, 7), (5, 11), (11, 5), (1, 13), (1, 1)]
HEADS = [(3, 3), (6, 2), (5, 1)]


def options_for(rng, batch, num_heads, n_q, n_k):
    see = rng.random((*batch, num_heads, n_q, n_k)) > 0.4
    bias = rng.standard_normal((num_heads, n_q, n_k))
    holes = np.where(rng.random((n_q, n_k)) > 0.3, 0.0, -math.inf)
    return {
        "nothing": {},
        "causal": {"mask": masks.causal},
        "composed": {"mask": (masks.causal & masks.window(2, 0)) | masks.dense(see[:1, :1])},
        "lengths": {"mask": masks.lengths(rng.integers(0, n_k + 1, batch[0])) & masks.causal},
        "bool": {"mask": see},
        "bias": {"bias": bias},
        "bias of -inf": {"bias": bias + holes, "mask": masks.causal},
        "scale": {"scale": 0.7, "mask": see},
        "softcap": {"softcap": 0.9, "mask": masks.causal},
        "sinks": {"sinks": rng.standard_normal(num_heads), "mask": see},
        "q_start": {"q_start": 2, "mask": masks.causal},
        "q_start per sample": {"q_start": rng.integers(-3, n_k + 2, batch[0]), "mask": masks.causal},
        "dropout": {"dropout": Dropout(0.3, 11)},
        "all": {
            "mask": see,
            "bias": bias + holes,
            "scale": 0.5,
            "softcap": 2.0,
            "sinks": rng.standard_normal(num_heads),
            "dropout": Dropout(0.2, 13),
        },
    }


CASES = list(options_for(np.random.default_rng(0), (2,), 3, 7, 7))


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_nn_is_the_reference(case, lengths, heads):
    rng = np.random.default_rng(17)
    for width, value_width in [(5, 5), (5, 3), (3, 7)]:
        options = options_for(rng, (2,), heads[0], *lengths)[case]
        compare(*draw(rng, (2,), *heads, *lengths, width, value_width), **options)


@pytest.mark.parametrize("batch", [(), (2, 3), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"mask": np.eye(5, 7, dtype=bool)}, {"softcap": 1.0}])
def test_any_leading_dimensions(batch, options):
    compare(*draw(np.random.default_rng(3), batch, 4, 2, 5, 7, 3, 2), **options)


def test_leading_dimensions_broadcast():
    rng = np.random.default_rng(4)
    q, k, v = draw(rng, (2,), 3, 3, 5, 7, 3, 2)
    for shared in [(q[:1], k, v), (q, k[:1], v[:1]), (q, k, v[:1]), (q[:1], k[:1], v)]:
        compare(*shared)
        compare(*shared, mask=masks.causal)
        compare(*shared, softcap=1.0)


@pytest.mark.parametrize("empty", ["n_q", "n_k", "both", "batch"])
@pytest.mark.parametrize("options", [{}, {"mask": masks.causal}, {"softcap": 1.0}, {"sinks": np.zeros(3)}])
def test_length_zero(empty, options):
    batch = (0,) if empty == "batch" else (2,)
    n_q = 0 if empty in ("n_q", "both") else 5
    n_k = 0 if empty in ("n_k", "both") else 7
    compare(*draw(np.random.default_rng(5), batch, 3, 3, n_q, n_k, 5, 2), **options)


def random_call(rng):
    """Draw a legal call: sizes, heads, and each option with a chance of one third."""
    batch = int(rng.integers(1, 4))
    num_groups = int(rng.integers(1, 4))
    num_heads = num_groups * int(rng.integers(1, 4))
    n_q, n_k = (int(n) for n in rng.choice([0, 1, 2, 3, 5, 8, 13], 2))
    tensors = draw(rng, (batch,), num_heads, num_groups, n_q, n_k, int(rng.integers(1, 7)), int(rng.integers(1, 7)))
    chance = lambda: rng.random() < 1 / 3  # noqa: E731
    terms = [
        masks.causal,
        masks.window(int(rng.integers(0, 5)), int(rng.integers(0, 5))),
        masks.lengths(rng.integers(0, n_k + 1, batch)),
        masks.dense(rng.random([x if rng.random() < 0.5 else 1 for x in (batch, num_heads, n_q, n_k)]) > 0.3),
        masks.dense(rng.random((n_q, n_k)) > 0.3),
    ]
    options = {}
    if rng.random() < 0.7:
        options["mask"] = terms[rng.integers(len(terms))]
        for _ in range(rng.integers(0, 3)):
            other = terms[rng.integers(len(terms))]
            options["mask"] = options["mask"] & other if rng.random() < 0.6 else options["mask"] | ~other
    if chance():
        holes = np.where(rng.random((n_q, n_k)) > 0.2, 0.0, -math.inf)
        options["bias"] = rng.standard_normal((1, num_heads, n_q, n_k)) + holes
    if chance():
        options["scale"] = float(rng.uniform(0.1, 2.0))
    if chance():
        options["softcap"] = float(rng.uniform(0.5, 3.0))
    if chance():
        options["sinks"] = rng.standard_normal(num_heads)
    if chance():
        options["q_start"] = int(rng.integers(-3, 9)) if chance() else rng.integers(-3, 9, batch)
    if chance():
        options["dropout"] = Dropout(float(rng.uniform(0, 0.9)), int(rng.integers(2**31)))
    return tensors, options


@pytest.mark.parametrize("seed", range(8))
def test_random_calls(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        tensors, options = random_call(rng)
        compare(*tensors, **options)


@pytest.mark.parametrize("seed", range(4))
def test_random_gradients(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(20):
        (q, k, v), options = random_call(rng)
        d_out = rng.standard_normal((*q.shape[:-1], v.shape[-1]))
        expected = reference.attention_backward(q, k, v, d_out, **options)
        leaves = {name: torch.from_numpy(x).requires_grad_() for name, x in zip("qkv", (q, k, v), strict=True)}
        in_options = {name: in_torch(x) for name, x in options.items()}
        for name in {"bias", "sinks"} & options.keys():
            leaves[name] = in_options[name] = in_options[name].requires_grad_()
        nn.attention(**in_options, q=leaves["q"], k=leaves["k"], v=leaves["v"]).backward(torch.from_numpy(d_out))
        for name, leaf in leaves.items():
            assert_equal(leaf.grad, getattr(expected, name), rtol=1e-11, atol=1e-12, label=name)
