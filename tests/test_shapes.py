"""Every misuse of attention is refused once, at the edge, with name, expected and got."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, shapes
from mha.dropout import Dropout

Q, K, V = np.zeros((2, 6, 3, 4)), np.zeros((2, 2, 5, 4)), np.zeros((2, 2, 5, 7))


def test_check_fills_in_the_defaults():
    call = shapes.check(Q, K, V)
    assert call == shapes.Call((2,), 6, 2, 3, 5, None, 2, 0.5, None, None)
    assert call.weights_shape == (2, 6, 3, 5)
    assert call.batch == 2
    assert shapes.check(Q, K).q_start == 2
    assert shapes.check(np.zeros((1, 3, 0)), np.zeros((1, 3, 0))).scale == 1.0
    assert shapes.check(Q, K, V, dropout=Dropout(0.0, 3)).dropout is None


def test_leading_axes_broadcast():
    assert shapes.check(Q[None], K[:1], V).batch_shape == (1, 2)
    assert shapes.check(np.zeros((7, 1, 6, 3, 4)), np.zeros((3, 2, 5, 4)), V[0]).batch_shape == (7, 3)
    assert shapes.check(Q[0], K[0], V[0]).batch_shape == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [(((2, 3), (3,)), (2, 3)), (((1,), (0,)), (0,)), (((2,), (3,)), None), (((), (5, 1), (1, 7)), (5, 7))],
)
def test_broadcast(given, expected):
    assert shapes.broadcast(*given) == expected


def test_visible_broadcasts_to_the_weights():
    lengths = np.array([[5, 0, 1], [2, 4, 3]])
    q, k = np.zeros((2, 3, 6, 3, 4)), np.zeros((2, 3, 2, 5, 4))
    see = shapes.visible(shapes.check(q, k, mask=masks.lengths(lengths)))
    assert see.shape == (2, 3, 1, 3, 5)
    assert_equal(see[..., 0, 0, :].sum(-1), lengths)
    assert shapes.visible(shapes.check(q, k)) is None
    assert shapes.visible(shapes.check(q, k, mask=masks.causal)).shape == (3, 5)
    one_sample = shapes.check(Q[0], K[0], mask=np.ones((1, 6, 3, 5), bool))
    assert shapes.visible(one_sample).shape == (6, 3, 5)


ILLEGAL = {
    "rank": ({"q": Q[0, 0]}, ValueError, r"q has shape \(3, 4\): expected \(…, heads, length, width\)"),
    "integers": ({"k": K.astype(int)}, TypeError, "k has dtype int64: expected floating point"),
    "complex": ({"v": V.astype(complex)}, TypeError, "v has dtype complex128"),
    "objects": ({"q": Q.astype(object)}, TypeError, "q has dtype object"),
    "booleans": ({"q": Q > 0}, TypeError, "q has dtype bool"),
    "lists": ({"q": Q.tolist()}, TypeError, "q is a list: expected a NumPy array or a torch tensor"),
    "no bias": (
        {"bias": [0.0]},
        TypeError,
        "bias is a list: expected a NumPy array or a torch tensor; mha.kernels.attention takes a BiasRule too",
    ),
    "two libraries": ({"k": torch.zeros(2, 2, 5, 4)}, TypeError, "k is a torch tensor and q is a NumPy array"),
    "library of bias": ({"bias": torch.zeros(3, 5)}, TypeError, "bias is a torch tensor and q is a NumPy array"),
    "library of the mask": (
        {"mask": torch.ones(3, 5, dtype=torch.bool)},
        TypeError,
        "mask is a torch tensor and q is a NumPy array",
    ),
    "library of lengths": (
        {"mask": masks.causal & ~masks.lengths(torch.tensor([3, 5]))},
        TypeError,
        "mask is a torch tensor and q is a NumPy array: expected one library",
    ),
    "library of q_start": ({"q_start": torch.tensor(2)}, TypeError, "q_start is a torch tensor and q is a NumPy array"),
    "widths": ({"k": K[..., :3]}, ValueError, "k has width 3 and q has width 4"),
    "heads": (
        {"q": np.zeros((2, 8, 3, 4)), "k": np.zeros((2, 6, 5, 4)), "v": np.zeros((2, 6, 5, 7))},
        ValueError,
        "k has 6 heads and q has 8: query heads must be a multiple of key heads",
    ),
    "long double": ({"q": Q.astype(np.longdouble)}, TypeError, "q has dtype float128: expected .* of at most 64 bits"),
    "no values": ({"v": None}, TypeError, "v is a NoneType: expected a NumPy array or a torch tensor"),
    "no query heads": ({"q": Q[:, :0]}, ValueError, "k has 2 heads and q has 0: query heads must be a multiple"),
    "no heads": ({"k": K[:, :0], "v": V[:, :0]}, ValueError, "k has 0 heads and q has 6"),
    "value heads": ({"v": V[:, :1]}, ValueError, "v has 1 heads and k has 2"),
    "lengths": ({"v": V[:, :, :3]}, ValueError, "v has length 3 and k has length 5"),
    "leading axes": ({"q": np.zeros((3, 6, 3, 4))}, ValueError, r"do not broadcast: q \(3,\), k \(2,\), v \(2,\)"),
    "float mask": ({"mask": np.zeros((3, 5))}, TypeError, "mask has dtype float64: expected booleans.*bias="),
    "integer mask": ({"mask": np.ones((3, 5), int)}, TypeError, "mask has dtype int64: expected booleans"),
    "mask by name": ({"mask": "causal"}, TypeError, "mask is a str: expected a mask of mha.masks"),
    "mask of keys": ({"mask": np.ones((2, 5), bool)}, ValueError, r"\(2, 5\): expected \(i, j\) = \(3, 5\).*lengths"),
    "mask rank": ({"mask": np.ones((6, 3, 5), bool)}, ValueError, r"\(6, 3, 5\).*as \(1, h, i, j\)"),
    "mask of heads": ({"mask": np.ones((1, 5, 3, 5), bool)}, ValueError, r"\(1, 5, 3, 5\).*\(2, 6, 3, 5\)"),
    "samples of lengths": ({"mask": masks.lengths([3])}, ValueError, "lengths has 1 entries and the batch has 2"),
    "lengths too long": ({"mask": masks.causal & masks.lengths([3, 7])}, ValueError, "lengths holds 7 and .* 5 keys"),
    "boolean bias": ({"bias": np.ones((3, 5), bool)}, TypeError, "bias has dtype bool.*mask="),
    "bias shape": ({"bias": np.ones((3, 7))}, ValueError, r"bias has shape \(3, 7\): expected .*\(2, 6, 3, 5\)"),
    "bias too large": ({"bias": np.ones((3, 2, 6, 3, 5))}, ValueError, r"bias has shape \(3, 2, 6, 3, 5\)"),
    "scale": ({"scale": "auto"}, TypeError, "scale is a str: expected a number"),
    "infinite scale": ({"scale": np.inf}, ValueError, "scale is inf: expected a finite number"),
    "huge scale": ({"scale": 10**400}, ValueError, "scale is inf: expected a finite number"),
    "softcap": ({"softcap": 0.0}, ValueError, r"softcap is 0\.0: expected a positive number, or None"),
    "sinks": ({"sinks": np.zeros(5)}, ValueError, r"sinks has shape \(5,\): expected \(6,\)"),
    "q_start": ({"q_start": 1.5}, TypeError, r"q_start is 1\.5: expected an integer"),
    "huge q_start": ({"q_start": 2**70}, ValueError, f"q_start is {2**70}: expected an integer of 64 bits"),
    "q_start of samples": ({"q_start": [0, 1, 2]}, ValueError, "q_start has 3 entries and the batch has 2"),
    "mask that was not called": ({"mask": masks.window}, TypeError, r"mask is a function: .* masks\.window\(2, 0\)"),
    "mask as a list": ({"mask": [[True] * 5] * 3}, TypeError, "mask is a list: expected .* or a boolean array"),
    "dropout": ({"dropout": 0.1}, TypeError, r"dropout is 0\.1: expected mha\.dropout\.Dropout"),
}


@pytest.mark.parametrize(("change", "error", "message"), ILLEGAL.values(), ids=ILLEGAL)
def test_what_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        shapes.check(**{"q": Q, "k": K, "v": V} | change)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
def test_torch_dtypes_are_refused(dtype):
    q = torch.zeros(1, 1, 3, 4)
    with pytest.raises(TypeError, match=f"k has dtype {dtype}: expected floating point"):
        shapes.check(q, q.to(dtype), q)


def test_torch_is_checked_the_same():
    q, k, v = map(torch.from_numpy, (Q, K, V))
    assert shapes.check(q, k, v) == shapes.check(Q, K, V)
    with pytest.raises(ValueError, match="v has length 3 and k has length 5"):
        shapes.check(q, k, v[:, :, :3])


def test_numpy_tables_serve_torch():
    q, k = torch.from_numpy(Q), torch.from_numpy(K)
    assert shapes.check(q, k, mask=masks.lengths([3, 5]), q_start=np.array([0, 2], np.uint64)).n_k == 5


@pytest.mark.parametrize(
    ("d_model", "num_heads", "error", "message"),
    [
        (12, 2.0, TypeError, r"num_heads is 2\.0: expected an integer"),
        (12, True, TypeError, "num_heads is True: expected an integer"),
        (12, 0, ValueError, "d_model is 12 and num_heads is 0: heads must split"),
    ],
)
def test_check_heads(d_model, num_heads, error, message):
    with pytest.raises(error, match=message):
        shapes.check_heads(d_model, num_heads)
