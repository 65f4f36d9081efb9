"""What an approximation refuses, on both floors, and that its words are true: it serves what it declares."""

import numpy as np
import pytest
import torch

from approximation_calls import LENGTHS, MASKS, D, draw, mask, serves, shared, tensors
from compare import assert_equal
from mha import approximations, masks, nn, reference
from mha.dropout import Dropout

RANK = np.random.default_rng(5).standard_normal((13, 4))


def linformer():
    core = nn.Linformer(*RANK.shape, dtype=torch.float64).requires_grad_(False)
    core.e.copy_(torch.from_numpy(RANK))
    core.f.copy_(torch.from_numpy(-2 * RANK))
    return core


CORES = {
    "elu + 1": lambda floor: floor.FeatureAttention(),
    "squared relu": lambda floor: floor.FeatureAttention(floor.squared_relu),
    "softmax features": lambda floor: floor.FeatureAttention(floor.softmax_features),
    "Performer": lambda floor: floor.Performer(11, D, seed=3),
    "independent": lambda floor: floor.Performer(11, D, orthogonal=False),
    "Linformer": lambda floor: reference.Linformer(RANK, -2 * RANK) if floor is reference else linformer(),
    "Nystrom": lambda floor: floor.Nystrom(4),
    "Reformer": lambda floor: floor.Reformer(D, 4, chunk=3, rounds=2),
    "Reformer across buckets": lambda floor: floor.Reformer(D, 6, chunk=4, rounds=3, across_buckets=True),
    "Reformer of one bucket": lambda floor: floor.Reformer(D, 1, chunk=5),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("core", CORES)
def test_floors_agree_or_refuse(core, name):
    """Weights at most 1, values of order 1, at most 13 terms: 1e-12 is 4500 ε. Linformer's sums are larger."""
    one, two = CORES[core](reference), CORES[core](nn)
    assert one.supports == two.supports
    for lengths in LENGTHS:
        self_only = core.startswith("Reformer") and lengths[0] == lengths[1]
        rows = shared(lengths[0]) if self_only else draw(*lengths)
        options = mask(name, lengths[1])
        if not serves(one, name, *lengths):
            for each, given in ((one, rows), (two, tensors(*rows))):
                with pytest.raises(ValueError, match="does not support"):
                    each(*given, **options)
            continue
        expected = one(*rows, **options)
        close = {"atol": 1e-12 * max(1, np.abs(expected).max(initial=0)), "label": str(lengths)}
        assert_equal(two(*tensors(*rows), **options), expected, **close)


@pytest.mark.parametrize("core", CORES)
def test_errors_are_relative_and_the_same_on_both_floors(core):
    rows = shared(13) if core.startswith("Reformer") else draw(13)
    core, options = CORES[core], mask("lengths", 13)
    exact = getattr(core(reference), "exact", reference.attention)(*rows, **options)
    expected = np.sqrt(((core(reference)(*rows, **options) - exact) ** 2).sum() / (exact**2).sum())
    assert_equal(reference.approximation_error(core(reference), *rows, **options), expected, rtol=1e-12)
    assert_equal(nn.approximation_error(core(nn), *tensors(*rows), **options), expected, rtol=1e-11, atol=1e-14)


def test_errors_without_a_size():
    q, k, v = draw(5, 0)
    assert reference.approximation_error(reference.FeatureAttention(), q, k, v) == 0
    assert nn.approximation_error(nn.FeatureAttention(), *tensors(q, k, v)) == 0
    for floor, rows in ((reference, (q, k, v)), (nn, tensors(q, k, v))):
        assert floor.approximation_error(lambda q, k, v: q + 1, rows[0], rows[1], rows[1]) == np.inf


OPTIONS = {
    "bias": np.zeros((13, 13)),
    "softcap": 3.0,
    "sinks": np.zeros(4),
    "dropout": Dropout(0.1, 1),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("core", ["elu + 1", "Performer", "Linformer", "Nystrom", "Reformer"])
def test_what_needs_the_scores_is_refused(core, option):
    core = CORES[core](reference)
    rows = shared(13) if isinstance(core, reference.Reformer) else draw(13)
    with pytest.raises(ValueError, match=f"{option} is given: expected None, for .* never forms the scores"):
        core(*rows, **{option: OPTIONS[option]})
    core(*rows, **{option: None})


def test_refusals_say_what_is_served():
    q, k, v = draw(13)
    with pytest.raises(ValueError, match="Nystrom does not support a causal mask: it supports padding, cross"):
        reference.Nystrom(3)(q, k, v, mask=masks.causal)
    with pytest.raises(ValueError, match=r"mask is window\(1, 0\): Performer supports .* and not window\(1, 0\)"):
        reference.Performer(3, D)(q, k, v, mask=masks.window(1, 0))
    with pytest.raises(ValueError, match=r"and not causal \| lengths"):
        reference.Performer(3, D)(q, k, v, mask=masks.causal | masks.lengths([3, 4]))
    with pytest.raises(ValueError, match="and not dense"):
        reference.Performer(3, D)(q, k, v, mask=np.tri(13, dtype=bool))
    with pytest.raises(ValueError, match=r"Reformer does not support 5 queries on 13 keys \(cross\)"):
        reference.Reformer(D, 2)(q[..., :5, :], k, v)
    with pytest.raises(TypeError, match=r"has no option is_causal: mask=masks\.causal"):
        nn.FeatureAttention()(*tensors(q, k, v), is_causal=True)
    with pytest.raises(TypeError, match="Nystrom has no option landmarks"):
        nn.Nystrom(3)(*tensors(q, k, v), landmarks=2)


def test_masks_fall_into_what_hides_keys_and_causal():
    q, k, v = draw(13)
    asked = approximations.ask(reference.FeatureAttention(), q, k, v, mask=mask("causal padding", 13)["mask"])
    assert asked.causal
    assert not asked.call.mask.compares_positions()
    assert asked.of_keys().n_q == 1
    assert asked.first_keys().shape == (2,)
    assert approximations.ask(reference.FeatureAttention(), q, k, v).first_keys() is None


@pytest.mark.parametrize("core", ["elu + 1", "Performer", "Linformer", "Nystrom"])
def test_as_a_core_of_the_layer(core):
    core = CORES[core](nn)
    layer = nn.MultiHeadAttention(4 * D, 4, num_kv_heads=2, core=core, dtype=torch.float64)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 13, 4 * D)))
    q, k, v = layer.project(x)
    assert_equal(layer.per_head(x, mask=masks.lengths([13, 4])), core(q, k, v, mask=masks.lengths([13, 4])))
    layer(x).sum().backward()
    assert layer.k_proj.weight.grad.isfinite().all()


@pytest.mark.parametrize("core", ["elu + 1", "Performer"])
@pytest.mark.parametrize("padding", [0, [1, 4]], ids=str)
def test_steps_with_a_cache_are_the_whole(core, padding):
    """Also where the samples have lengths of their own, and so positions of their own."""
    layer = nn.MultiHeadAttention(4 * D, 4, core=CORES[core](nn), dtype=torch.float64).requires_grad_(False)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 9, 4 * D)))
    starts = [padding] * 2 if padding == 0 else padding
    cache, rows = nn.Cache(padding if padding == 0 else -torch.tensor(padding)), []
    for part in (slice(0, 5), slice(5, 6), slice(6, 9)):
        row, cache = layer.step(x[:, part], cache, mask=masks.causal)
        rows.append(row)
    for sample, start in enumerate(starts):
        expected = layer(x[sample : sample + 1, start:], mask=masks.causal)
        assert_equal(torch.cat(rows, 1)[sample : sample + 1, start:], expected, atol=1e-12)


@pytest.mark.parametrize("core", ["elu + 1", "Performer", "Nystrom"])
def test_low_precision_is_rounded_once(core):
    rows = [x.bfloat16() for x in tensors(*draw(13))]
    core = CORES[core](nn)
    found, exact = core(*rows), core(*(x.float() for x in rows))
    assert found.dtype == torch.bfloat16
    assert_equal(found, exact.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_equal(core(*(x.float() for x in rows)), exact)
