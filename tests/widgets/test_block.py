"""The Block widget: its numbers are those of a reference block, JavaScript says the same, planted faults are seen."""

from functools import partial

import numpy as np
import pytest

from compare import assert_equal
from mha import reference
from mha.analysis.stream import StreamSizes, stream_sizes
from mha.widgets import Block

D, HEADS, LENGTH = 12, 3, 5
TOKENS = ["<start>", "b<i>", 'c"&', "日本", "interrogation"]


def layers(rng):
    """Return attention, feed-forward layer and norms of a block, as functions of the stream."""
    projections = rng.normal(0, 0.3, (4, D, D))
    up, down = rng.normal(0, 0.3, (D, 17)), rng.normal(0, 0.3, (17, D))
    gains = rng.normal(1, 0.3, (2, D))
    attention = lambda x: reference.multi_head_attention(x, *projections, num_heads=HEADS)  # noqa: E731
    feed = lambda x: reference.feed_forward(x, up, down, activation="gelu")  # noqa: E731
    return attention, feed, [partial(reference.layer_norm, gain=gain) for gain in gains]


def stream(seed, order, blocks):
    """Return states and additions of reference blocks, layer by layer; the states after a block are the block's own."""
    rng = np.random.default_rng(seed)
    states, added = [rng.normal(size=(LENGTH, D))], []
    for _ in range(blocks):
        attention, feed, norms = layers(rng)
        for layer, norm in zip((attention, feed), norms, strict=True):
            x = states[-1]
            added.append(layer(norm(x)) if order == "pre" else layer(x))
            states.append(x + added[-1] if order == "pre" else norm(x + added[-1]))
        whole = reference.encoder_block(states[-3], attention, feed, norms=norms, norm_first=order == "pre")
        assert_equal(states[-1], whole, rtol=1e-12)
    return np.array(states), np.array(added)


def widget(seed=1, **settings):
    models = {
        "after": ("post", TOKENS, stream_sizes(*stream(seed, "post", 3))),
        "before": ("pre", TOKENS[:4], stream_sizes(*(x[:, :4] for x in stream(seed, "pre", 5)))),
    }
    return Block(models, **settings)


def cases():
    rng = np.random.default_rng(5)
    for seed in range(12):
        settings = {"model": int(rng.integers(2)), "block": int(rng.integers(5)), "token": int(rng.integers(5))}
        yield widget(seed, **settings)
    sizes = StreamSizes(np.full((27, 1), 3000.0), np.full((26, 1), 12345.0), np.full((26, 1), -1.0), np.ones((27, 1)))
    yield Block({"back": ("pre", ["a"], sizes)}, block=7)


def test_javascript_equals_python(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([widget()], moves={"model": 1, "block": 1, "token": 3})
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("block.js", "first = 2 * block;", "first = 2 * block + 1;"), id="wrong layers"),
        pytest.param(("block.js", "x + added[k] * cosine[k]", "x - added[k] * cosine[k]"), id="subtracted"),
        pytest.param(("block.js", "Math.acos(x)", "Math.asin(x)"), id="other angle"),
        pytest.param(("block.js", "norms.slice(first + 1, first + 3)", "norms.slice(first, first + 2)"), id="before"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize(("block", "token"), [(0, 0), (1, 4), (2, 2)])
def test_numbers_are_those_of_the_reference_block(order, block, token):
    states, added = stream(7, order, 3)
    found = Block({"one": (order, TOKENS, stream_sizes(states, added))}, block=block, token=token).compute()
    for k in range(2):
        before, own = states[2 * block + k, token], added[2 * block + k, token]
        whole, after = before + own, states[2 * block + k + 1, token]
        length = np.linalg.norm
        assert_equal(found["before"][k], length(before), rtol=1e-5)
        assert_equal(found["added"][k], length(own), rtol=1e-5)
        assert_equal(found["sum"][k], length(whole), rtol=1e-5)
        assert_equal(found["after"][k], length(after), rtol=1e-5)
        turn = np.degrees(np.arccos(before @ whole / length(before) / length(whole)))
        assert_equal(found["turn"][k], turn, rtol=1e-4)
    last, first = states[2 * block + 2, token], states[0, token]
    assert_equal(found["start"], last @ first / length(last) / length(first), rtol=0, atol=1e-5)


def test_in_pre_norm_the_sum_goes_on():
    found = widget(model=1, block=3, token=1).compute()
    assert_equal(found["after"], found["sum"], rtol=1e-5)
    found = widget(model=0, block=2, token=1).compute()
    assert np.abs(found["after"] / found["sum"] - 1).min() > 0.01


def test_a_setting_beyond_the_smaller_model_shows_its_last():
    found = widget(model=0, block=4, token=4).compute()
    assert (found["block"], found["token"]) == (2, 4)
    assert "block 2 of after" in widget(model=0, block=4).sentence()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": 2}, "model is 2, expected a value from 0 to 1"),
        ({"block": 5}, "block is 5, expected a value from 0 to 4"),
        ({"token": 5}, "token is 5, expected a value from 0 to 4"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        widget(**settings)


def test_wrong_models_are_refused():
    sizes = stream_sizes(*stream(1, "pre", 2))
    with pytest.raises(ValueError, match="models is empty"):
        Block({})
    with pytest.raises(ValueError, match="order of one is 'first': expected 'post' or 'pre'"):
        Block({"one": ("first", TOKENS, sizes)})
    with pytest.raises(ValueError, match=r"norm of one has shape \(5, 5\), expected \(5, 4\)"):
        Block({"one": ("pre", TOKENS[:4], sizes)})
    with pytest.raises(ValueError, match="one has 3 layers: expected two for each block"):
        Block({"one": ("pre", TOKENS, StreamSizes(*(x[:-1] for x in sizes)))})
    with pytest.raises(ValueError, match="one holds a vector of length 0"):
        Block({"one": ("pre", TOKENS, sizes._replace(added_norm=sizes.added_norm * 0))})
