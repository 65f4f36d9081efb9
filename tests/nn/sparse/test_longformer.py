"""Longformer's attention against the reference and against transformers, whose weights are a band."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, reference
from mha.nn import LongformerAttention, attention_weights, longformer_attention, split_heads
from nn.layers import draw

BATCH, HEADS, N, D_MODEL, REACH = 2, 3, 20, 15, 2
LOCAL = masks.window(REACH, REACH)
CHOSEN = torch.zeros(BATCH, N, dtype=torch.bool)
CHOSEN[0, [0, 9]] = CHOSEN[1, 4] = True
KEEP = torch.arange(N) < torch.tensor([[N], [N - 3]])
PADDING = masks.key_padding(KEEP)
MASKS = {"none": None, "causal": masks.causal, "padding": PADDING, "padding and causal": PADDING & masks.causal}


def tensors(n_q=N, n_k=N, batch=(BATCH,)):
    widths = [(n_q, 5), (n_k, 5), (n_k, 7)] * 2
    return [draw(*batch, HEADS, n, width, seed=seed).requires_grad_() for seed, (n, width) in enumerate(widths)]


def in_numpy(x):
    return x.detach().numpy()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("local", [LOCAL, masks.per_head([LOCAL, masks.dilated(1, 1, 3), LOCAL])], ids=["one", "heads"])
def test_the_reference(mask, local):
    given = tensors()
    found = longformer_attention(*given, CHOSEN, local=local, mask=mask)
    host = None if mask is None else mask.on_tables(np.asarray)
    expected = reference.longformer_attention(*map(in_numpy, given), CHOSEN.numpy(), local=local, mask=host)
    assert_equal(found, expected, atol=1e-13)


@pytest.mark.parametrize("sizes", [(0, 0), (1, 1), (1, 7), (0, 5), (5, 13)], ids=str)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_lengths_and_leading_axes(sizes, batch):
    given, chosen = tensors(*sizes, batch), torch.arange(sizes[1]) % 3 == 0
    found = longformer_attention(*given, chosen, local=LOCAL, mask=masks.causal)
    options = {"local": LOCAL, "mask": masks.causal}
    assert_equal(found, reference.longformer_attention(*map(in_numpy, given), chosen.numpy(), **options), atol=1e-13)


def test_gradients():
    given = [x[:1, :1, :3].detach().requires_grad_() for x in tensors()]
    chosen = torch.tensor([False, True, False])

    def call(*tensors):
        return longformer_attention(*tensors, chosen, local=masks.window(1, 0), mask=masks.causal)

    assert torch.autograd.gradcheck(call, given)


def test_some_queries_are_rows_of_the_whole():
    """Decoding: the last queries, or some in between, get what the whole sequence gives them."""
    q, k, v, q_global, k_global, v_global = tensors()
    options = {"local": LOCAL, "mask": masks.causal}
    whole = longformer_attention(q, k, v, q_global, k_global, v_global, CHOSEN, **options)
    for first, last in ((N - 1, N), (7, 12), (0, N)):
        rows = slice(first, last)
        part = longformer_attention(
            q[:, :, rows], k, v, q_global[:, :, rows], k_global, v_global, CHOSEN, q_start=first, **options
        )
        assert_equal(part, whole[:, :, rows], atol=1e-14)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_is_unpadded(side):
    given, gap = tensors(), 4
    whole = longformer_attention(*given, CHOSEN, local=LOCAL)
    at = slice(gap, gap + N) if side == "left" else slice(0, N)
    padded = [torch.full((BATCH, HEADS, N + gap, x.shape[-1]), torch.nan, dtype=x.dtype) for x in given]
    chosen, keep = (torch.zeros(BATCH, N + gap, dtype=torch.bool) for _ in range(2))
    for x, y in zip(padded, given, strict=True):
        x[:, :, at] = y
    chosen[:, at], keep[:, at] = CHOSEN, True
    found = longformer_attention(*padded, chosen, local=LOCAL, mask=masks.key_padding(keep))
    assert_equal(found[:, :, at], whole, atol=1e-14)


def test_a_layer_begins_with_equal_projections():
    module = LongformerAttention(D_MODEL, HEADS, local=LOCAL, dtype=torch.float64)
    x = draw(BATCH, N, D_MODEL)
    q, k, v = (split_heads(linear(x), HEADS) for linear in (module.q_proj, module.k_proj, module.v_proj))
    mask = LOCAL | masks.global_tokens([[0, 9], [4]])
    expected = reference.attention(*map(in_numpy, (q, k, v)), mask=mask)
    expected = module.out_proj(torch.from_numpy(reference.join_heads(expected)))
    assert_equal(module(x, CHOSEN), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local": LOCAL, "num_heads": 4}, "d_model is 15 and num_heads is 4"),
        ({"local": 3}, "mask is a int: expected a mask of mha.masks"),
    ],
)
def test_a_layer_refuses(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LongformerAttention(D_MODEL, **{"num_heads": HEADS} | options)


def test_a_token_may_not_be_global_by_number():
    with pytest.raises(TypeError, match=r"is_global has dtype torch\.int64: expected booleans"):
        longformer_attention(*tensors(), CHOSEN.long(), local=LOCAL)


@pytest.fixture
def pair():
    """Return transformers' layer, its weights drawn at 0.3, and what it makes of x; and ours with the same weights."""
    pytest.importorskip("transformers")
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    options = {"attention_window": [2 * REACH], "attention_probs_dropout_prob": 0.0}
    config = LongformerConfig(hidden_size=D_MODEL, num_attention_heads=HEADS, num_hidden_layers=1, **options)
    theirs = LongformerSelfAttention(config, 0).double().eval()
    ours = LongformerAttention(D_MODEL, HEADS, local=LOCAL, dtype=torch.float64)
    make = torch.Generator().manual_seed(1)
    for parameter in theirs.parameters():
        parameter.data.normal_(0, 0.3, generator=make)
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
    for theirs_name, ours_name in names.items():
        for kind, other in (("", ""), ("_global", "_global")):
            name = ours_name.replace("_proj", f"{other}_proj")
            getattr(ours, name).load_state_dict(getattr(theirs, theirs_name + kind).state_dict())
    ours.out_proj.weight.data.copy_(torch.eye(D_MODEL))
    ours.out_proj.bias.data.zero_()
    x = draw(BATCH, N, D_MODEL)
    places = torch.where(CHOSEN, 1e4, 0.0).masked_fill(~KEEP, -1e4).double()
    options = {"is_index_masked": ~KEEP, "is_index_global_attn": CHOSEN, "is_global_attn": True}
    out, band, _ = theirs(x, attention_mask=places, output_attentions=True, **options)
    return SimpleNamespace(ours=ours, x=x, out=out, band=band)


ROUNDED = {"atol": 3e-6}  # their softmax is in float32


def test_transformers(pair):
    found = pair.ours(pair.x, CHOSEN, mask=PADDING)
    assert_equal(found[KEEP], pair.out[KEEP], **ROUNDED)


def test_the_returned_weights_are_a_band(pair):
    """(batch, token, head, global keys + window): the global keys stand first, and have left the window."""
    q, k = (split_heads(linear(pair.x), HEADS) for linear in (pair.ours.q_proj, pair.ours.k_proj))
    see = (LOCAL | masks.dense(CHOSEN[:, None, None])) & PADDING
    weights = attention_weights(q, k, mask=see, q_start=0)
    for b, i in (KEEP & ~CHOSEN).nonzero().tolist():
        at_globals = CHOSEN[b].nonzero()[:, 0].tolist()
        near = [j if 0 <= j < N and j not in at_globals else None for j in range(i - REACH, i + REACH + 1)]
        places = [*at_globals, *[None] * (2 - len(at_globals)), *near]
        expected = [weights[b, :, i, j] if j is not None else torch.zeros(HEADS) for j in places]
        assert_equal(pair.band[b, i], torch.stack(expected, -1), **ROUNDED)


@pytest.mark.parametrize("fault", ["local projections", "a shorter window", "global keys unseen", "no padding"])
def test_a_planted_fault_is_seen(pair, fault):
    ours, chosen, mask = pair.ours, CHOSEN, PADDING
    if fault == "local projections":
        ours.k_global_proj.load_state_dict(ours.k_proj.state_dict())
    if fault == "a shorter window":
        ours.local = masks.window(REACH, REACH - 1)
    if fault == "global keys unseen":
        chosen = torch.zeros_like(CHOSEN)
    with pytest.raises(AssertionError):
        assert_equal(
            ours(pair.x, chosen, mask=None if fault == "no padding" else mask)[KEEP], pair.out[KEEP], **ROUNDED
        )


def test_global_keys_are_as_many_as_the_others():
    x = draw(1, 2, 5, 3)
    with pytest.raises(ValueError, match=r"k_global has shape \(1, 2, 4, 3\) and k has \(1, 2, 5, 3\): expected equal"):
        longformer_attention(x, x, x, x, x[..., 1:, :], x, torch.ones(5, dtype=torch.bool), local=masks.window(1, 1))
