"""The reference computes with NumPy arrays of floating point, and refuses the rest by name."""

import numpy as np
import pytest
import torch

from mha import masks, reference

Q, K, V = np.zeros((2, 6, 3, 4)), np.zeros((2, 2, 5, 4)), np.zeros((2, 2, 5, 7))
D_OUTPUT, SCORES = np.zeros((2, 6, 3, 7)), np.zeros((3, 5))
X, W = np.zeros((2, 3, 12)), {name: np.zeros((12, 12)) for name in ("w_q", "w_k", "w_v", "w_o")}
HEADS, W_O = np.zeros((2, 6, 3, 4)), np.zeros((24, 7))

CALLS = {
    "attention": ({"q": Q, "k": K, "v": V}, {}),
    "attention_weights": ({"q": Q, "k": K}, {}),
    "attention_stats": ({"q": Q, "k": K, "v": V}, {}),
    "attention_backward": ({"q": Q, "k": K, "v": V, "d_output": D_OUTPUT}, {}),
    "softmax": ({"scores": SCORES}, {}),
    "log_sum_exp": ({"scores": SCORES}, {}),
    "multi_head_attention": ({"x": X, **W}, {"num_heads": 6}),
    "head_outputs": ({"x": X, **{name: W[name] for name in ("w_q", "w_k", "w_v")}}, {"num_heads": 6}),
    "head_contributions": ({"heads": HEADS, "w_o": W_O}, {}),
    "rotate": ({"x": HEADS}, {"positions": np.arange(3)}),
}
EACH = [(function, name) for function, (arrays, _) in CALLS.items() for name in arrays]


def call(function, **changed):
    arrays, options = CALLS[function]
    return getattr(reference, function)(**arrays | options | changed)


@pytest.mark.parametrize("function", CALLS)
def test_the_arguments_are_legal(function):
    call(function)


@pytest.mark.parametrize("make", [torch.zeros, lambda *shape: torch.zeros(*shape, requires_grad=True)])
@pytest.mark.parametrize(("function", "name"), EACH)
def test_a_tensor_is_refused(function, name, make):
    with pytest.raises(TypeError, match=f"{name} is a torch tensor"):
        call(function, **{name: make(*CALLS[function][0][name].shape)})


@pytest.mark.parametrize("function", CALLS)
def test_tensors_alone_are_refused(function):
    arrays, options = CALLS[function]
    positions = {"positions": torch.arange(3)} if "positions" in options else {}
    with pytest.raises(TypeError, match=r"is a torch tensor: expected a NumPy array; mha\.nn takes tensors"):
        call(function, **{name: torch.from_numpy(x) for name, x in arrays.items()}, **positions)


@pytest.mark.parametrize("dtype", [int, complex, object, bool, np.longdouble])
@pytest.mark.parametrize(("function", "name"), EACH)
def test_other_numbers_are_refused(function, name, dtype):
    with pytest.raises(TypeError, match=f"{name} has dtype .*: expected floating point of at most 64 bits"):
        call(function, **{name: CALLS[function][0][name].astype(dtype)})


@pytest.mark.parametrize(
    ("function", "changed", "name"),
    [
        ("attention", {"mask": torch.ones(3, 5, dtype=torch.bool)}, "mask"),
        ("attention_stats", {"mask": masks.causal & masks.lengths(torch.tensor([3, 5]))}, "mask"),
        ("attention_weights", {"q_start": torch.tensor([1, 2])}, "q_start"),
        ("attention_backward", {"bias": torch.zeros(3, 5)}, "bias"),
        ("attention", {"sinks": torch.zeros(6)}, "sinks"),
        ("multi_head_attention", {"biases": (torch.zeros(12), None, None, None)}, "the bias beside w_q"),
        ("multi_head_attention", {"context": torch.zeros(2, 5, 12)}, "context"),
        ("rotate", {"positions": torch.arange(3)}, "positions"),
    ],
)
def test_mixtures_are_refused(function, changed, name):
    with pytest.raises(TypeError, match=f"{name} is a torch tensor"):
        call(function, **changed)


@pytest.mark.parametrize(
    ("function", "changed", "error", "message"),
    [
        ("attention", {"v": None}, TypeError, "v is a NoneType: expected a NumPy array"),
        ("softmax", {"scores": [1.0, 2.0]}, TypeError, "scores is a list: expected a NumPy array"),
        (
            "multi_head_attention",
            {"biases": (None,) * 3},
            ValueError,
            "biases has 3 entries: expected 4, those of q, k",
        ),
        ("head_outputs", {"biases": None}, ValueError, "biases is a NoneType: expected 3, those of q, k, v"),
        ("head_contributions", {"heads": X[0]}, ValueError, r"heads has shape \(3, 12\): expected \(…, heads, length"),
        ("rotate", {"positions": np.arange(3.0)}, TypeError, "positions has dtype float64: expected an array of int"),
        ("rotate", {"positions": [0, 1, 2]}, TypeError, "positions has type list: expected an array of integers"),
    ],
)
def test_what_is_refused(function, changed, error, message):
    with pytest.raises(error, match=message):
        call(function, **changed)


def test_ranks_of_heads():
    with pytest.raises(ValueError, match=r"x has shape \(12,\): expected \(…, length, width\)"):
        reference.split_heads(np.zeros(12), 3)
    with pytest.raises(ValueError, match=r"x has shape \(3, 4\): expected \(…, heads, length, width\)"):
        reference.join_heads(np.zeros((3, 4)))
