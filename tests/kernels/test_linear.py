"""The kernels of linear attention against float64: as good as plain torch in the same precision, gradients too."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import linear_calls
from compare import assert_equal
from kernels import judge
from mha import nn, reference
from mha.kernels import linear_attention
from mha.kernels.linear.operators import backward, forward

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # of torch itself
NAMES = "q", "k", "v", "state", "log_decay"


def draw(n, d, e, dtype=torch.float32, *, batch=(1,), num_heads=2, options="both"):
    """Return the arguments by name, as leaves: q, k, v in this dtype, state and decay in float32."""
    rows, given = linear_calls.draw(n, batch=batch, num_heads=num_heads, d=d, e=e)
    given = dict(zip("qkv", rows, strict=True)) | given[options]
    tensors = {name: torch.from_numpy(x).to(dtype if name in "qkv" else torch.float32) for name, x in given.items()}
    return {name: x.requires_grad_() for name, x in tensors.items()}


def plain(q, k, v, state=None, log_decay=None):
    """Return output and state as anybody would write them, in the dtype of q; sums of logarithms in theirs."""
    n = q.shape[-2]
    log_decay = q.new_zeros((*q.shape[:-1],)) if log_decay is None else log_decay.expand(*log_decay.shape[:-1], n)
    since = torch.nn.functional.pad(log_decay.cumsum(-1), (1, 0))  # before every token, and after the last
    between = since[..., 1:, None] - since[..., None, 1:]
    kept = between.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf).exp().to(q.dtype)
    out = (q @ k.mT * kept) @ v
    last = (k * (since[..., -1:] - since[..., 1:]).exp().to(q.dtype)[..., None]).mT @ v
    if state is None:
        return out, last
    out = out + (q * since[..., 1:].exp().to(q.dtype)[..., None]) @ state.to(q.dtype)
    return out, last + since[..., -1, None, None].exp() * state


def results(form, given, d_out, d_last):
    """Return output, last state and all gradients of one form."""
    out, last = form(**given)
    found = torch.autograd.grad((out, last), list(given.values()), (d_out.to(out.dtype), d_last.to(last.dtype)))
    return {"out": out, "last": last} | {f"d_{name}": x for name, x in zip(given, found, strict=True)}


def sent(given):
    """Return gradients for the output and for the last state."""
    (q, _, v), make = (given[name] for name in "qkv"), torch.Generator().manual_seed(7)
    lead, widths = q.shape[:-2], (q.shape[-1], v.shape[-1])
    sizes = (*lead, q.shape[-2], v.shape[-1]), (*lead, *widths)
    return [torch.randn(size, generator=make) for size in sizes]


def check(given, d_out=None):
    """Raise unless the kernels are right for these arguments."""
    random, d_last = sent(given)
    d_out = (random if d_out is None else d_out).to(given["q"].dtype)
    exactly = {name: x.detach().double().requires_grad_() for name, x in given.items()}
    exact = results(plain, exactly, d_out.double(), d_last.double())
    agree_with_the_reference(exactly, exact)
    fair = results(plain, given, d_out, d_last)
    other = fair | ({"d_log_decay": of_decay(given, fair, d_last)} if "log_decay" in given else {})
    for name, x in results(linear_attention, given, d_out, d_last).items():
        assert x.dtype == (given["q"].dtype if name in ("out", "d_q", "d_k", "d_v") else torch.float32)
        largest = exact[name].abs().max().item() if x.numel() else 0.0
        errors = [judge.error(form[name].to(x.dtype), exact[name]) for form in (fair, other)]
        budget = 2 * max(errors) + 4 * judge.ulp(largest, x.dtype)
        assert_equal(x.double(), exact[name], atol=budget, label=name)


def of_decay(given, found, d_last):
    """Return the decay's gradient in its other usual form: a sum, from the end on, of q · dq − k · dk."""
    taken = sum(sign * (given[x].float() * found[f"d_{x}"].float()).sum(-1) for sign, x in ((1, "q"), (-1, "k")))
    each = taken.flip(-1).cumsum(-1).flip(-1) + (found["last"].float() * d_last).sum((-2, -1))[..., None]
    shape = given["log_decay"].shape
    return each if each.shape == shape else each.sum_to_size(shape)


def agree_with_the_reference(given, exact):
    arrays = {name: x.detach().numpy() for name, x in given.items()}
    for name, one, atol in zip(
        ("out", "last"), reference.linear_attention(**arrays), linear_calls.bounds(**arrays), strict=True
    ):
        assert_equal(exact[name], one, atol=float(atol.max(initial=0)), label=f"reference: {name}")


SIZES = [  # of a chunk: 64 tokens of 16 bits, 32 of 32
    (0, 5, 7, "both"),
    (1, 5, 7, "both"),
    (2, 17, 3, "nothing"),
    (31, 16, 16, "state"),
    (33, 8, 40, "decay"),
    (63, 40, 16, "nothing"),
    (64, 7, 66, "state"),
    (65, 66, 7, "both"),
    (131, 13, 16, "decay of heads"),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("n", "d", "e", "options"), SIZES)
def test_output_state_and_gradients(n, d, e, options, dtype):
    check(draw(n, d, e, dtype, options=options))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "e"), [(256, 3), (3, 256), (130, 300)])
def test_wide_rows_come_in_strips(d, e):
    check(draw(37, d, e, torch.float16, num_heads=1))


def test_tf32x3_is_chosen_by_name():
    """The interpreter multiplies exactly whatever the name: that it is taken, and no other, is all that shows here."""
    given = draw(5, 3, 2)
    for one, two in zip(linear_attention(**given, precision="tf32x3"), linear_attention(**given), strict=True):
        assert_equal(one, two)


LAYOUTS = {
    "tokens before heads": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda x: torch.cat([x, x + 1, x + 2], -1)[..., : x.shape[-1]],
    "every second column": lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2],
    "tokens last": lambda x: x.mT.contiguous().mT,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides(layout):
    given = draw(35, 8, 5)
    for name in "qkv":
        given[name] = LAYOUTS[layout](given[name].detach()).requires_grad_()
    check(given)


@pytest.mark.parametrize("kind", ["expanded", "permuted", "of one number"])
def test_the_gradient_of_the_output_has_any_strides(kind):
    given = draw(35, 8, 5)
    d_out, _ = sent(given)
    check(given, {
        "expanded": d_out[:, :1, :, :1].expand(d_out.shape),
        "permuted": d_out.permute(3, 2, 0, 1).contiguous().permute(2, 3, 1, 0),
        "of one number": torch.ones(()).expand(d_out.shape),
    }[kind])  # fmt: skip


def test_leading_axes_broadcast_and_their_gradients_sum():
    """Groups of heads have an axis of their own: here two groups of three heads share q and k, as in Mamba-2."""
    given = draw(5, 3, 2, batch=(2, 2), num_heads=3)
    shared = {name: x.detach() for name, x in given.items()}
    shared |= {name: shared[name][..., :1, :, :] for name in "qk"}
    shared = {name: x.clone().requires_grad_() for name, x in shared.items()}
    found = results(linear_attention, shared, *sent(given))
    expected = results(nn.linear_attention, shared, *sent(given))
    for name, x in found.items():
        assert_equal(x, expected[name], atol=2.0**-24 * 2048, label=name)  # dozens of roundings of numbers up to 32


def test_a_state_continues_the_sequence():
    given = {name: x.detach() for name, x in draw(70, 8, 5).items()}
    out, last = linear_attention(**given)
    state, parts = given["state"], []
    for part in (slice(0, 1), slice(1, 34), slice(34, 34), slice(34, 70)):
        rows = {name: given[name][..., part, :] for name in "qkv"}
        one, state = linear_attention(**rows, state=state, log_decay=given["log_decay"][..., part])
        parts.append(one)
    close = [
        4 * float(x.max()) * 2.0**29 for x in linear_calls.bounds(**{k: x.double().numpy() for k, x in given.items()})
    ]
    assert_equal(torch.cat(parts, -2), out, atol=close[0])  # 2²⁹: from the roundings of float64 to those of float32
    assert_equal(state, last, atol=close[1])


@pytest.mark.parametrize("empty", [{"batch": (0,)}, {"d": 0}, {"e": 0}], ids=str)
def test_axes_of_length_zero(empty):
    given = draw(**{"n": 5, "d": 3, "e": 2} | empty)
    out, last = linear_attention(**given)
    expected = nn.linear_attention(**given)
    assert_equal(out, expected[0])
    assert_equal(last, expected[1])
    (out.sum() + last.sum()).backward()
    for x in given.values():
        assert_equal(x.grad.isnan(), torch.zeros(x.shape, dtype=torch.bool))


def test_sums_leave_the_range_of_float16():
    """State and weights grow to 10⁶ on the way; what is read of them is small again."""
    q, k, v = (torch.full((1, 1, 70, 16), x, dtype=torch.float16) for x in (2.0**-10, 128.0, 128.0))
    out, last = linear_attention(q, k, v)
    assert_equal(last, torch.full((1, 1, 16, 16), 70 * 2.0**14))
    assert_equal(out, (torch.arange(1, 71) * 16 * 16.0)[:, None].expand(1, 1, 70, 16))
    out, _ = linear_attention(k, k, q[..., :1])
    assert_equal(out, (torch.arange(1, 71) * 2.0**8)[:, None].expand(1, 1, 70, 1))


def test_strong_decay_forgets_and_stays_finite():
    given = draw(35, 8, 5, options="nothing")
    log_decay = torch.full((2, 1), -900.0, requires_grad=True)
    out, last = linear_attention(**given, log_decay=log_decay)
    own = (given["q"] * given["k"]).sum(-1, keepdim=True) * given["v"]
    assert_equal(out, own, rtol=16 * 2.0**-24, atol=2.0**-20)
    (out.sum() + last.sum()).backward()
    assert_equal(log_decay.grad, torch.zeros(2, 1), atol=2.0**-24 * 4096)


@pytest.mark.parametrize("least", [-torch.inf, -1e30])
def test_documents_in_one_row_are_documents_by_themselves(least):
    given = draw(70, 8, 5, options="decay")
    begins = torch.tensor([4, 20, 33, 64])
    given["log_decay"] = given["log_decay"].detach().index_fill(-1, begins, least).requires_grad_()

    def alone(log_decay, **rows):
        ends = [0, *begins.tolist(), 70]
        parts = [slice(*pair) for pair in pairwise(ends)]
        documents = [
            nn.linear_attention(*(x[..., part, :] for x in rows.values()), log_decay=log_decay[..., part])
            for part in parts
        ]
        return torch.cat([out for out, _ in documents], -2), documents[-1][1]

    expected = results(alone, given, *sent(given))
    for name, x in results(linear_attention, given, *sent(given)).items():
        # a factor e^x errs by as much as x, a difference of sums of 32 logarithms, of which 2 are −104
        assert_equal(x, expected[name], atol=2.0**-24 * 64 * 2 * 104 * expected[name].abs().max().item(), label=name)


def test_offsets_beyond_32_bits():
    """48 rows 2²⁶ numbers apart: the detector of the interpreter stops at the first offset that 32 bits do not hold."""
    memory = [torch.from_numpy(np.empty(3 * 2**30 + 4096, np.float16)) for _ in "qkv"]  # 48 pages of each are touched
    far = [x.as_strided((1, 1, 48, 16), (0, 0, 2**26, 1)) for x in memory]
    near = [x.detach() for name, x in draw(48, 16, 16, torch.float16, num_heads=1).items() if name in "qkv"]
    for one, other in zip(far, near, strict=True):
        one.copy_(other)
    for one, two in zip(linear_attention(*far), linear_attention(*near), strict=True):
        assert_equal(one, two)


@pytest.mark.slow
def test_opcheck_finds_nothing():
    given = draw(5, 3, 2)
    torch.library.opcheck(forward, (*given.values(), "ieee"))
    with torch.no_grad():
        d_out, d_last = sent(given)
        torch.library.opcheck(backward, (*given.values(), d_out[..., :1].expand(d_out.shape), d_last, True, "ieee"))
        torch.library.opcheck(backward, (*list(given.values())[:4], None, d_out, d_last, False, "ieee"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_graph_of_one_piece_gives_the_same(backend):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *x: linear_attention(*x[:3], state=x[3], log_decay=x[4]), fullgraph=True, backend=backend
    )
    for n in (5, 4):  # the second time the graph has dynamic shapes
        given = draw(n, 3, 4)
        found = results(lambda **x: compiled(*x.values()), given, *sent(given))
        for name, x in results(linear_attention, given, *sent(given)).items():
            assert_equal(found[name], x, label=name)


def test_an_average_by_the_kernels():
    given = {name: x.detach().abs() for name, x in draw(35, 3, 2, options="nothing").items()}
    found, expected = (nn.linear_average(**given, core=core) for core in (linear_attention, nn.linear_attention))
    assert_equal(found[0], expected[0], atol=2.0**-24 * 256)
    assert_equal(found[1], expected[1], rtol=2.0**-24 * 64)


def test_no_second_derivative():
    given = draw(5, 3, 2, options="nothing")
    out, _ = linear_attention(**given)
    (first,) = torch.autograd.grad(out.square().sum(), given["q"], create_graph=True)
    with pytest.raises(ValueError, match=r"has a first derivative only; mha\.nn\.linear_attention has any"):
        torch.autograd.grad(first.sum(), given["k"])


def misuses():
    given = {name: x.detach() for name, x in draw(5, 3, 2).items()}
    yield "float64", given | {"q": given["q"].double()}, TypeError, "q has dtype torch.float64: kernels take float16"
    yield "state", given | {"state": given["state"].double()}, TypeError, "state has dtype torch.float64"
    yield (
        "mixed",
        given | {"v": given["v"].half()},
        TypeError,
        "v has dtype torch.float16 and q has dtype torch.float32",
    )
    yield "array", given | {"k": given["k"].numpy()}, TypeError, "k is a NumPy array: expected a torch tensor"
    yield "length", given | {"v": given["v"][..., :4, :]}, ValueError, "v has length 4 and q has length 5"
    yield "precision", given | {"precision": "tf32"}, ValueError, r"precision is 'tf32': expected one of \('ieee'"


@pytest.mark.parametrize(("given", "kind", "words"), [x[1:] for x in misuses()], ids=[x[0] for x in misuses()])
def test_misuse_is_named(given, kind, words):
    with pytest.raises(kind, match=words):
        linear_attention(**given)


def test_transforms_are_refused():
    given = [x.detach() for x in draw(5, 3, 2, options="nothing").values()]
    with pytest.raises(ValueError, match=r"no forward mode and serves no transform of torch\.func: mha\.nn does both"):
        torch.func.vmap(lambda *x: linear_attention(*x)[0])(*given)
