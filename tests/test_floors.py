"""`mha.attention` takes the floor of its arguments, and `mha.which` says so beforehand."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import mha
from compare import assert_equal
from mha import kernels, masks, nn, reference
from mha.kernels import runtime

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
    assert choice.refused["kernels"] == "q is on the device cpu; the kernels take CUDA tensors"
    assert str(choice).splitlines()[0] == "nn"


@pytest.fixture
def on_cuda(monkeypatch):
    """Return a function that makes q, k and v on a device of this architecture: shapes without numbers need none."""

    def make(architecture=90, dtype=torch.float16, width=16, value_width=16):
        monkeypatch.setattr(runtime, "architecture", lambda device: architecture)
        shapes = (2, 4, 5, width), (2, 2, 7, width), (2, 2, 7, value_width)
        return [torch.empty(shape, dtype=dtype, device="cuda") for shape in shapes]

    with FakeTensorMode():
        yield make


@pytest.mark.parametrize("architecture", [80, 86, 90, 120])
def test_cuda_goes_to_the_kernels(on_cuda, architecture):
    choice = mha.which(*on_cuda(architecture), mask=masks.causal)
    assert choice.floor == "kernels"
    assert choice.refused == {
        "reference": "q is a torch tensor; the reference takes NumPy arrays",
        "nn": "the kernels serve this call",
    }


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"architecture": 75}, "compute capability 7.5, for which today's Triton uses no tensor cores"),
        ({"architecture": 70}, "cuda:0 has compute capability 7.0: kernels need 7.5 or newer; mha.nn takes any"),
        ({"dtype": torch.float64}, "q has dtype torch.float64: kernels take float16, bfloat16 and float32"),
        ({"width": 257}, "q has width 257: kernels take up to 256; mha.nn takes any"),
        ({"value_width": 300}, "v has width 300: kernels take up to 256; mha.nn takes any"),
    ],
)
def test_what_the_kernels_lack_goes_to_nn(on_cuda, made, reason):
    choice = mha.which(*on_cuda(**made))
    assert choice.floor == "nn"
    assert reason in choice.refused["kernels"]


def test_one_dtype_is_asked_for(on_cuda):
    q, k, v = on_cuda()
    assert "k has dtype torch.float32 and q has dtype torch.float16" in mha.which(q, k.float(), v).refused["kernels"]
    bias = torch.empty(5, 7, dtype=torch.float64, device="cuda")
    assert "bias has dtype torch.float64" in mha.which(q, k, v, bias=bias).refused["kernels"]
    assert mha.which(q, k, v, bias=bias.float()).floor == "kernels"


def test_a_rule_of_positions_is_for_the_kernels_alone(on_cuda):
    q, k, v = on_cuda()
    for call in (mha.attention, mha.which):
        with pytest.raises(TypeError, match=r"bias is a BiasRule: .*; mha.kernels.attention takes a BiasRule too"):
            call(q, k, v, bias=kernels.alibi(torch.ones(q.shape[1])))


def test_kernels_called_by_name_never_hand_a_call_on():
    q, k, v = (torch.from_numpy(x).float() for x in (Q, K, V))
    for function in (kernels.attention, kernels.attention_stats):
        with pytest.raises(ValueError, match="q is on the CPU: kernels take CUDA tensors"):
            function(q, k, v)


def test_without_triton_nn_serves(on_cuda, monkeypatch):
    monkeypatch.setattr("mha.floors.HAS_TRITON", False)
    assert mha.which(*on_cuda()).refused["kernels"] == "triton is not installed"


@pytest.mark.parametrize(("architecture", "chosen"), [(75, nn), (80, kernels)])
def test_the_call_goes_where_which_says(on_cuda, monkeypatch, architecture, chosen):
    q, k, v = on_cuda(architecture)
    for floor in (nn, kernels):
        monkeypatch.setattr(floor, "attention", lambda *given, floor=floor, **options: (floor, given, options))
    floor, given, options = mha.attention(q, k, v, mask=masks.causal)
    assert floor is chosen
    assert all(one is other for one, other in zip(given, (q, k, v), strict=True))
    assert options == {"mask": masks.causal}


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own
def test_a_graph_of_one_piece_chooses_too():
    q, k, v = map(torch.from_numpy, (Q, K, V))
    compiled = torch.compile(lambda q, k, v: mha.attention(q, k, v, mask=masks.causal), fullgraph=True, backend="eager")
    assert_equal(compiled(q, k, v), nn.attention(q, k, v, mask=masks.causal), rtol=0.0, atol=1e-14)


def test_mixed_libraries_are_refused():
    with pytest.raises(TypeError, match="k is a torch tensor and q is a NumPy array"):
        mha.attention(Q, torch.from_numpy(K), V)
    with pytest.raises(TypeError, match="q has dtype int64"):
        mha.which(Q.astype(int), K, V)
    with pytest.raises(TypeError, match="q is a list: expected a NumPy array or a torch tensor"):
        mha.attention(Q.tolist(), K, V)
    with pytest.raises(TypeError, match="v is a NoneType: expected a NumPy array or a torch tensor"):
        mha.which(Q, K, None)
