"""The recurrent encoder–decoder against the papers, step by step in NumPy; its cached steps and its errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha.models.decoding import beam_search, generate
from mha.models.recurrent import Recurrent, RecurrentConfig

SIZES = RecurrentConfig(source_vocab=19, target_vocab=23, d_embed=5, d_model=6, window=2)
FORMS = (None, "additive", "dot", "general", "concat", "local")
LENGTHS = (7, 4, 1)
KEEP = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


def tokens():
    draw = torch.Generator().manual_seed(5)
    return torch.randint(19, (3, 7), generator=draw), torch.randint(23, (3, 5), generator=draw)


def model(attention, **sizes):
    made = Recurrent(replace(SIZES, attention=attention, **sizes)).double().eval()
    draw = torch.Generator().manual_seed(3)
    for parameter in made.parameters():
        parameter.data.normal_(0, 0.3, generator=draw)
    return made


def weights_of(made):
    return {name: parameter.detach().numpy() for name, parameter in made.named_parameters()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(weights, name, x, h):
    """Cho et al. (2014), with torch's place of the reset gate: after the matrix, where the paper has it before."""
    part, suffix = name.split("/") if "/" in name else (name, "")
    of_x, of_h = (
        np.split(weights[f"{part}.weight_{side}_l0{suffix}"] @ y + weights[f"{part}.bias_{side}_l0{suffix}"], 3)
        for side, y in (("ih", x), ("hh", h))
    )
    reset, update = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    return (1 - update) * np.tanh(of_x[2] + reset * of_h[2]) + update * h


def encode(weights, source):
    """Return the states of both directions, side by side, and the last of each."""
    x, half = weights["source_embed.weight"][source], SIZES.d_model // 2
    forward, backward, h = [], [], np.zeros(half)
    for row in x:
        h = gru(weights, "encoder", row, h)
        forward.append(h)
    h = np.zeros(half)
    for row in x[::-1]:
        h = gru(weights, "encoder/_reverse", row, h)
        backward.append(h)
    return np.concatenate([forward, backward[::-1]], 1), np.concatenate([forward[-1], backward[-1]])


def score(weights, attention, state, memory):
    """Return the scores of one decoder state: Bahdanau et al. (2015), A.1.2; Luong et al. (2015), equation 8."""
    name = "decoder.alignment.score."
    if attention == "dot":
        return memory @ state
    key = memory @ weights[name + "k_proj.weight"].T
    if attention in ("general", "local"):
        return key @ state
    return np.tanh(weights[name + "q_proj.weight"] @ state + key) @ weights[name + "combine.weight"][0]


def context(weights, attention, state, memory):
    scores, name = score(weights, attention, state, memory), "decoder.alignment.predictor."
    share = np.exp(scores - scores.max())
    if attention == "local":
        hidden = np.tanh(weights[name + "proj.weight"] @ state)
        center = len(memory) * sigmoid(weights[name + "combine.weight"][0] @ hidden)
        distance = np.arange(len(memory)) - center
        share = share * (np.abs(distance) <= 2)
        share = share / share.sum() * np.exp(-(distance**2) / 2) if share.any() else share  # 2σ² = 2 (D/2)² = 2
    else:
        share = share / share.sum()
    return share @ memory, share


def by_steps(made, source, target, wrong_time=False):
    """Return logits and weights for one sentence pair, in the order of the papers."""
    weights, attention = weights_of(made), made.config.attention
    memory, summary = encode(weights, source)
    state, rows, shares = np.tanh(weights["bridge.weight"] @ summary + weights["bridge.bias"]), [], []
    for token in target:
        x, before = weights["target_embed.weight"][token], state
        if attention is None:
            c = summary
            state = gru(weights, "decoder.gru", np.concatenate([x, c]), before)
        elif attention == "additive":
            c, share = context(weights, attention, before, memory)
            state = gru(weights, "decoder.gru", np.concatenate([x, c]), before)
        else:
            state = gru(weights, "decoder.gru", x, before)
            c, share = context(weights, attention, before if wrong_time else state, memory)
        joined = np.tanh(weights["join.weight"] @ np.concatenate([state, c]) + weights["join.bias"])
        rows.append(weights["output.weight"] @ joined + weights["output.bias"])
        shares.append(None if attention is None else share)
    return np.stack(rows), shares


@pytest.mark.parametrize("attention", FORMS, ids=str)
def test_is_the_papers(attention):
    made, (source, target) = model(attention), tokens()
    with torch.no_grad():
        logits = made(source, target, source_keep=KEEP)
    for b, n in enumerate(LENGTHS):
        expected, shares = by_steps(made, source[b, :n].numpy(), target[b].numpy())
        assert_equal(logits[b], expected, atol=1e-12, label=f"sample {b}")
        if attention:
            maps = made.attention_maps(source, target, source_keep=KEEP)
            assert maps.shape == (1, 3, 1, 5, 7)
            assert_equal(maps[0, b, 0, :, :n], shares, atol=1e-12, label=f"weights {b}")
            assert not maps[0, b, 0, :, n:].any()


@pytest.mark.parametrize("attention", ["dot", "general", "concat", "local"])
def test_oracle_sees_the_wrong_state(attention):
    """Luong et al. align with the state after the recurrence, Bahdanau et al. with the one before."""
    made, (source, target) = model(attention), tokens()
    with torch.no_grad():
        found = made(source, target)[0]
    with pytest.raises(AssertionError):
        assert_equal(found, by_steps(made, source[0].numpy(), target[0].numpy(), wrong_time=True)[0], atol=1e-6)


@pytest.mark.parametrize("attention", FORMS, ids=str)
def test_cached_as_whole(attention):
    made, (source, target) = model(attention), tokens()
    with torch.no_grad():
        whole = made(source, target, source_keep=KEEP)
        given = made.given(source, keep=KEEP)
        caches, rows = given.caches(), []
        for part in target.split([1, 3, 1], 1):
            logits, caches = given.step(part, caches)
            rows.append(logits)
        assert_equal(torch.cat(rows, 1), whole, atol=1e-12)
        assert_equal(given.step(target, given.caches(), last=True)[0], whole[:, -1:], atol=1e-12)


@pytest.mark.parametrize("attention", FORMS, ids=str)
def test_beams_may_be_reordered(attention):
    made, (source, target) = model(attention), tokens()
    order = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        given = made.given(source, keep=KEEP)
        _, (cache,) = given.step(target[:, :2], given.caches())
        logits, _ = given.step(target[order, 2:], [cache.reorder(order)])
        assert_equal(logits, made(source, target, source_keep=KEEP)[order, 2:], atol=1e-12)


@pytest.mark.parametrize("attention", [None, "additive", "local"])
def test_generates(attention):
    made, (source, _) = model(attention), tokens()
    begin = torch.ones(3, 1, dtype=torch.long)
    text = generate(made.given(source, keep=KEEP), begin, 4)
    with torch.no_grad():
        assert_equal(text[:, 1:], made(source, text[:, :-1], source_keep=KEEP).argmax(-1))


def test_beams_have_the_scores_of_the_whole():
    made, (source, _) = model("general"), tokens()
    beams = beam_search(made.given(source, keep=KEEP), torch.ones(3, 1, dtype=torch.long), 4, width=3)
    for beam in range(3):
        text = beams.tokens[:, beam]
        with torch.no_grad():
            log_p = made(source, text[:, :-1], source_keep=KEEP).log_softmax(-1)
        said = log_p.gather(-1, text[:, 1:, None])[..., 0].mean(-1)
        assert_equal(beams.scores[:, beam], said, atol=1e-12)


@pytest.mark.parametrize("attention", FORMS, ids=str)
def test_an_empty_source_among_others(attention):
    made, (source, target) = model(attention), tokens()
    keep = KEEP.clone()
    keep[1] = False
    logits = made(source, target, source_keep=keep)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in made.parameters())
    source[1] = 3
    assert_equal(made(source, target, source_keep=keep), logits, label="what is hidden has no effect")
    assert made(source, target[:, :0]).shape == (3, 0, 23)


def test_one_direction():
    made, (source, target) = model("dot", bidirectional=False), tokens()
    with torch.no_grad():
        rows = made.start(source).memory.rows
        assert_equal(made.start(source[:, :3]).memory.rows, rows[:, :3], atol=1e-12, label="no state sees what follows")
        assert math.isfinite(float(made(source, target).sum()))


@pytest.mark.parametrize("attention", [None, "additive", "local"])
def test_an_empty_batch_gives_an_empty_answer(attention):
    source, target = tokens()
    assert model(attention)(source[:0], target[:0]).shape == (0, target.shape[1], 23)


def test_faults_are_named():
    source, target = tokens()
    with pytest.raises(ValueError, match="attention is 'luong': expected None, \"additive\""):
        model("luong")
    with pytest.raises(ValueError, match="d_model is 7: expected an even number"):
        model(None, d_model=7)
    with pytest.raises(ValueError, match="window is 0: expected a positive number"):
        model("local", window=0)
    with pytest.raises(ValueError, match="attention is None: this model has no alignment"):
        model(None).attention_maps(source, target)
    with pytest.raises(ValueError, match="source_keep is False before a real token"):
        model("dot")(source, target, source_keep=KEEP.flip(1))
    with pytest.raises(ValueError, match=r"source_keep has shape \(3, 5\)"):
        model("dot")(source, target, source_keep=KEEP[:, :5])
    with pytest.raises(ValueError, match=r"source has shape \(3, 0\): expected a slot at least"):
        model("dot")(source[:, :0], target)
    with pytest.raises(ValueError, match="source holds 19: expected 0 to 18, the vocabulary"):
        model("dot")(source.clone().fill_diagonal_(19), target)
    with pytest.raises(ValueError, match="target holds 23: expected 0 to 22, the vocabulary"):
        model("dot")(source, target.clone().fill_diagonal_(23))
    with pytest.raises(ValueError, match="target has 2 samples and source has 3: expected as many"):
        model("dot")(source, target[:2])
    with pytest.raises(ValueError, match="padding is 2: expected 0"):
        model("dot").given(source).caches(2)
