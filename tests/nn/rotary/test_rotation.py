"""Rotation on tensors against the reference, two libraries and its own law: q·k depends on the distance alone."""

import math

import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import (
    Cache,
    MultiHeadAttention,
    Rotary,
    RotaryFrequencies,
    interleaved_order,
    rotary_frequencies,
    rotate,
    rotate_by,
    yarn_frequencies,
)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("positions", [torch.arange(7), torch.arange(14).reshape(2, 7) * 5 - 3], ids=["(n,)", "(b, n)"])
def test_equals_the_reference(layout, positions):
    x = draw(2, 3, 7, 10)
    expected = reference.rotate(x.numpy(), positions.numpy(), base=500.0, layout=layout)
    assert_equal(rotate(x, positions, base=500.0, layout=layout), expected, rtol=0, atol=1e-13)
    scheme = Rotary(base=500.0, layout=layout)
    assert_equal(scheme.rotate(x, positions), expected, rtol=0, atol=1e-13)
    assert_equal(scheme.at(positions, 10).rotate(x), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("width", [2, 6, 10])
def test_the_first_coordinates_equal_the_reference(layout, width):
    x, positions, options = draw(2, 3, 7, 11), torch.arange(7) * 5, {"layout": layout, "width": width}
    expected = reference.rotate(x.numpy(), positions.numpy(), base=500.0, **options)
    assert_equal(rotate(x, positions, base=500.0, **options), expected, rtol=0, atol=1e-13)
    assert_equal(Rotary(500.0, **options).at(positions, 11).rotate(x), expected, rtol=0, atol=1e-13)
    frequencies = rotary_frequencies(width, 500.0) / 3
    expected = reference.rotate_by(x.numpy(), positions.numpy(), frequencies.numpy(), gain=1.5, **options)
    assert_equal(rotate_by(x, positions, frequencies, gain=1.5, **options), expected, rtol=0, atol=1e-13)


def test_published_numbers():
    """transformers#25199: one layout taken for the other; transformers#22161: absolute positions."""
    first = torch.tensor([1.0, 0, 0, 0]).double().reshape(1, 1, 1, 4)
    one = torch.tensor([1])
    assert_equal(rotate(first, one).flatten(), [math.cos(1), 0, math.sin(1), 0], rtol=1e-15)
    assert_equal(rotate(first, one, layout="interleaved").flatten(), [math.cos(1), math.sin(1), 0, 0], rtol=1e-15)
    q, k = (torch.tensor(x).double().reshape(1, 1, 1, 4) for x in ([1.0, 2, 3, 4], [0.5, -1, 2, 0]))
    for shift in (0, 100):
        dot = (rotate(q, torch.tensor([7 + shift])) * rotate(k, torch.tensor([3 + shift]))).sum()
        assert_equal(dot, -6.4655277, rtol=0, atol=5e-8)


def test_far_positions_keep_their_distance_in_float32():
    """Phases of a million in float32 would be off by 0.03."""
    q, k = (draw(1, 1, 1, 8, seed=s, dtype=torch.float32) for s in (1, 2))
    near = (rotate(q, torch.tensor([5])) * rotate(k, torch.tensor([2]))).sum()
    far = (rotate(q, torch.tensor([1_000_005])) * rotate(k, torch.tensor([1_000_002]))).sum()
    assert_equal(far, near, rtol=0, atol=16 * 8 * 2.0**-24 * float(q.norm() * k.norm()))


def test_the_angles_of_far_positions():
    """transformers multiplies float32 by float32: at a million positions its angles are off where ours are not."""
    far, x = torch.tensor([999_983]), draw(1, 1, 1, 26, dtype=torch.float32)
    expected = reference.rotate(x.numpy(), far.numpy())
    assert_equal(rotate(x, far), expected, rtol=0, atol=4 * 2.0**-24 * float(x.abs().max()))
    phases = far.float()[:, None] * rotary_frequencies(26).float()
    a, b = x.chunk(2, -1)
    theirs = torch.cat((a * phases.cos() - b * phases.sin(), b * phases.cos() + a * phases.sin()), -1)
    assert (theirs - torch.from_numpy(expected)).abs().max() > 1e-3


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_dtype_and_gradient(layout):
    x = draw(1, 2, 5, 7).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, torch.arange(5), layout=layout, width=6), x)
    assert rotate(x.to(torch.bfloat16), torch.arange(5), layout=layout, width=6).dtype == torch.bfloat16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_frequencies_of_their_own(layout):
    x, positions = draw(2, 3, 5, 6), torch.arange(5) + 7
    frequencies = [100.0 ** (-2 * c / 6) for c in range(3)]
    scheme = RotaryFrequencies(frequencies, layout=layout)
    assert_equal(scheme.rotate(x, positions), rotate(x, positions, base=100.0, layout=layout), atol=1e-14)
    assert scheme == RotaryFrequencies(tuple(frequencies), layout=layout)
    assert hash(scheme) == hash(RotaryFrequencies(tuple(frequencies), layout=layout))
    assert scheme == RotaryFrequencies(torch.tensor(frequencies, dtype=torch.float64), layout=layout)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rotate(draw(1, 1, 5, 7), torch.arange(5)), "even width"),
        (lambda: rotate(draw(1, 1, 5, 6), torch.arange(4)), r"positions has shape \(4,\): expected \(5,\)"),
        (lambda: rotate(draw(1, 1, 5, 6), torch.arange(5), layout="halves"), "layout is 'halves'"),
        (lambda: Rotary().at(torch.arange(1), 6).rotate(draw(1, 1, 5, 6)), r"x has shape \(1, 1, 5, 6\): .*\(1, 6\)"),
        (lambda: Rotary().at(torch.arange(5), 4).rotate(draw(1, 1, 5, 6)), r"expected .* \(5, 4\) at the end"),
        (lambda: RotaryFrequencies((1.0,)).rotate(draw(1, 1, 5, 6), torch.arange(5)), "x has width 6: expected 2"),
        (lambda: RotaryFrequencies((1.0,), width=4), "width is 4: expected 2, a pair a frequency"),
        (lambda: RotaryFrequencies((1.0,), gain=0.0), "gain is 0.0: expected a positive number"),
        (lambda: rotate(draw(1, 1, 5, 7), torch.arange(5), width=3), "width is 3: expected an even number"),
        (
            lambda: rotate(draw(1, 1, 5, 7), torch.arange(5), width=8),
            "width is 8: expected an even number above 0 and at most 7",
        ),
        (lambda: MultiHeadAttention(21, 3, position=Rotary(width=8)), "d_head is 7: expected at least 8"),
        (lambda: RotaryFrequencies((float("nan"),)), "frequencies is nan: expected a finite number"),
        (lambda: interleaved_order(0, 4), "num_heads is 0: expected at least 1"),
    ],
)
def test_bad_calls_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


PARTIAL = {
    "rotary": Rotary(base=100.0, width=4),
    "interleaved": Rotary(base=100.0, layout="interleaved", width=4),
    "yarn": RotaryFrequencies(yarn_frequencies(rotary_frequencies(4, 100.0), 4.0, 11), width=4, gain=1.2),
}


@pytest.mark.parametrize("scheme", PARTIAL.values(), ids=PARTIAL)
class TestInALayer:
    def layer(self, scheme):
        module = MultiHeadAttention(21, 3, position=scheme, dtype=torch.float64)
        for n, parameter in enumerate(module.parameters()):
            parameter.data.copy_(0.3 * draw(*parameter.shape, seed=n + 10))
        return module.eval()

    def test_cached_equals_whole(self, scheme):
        module, x, cache, parts = self.layer(scheme), draw(2, 11, 21), Cache(), []
        for rows in x.split((5, 1, 2, 3), 1):
            angles = scheme.at(cache.positions(rows.shape[1]), module.d_head)
            once, _ = module.step(rows, cache, mask=masks.causal, position=angles)
            part, cache = module.step(rows, cache, mask=masks.causal)
            assert_equal(once, part, label="angles made beforehand")
            parts.append(part)
        assert_equal(torch.cat(parts, 1), module(x, mask=masks.causal), rtol=0, atol=1e-12)

    def test_padded_equals_unpadded(self, scheme):
        module, x = self.layer(scheme), draw(2, 11, 21)
        padded = module(x, mask=masks.causal & masks.lengths([11, 7]))
        assert_equal(padded[1:, :7], module(x[1:, :7], mask=masks.causal), rtol=0, atol=1e-12)
        far = module(x, mask=masks.causal, positions=torch.arange(11) + 50)
        assert_equal(far, module(x, mask=masks.causal), rtol=0, atol=1e-11)


@pytest.mark.parametrize("scheme", [PARTIAL["interleaved"], PARTIAL["yarn"]], ids=["interleaved", "yarn"])
def test_in_a_graph(scheme):
    compiled = torch.compile(scheme.rotate, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (11, 5):
        x, positions = draw(2, 3, n, 7), torch.arange(n) + 3
        assert_equal(compiled(x, positions), scheme.rotate(x, positions), rtol=0, atol=1e-15)


def test_moved_rows_of_the_weights_move_the_layout():
    order, x = interleaved_order(3, 7, width=4), draw(2, 5, 21)
    half, other = (
        MultiHeadAttention(21, 3, position=Rotary(layout=layout, width=4), dtype=torch.float64)
        for layout in ("half", "interleaved")
    )
    other.load_state_dict(half.state_dict())
    assert (other(x) - half(x)).abs().max() > 1e-4
    for linear in (other.q_proj, other.k_proj):
        linear.weight.data, linear.bias.data = linear.weight.data[order], linear.bias.data[order]
    assert_equal(other(x), half(x), rtol=0, atol=1e-14)
    assert_equal(order, reference.interleaved_order(3, 7, width=4))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
def test_equals_onnx(interleaved, width):
    """The operator RotaryEmbedding of opset 23, by the reference evaluator of the standard; width 0 is all there."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    d_head = 6
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": width}
    node = onnx.helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "p"], ["y"], **attributes)
    infos = [
        onnx.helper.make_tensor_value_info(name, kind, None)
        for name, kind in (("x", 1), ("cos", 1), ("sin", 1), ("p", 7))
    ]
    made = onnx.helper.make_tensor_value_info("y", 1, None)
    graph = onnx.helper.make_graph([node], "rotary", infos, [made])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    x, positions = draw(2, 3, 5, d_head, dtype=torch.float32), torch.arange(10).reshape(2, 5)
    phases = torch.arange(10)[:, None] * rotary_frequencies(width or d_head)
    tables = {"cos": phases.cos().float().numpy(), "sin": phases.sin().float().numpy()}
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x.numpy(), "p": positions.numpy(), **tables})
    options = {"layout": "interleaved" if interleaved else "half", "width": width or None}
    assert_equal(rotate(x, positions, **options), expected, rtol=0, atol=4 * 2.0**-24 * float(x.abs().max()))
    options["layout"] = "half" if interleaved else "interleaved"
    assert abs(rotate(x, positions, **options).numpy() - expected).max() > 0.1
