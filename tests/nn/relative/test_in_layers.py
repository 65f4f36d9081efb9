"""Every scheme of relative positions in a layer: the reference's numbers, and nothing but distances counts."""

import copy

import pytest
import torch

from compare import assert_equal
from mha import masks
from mha.nn import Alibi, Cache, GridBias, RelativeBias, attention
from nn.layers import draw, in_reference, layer
from nn.relative.cases import D_HEAD, NUM_HEADS, SCHEMES, WINDOW, by_reference

BATCH, N, D_MODEL = 3, 11, 13
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
ALONG_A_LINE = [name for name in SCHEMES if name != "grid"]


def made(name, **options):
    options = {"d_head": D_HEAD, "num_kv_heads": 3, "position": SCHEMES[name]()} | options
    return layer(D_MODEL, NUM_HEADS, **options).eval()


@pytest.mark.parametrize("num_kv_heads", [6, 2])
@pytest.mark.parametrize("name", SCHEMES)
def test_the_reference(name, num_kv_heads):
    module, x, given = made(name, num_kv_heads=num_kv_heads), draw(BATCH, N, D_MODEL), draw(NUM_HEADS, N, N, seed=2)
    position = by_reference(module.position)
    for mask in (None, masks.causal, masks.lengths([N, 5, 0]) & masks.window(4, 2)):
        assert_equal(module(x, mask=mask), in_reference(module, x, mask=mask, position=position), **CLOSE)
    found = module(x, bias=given)
    assert_equal(found, in_reference(module, x, bias=given.numpy(), position=position), **CLOSE)
    module.scale, module.softcap = 0.7, 0.9
    few = x[:, -3:]
    found = module(few, x, mask=masks.causal)
    assert_equal(found, in_reference(module, few, x, mask=masks.causal, position=position), **CLOSE)


@pytest.mark.parametrize("name", SCHEMES)
def test_cached_is_whole(name):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    expected = module(x, mask=masks.causal)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            cache, outputs = Cache(), []
            for rows in x.split((5, 1, 3, 2), 1):
                out, cache = module.step(rows, cache, mask=masks.causal)
                outputs.append(out)
        assert_equal(torch.cat(outputs, 1), expected, **CLOSE)


@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_padded_is_unpadded(name):
    """On the left the padding counts down below position 0; behind a cache it is never stored."""
    module, x, padding = made(name), draw(BATCH, N, D_MODEL), torch.tensor([0, 4, 2])
    left = torch.stack([torch.cat([draw(p, D_MODEL, seed=5), x[b, p:]]) for b, p in enumerate(padding.tolist())])
    right = torch.stack([torch.cat([x[b, p:], draw(p, D_MODEL, seed=6)]) for b, p in enumerate(padding.tolist())])
    seen = masks.dense((torch.arange(N) >= padding[:, None])[:, None, None])
    found = {
        "left": module(left, mask=masks.causal & seen, positions=torch.arange(N) - padding[:, None]),
        "cache": module.step(left, Cache(-padding), mask=masks.causal)[0],
        "right": module(right, mask=masks.causal & masks.lengths(N - padding)),
    }
    for b, p in enumerate(padding.tolist()):
        alone = module(x[b : b + 1, p:], mask=masks.causal)[0]
        for side, out in found.items():
            rows = out[b, : N - p] if side == "right" else out[b, p:]
            assert_equal(rows, alone, **CLOSE, label=f"{side}, sample {b}")


@pytest.mark.parametrize("name", SCHEMES)
def test_chunks_each_sample_at_its_own_step(name):
    module, x, steps = made(name), draw(BATCH, N, D_MODEL), torch.tensor([[4], [0], [10]])
    whole, rows = module(x, mask=masks.causal), torch.arange(BATCH)[:, None]
    assert_equal(module(x[rows, steps], x, mask=masks.causal, positions=steps), whole[rows, steps], **CLOSE)


@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_one_x_in_many_contexts(name):
    module, x, context = made(name), draw(1, 2, D_MODEL), draw(BATCH, N, D_MODEL, seed=1)
    options = {"mask": masks.causal, "context_positions": torch.arange(N) + torch.tensor([[0], [4], [2]])}
    expected = module(x.expand(BATCH, -1, -1), context, **options)
    assert_equal(module(x, context, **options), expected, **CLOSE)


@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_only_the_distance_counts(name):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    expected = module(x, mask=masks.causal)
    moved = module(x, mask=masks.causal, positions=torch.arange(N) + torch.tensor([[700], [0], [31]]))
    assert_equal(moved, expected, rtol=1e-11, atol=1e-11)
    backwards = module(x.flip(1), positions=torch.arange(N).flip(0))
    assert_equal(backwards.flip(1), module(x), **CLOSE, label="the order of the rows does not count")


@pytest.mark.parametrize("name", SCHEMES)
def test_a_layer_without_the_scheme_is_another(name):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    with_scheme, module.position = module(x), None
    assert (module(x) - with_scheme).abs().max() > 1e-2


@pytest.mark.parametrize("name", SCHEMES)
def test_weights_are_those_of_the_output(name):
    module, x = made(name, num_kv_heads=6), draw(BATCH, N, D_MODEL)
    _, _, v = module.project(x)
    expected = module.weights(x, mask=masks.causal) @ v
    assert_equal(module.per_head(x, mask=masks.causal), expected, **CLOSE)


@pytest.mark.parametrize("name", SCHEMES)
def test_gradients(name):
    module, n = made(name), 5
    x = draw(2, n, D_MODEL).requires_grad_()
    scheme = () if name == "alibi" else tuple(module.position.parameters())
    call = lambda x, *parameters: module(x, mask=masks.causal)[:, -3:, :2]  # noqa: E731
    assert torch.autograd.gradcheck(call, (x, *scheme), fast_mode=True)
    if scheme:
        names, parameters = zip(*module.position.named_parameters(), strict=True)
        gradients = torch.autograd.grad(module(x).square().sum(), parameters)
        idle = {name for name, gradient in zip(names, gradients, strict=True) if gradient.abs().max() < 1e-9}
        assert idle <= {"k_proj.bias"}, "q·b is the same for all keys, and a softmax does not see it"


@pytest.mark.parametrize("name", SCHEMES)
def test_no_rows_and_one(name):
    module = made(name)
    assert module(draw(BATCH, 0, D_MODEL)).shape == (BATCH, 0, D_MODEL)
    assert module(draw(BATCH, 0, D_MODEL), draw(BATCH, 2, D_MODEL)).shape == (BATCH, 0, D_MODEL)
    one = draw(BATCH, 1, D_MODEL)
    _, _, v = module.project(one)
    assert_equal(module.per_head(one), v.repeat_interleave(2, -3), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SCHEMES)
def test_low_precision(name, dtype):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    module.position = SCHEMES[name]() if name == "alibi" else module.position
    expected = module(x, mask=masks.causal)
    out = module.to(dtype)(x.to(dtype), mask=masks.causal)
    assert out.dtype is dtype
    eps = torch.finfo(dtype).eps
    assert_equal(out.double(), expected, atol=60 * eps * float(expected.detach().abs().max()))


@pytest.mark.parametrize("name", ["shaw", "transformer-xl", "deberta", "deberta, buckets"])
def test_terms_of_contents_are_as_exact_as_scores(name):
    """In float32 whatever precision the contents have, with or without autocast."""
    scheme, places = SCHEMES[name](), torch.arange(N)
    q, k = draw(BATCH, NUM_HEADS, N, D_HEAD).bfloat16(), draw(BATCH, 3, N, D_HEAD, seed=1).bfloat16()
    if name.startswith("deberta"):  # its projections round, as those of a layer
        scheme.q_proj = scheme.k_proj = torch.nn.Identity()
        scheme.weight = torch.nn.Parameter(draw(len(scheme.weight), NUM_HEADS * D_HEAD))
    scheme = scheme.to(torch.bfloat16)
    for low, autocast in ((scheme, False), (scheme, True), (copy.deepcopy(scheme).float(), True)):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = low.content_bias(q, k, places, places, 0.3)
        assert found.dtype is torch.float32
        expected = copy.deepcopy(scheme).double().content_bias(q.double(), k.double(), places, places, 0.3)
        assert_equal(found.double(), expected, rtol=0, atol=1e-6 * float(expected.detach().abs().max()))


@pytest.mark.parametrize("name", ["alibi", "t5", "shaw", "transformer-xl", "deberta, buckets", "grid"])
def test_in_a_graph(name):
    """One graph, for positions that are shared and for those of each sample."""
    module, x = made(name), draw(BATCH, N, D_MODEL)
    q, k = (x.detach() for x in module.project(x)[:2])
    scheme, places = module.position, torch.arange(N)
    for at_k in (places, torch.stack([places, places, places.flip(0)])):
        if hasattr(scheme, "content_bias"):
            call, arguments = scheme.content_bias, (q, k, places, at_k, 0.3)
        else:
            call, arguments = scheme.bias, (places, at_k)
        assert_equal(torch.compile(call, fullgraph=True, backend="eager")(*arguments), call(*arguments), **CLOSE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["alibi", "shaw", "transformer-xl"])
def test_a_layer_in_a_graph(name):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert_equal(compiled(x, mask=masks.causal), module(x, mask=masks.causal), **CLOSE)


def test_norms_and_both_kinds_of_terms():
    """A scheme may turn, add by distance and add by contents; it meets q and k as attention sees them."""

    class All:
        def rotate(self, x, positions):
            return x * (1 + positions[..., None])

        def bias(self, q_positions, k_positions):
            return (q_positions[:, None] - k_positions) / 7

        def content_bias(self, q, k, q_positions, k_positions, scale):
            return scale * q @ k.mT.square() / (1 + k_positions)

    module, x = layer(D_MODEL, 2, d_head=4, qk_norm=torch.nn.RMSNorm, position=All()).eval(), draw(BATCH, N, D_MODEL)
    q, k, v = module.project(x)
    places = torch.arange(N)
    terms = All().bias(places, places) + All().content_bias(q, k, places, places, 0.5)
    assert_equal(module.per_head(x, mask=masks.causal), attention(q, k, v, bias=terms, mask=masks.causal), **CLOSE)
    cache, outputs = Cache(), []
    for rows in x.split((4, 7), 1):
        out, cache = module.step(rows, cache, mask=masks.causal)
        outputs.append(out)
    assert_equal(torch.cat(outputs, 1), module(x, mask=masks.causal), **CLOSE)


def test_a_scheme_for_other_heads_is_refused():
    x = draw(BATCH, N, D_MODEL)
    for name, words in (
        ("transformer-xl", r"u has shape \(6, 4\)"),
        ("deberta", r"position_keys has shape \(6, 6, 4\)"),
    ):
        with pytest.raises(ValueError, match=words):
            layer(D_MODEL, 3, d_head=4, position=SCHEMES[name]())(x)
    with pytest.raises(ValueError, match=r"table has shape \(7, 4\): expected \(7, 5\)"):
        layer(D_MODEL, 3, d_head=5, position=SCHEMES["shaw"]())(x)
    with pytest.raises(ValueError, match="q_positions reach from 0 to 15: expected 0 to 14, the places of a window"):
        made("grid")(draw(1, WINDOW[0] * WINDOW[1] + 1, D_MODEL))


@pytest.mark.parametrize("name", ALONG_A_LINE)
def test_what_nobody_sees_reaches_no_gradient(name):
    module, x = made(name), draw(BATCH, N, D_MODEL)
    spoiled = x.clone()
    spoiled[:, 7:] = torch.nan
    found = []
    for rows in (x, spoiled):
        module.zero_grad()
        module(x[:, :5], rows, mask=masks.lengths([7] * BATCH)).square().sum().backward()
        found.append({key: p.grad.clone() for key, p in module.position.named_parameters()} if name != "alibi" else {})
    for key, grad in found[0].items():
        assert_equal(found[1][key], grad, **CLOSE, label=key)


@pytest.mark.parametrize(
    "position", [Alibi(1), RelativeBias(1), GridBias(1, window=(2, 3))], ids=lambda p: type(p).__name__
)
def test_a_scheme_for_another_number_of_heads(position):
    module = layer(D_MODEL, NUM_HEADS, d_head=D_HEAD, position=position)
    with pytest.raises(ValueError, match=r"position is .*scores of 1 heads, and q has 6"):
        module(draw(BATCH, N if not isinstance(position, GridBias) else 6, D_MODEL))
