"""The Wall widget: JavaScript says what `mha.cost` says, the wall stands where the memory ends, and faults are seen."""

import numpy as np
import pytest

from mha import cost, masks
from mha.widgets import Wall
from mha.widgets.wall import LENGTHS, REMEDIES


def cases():
    rng = np.random.default_rng(7)
    for model in range(len(Wall().models)):
        for remedy in REMEDIES:
            widget = Wall(
                machine=str(rng.choice(["v100", "a100", "h100"])), length=int(rng.choice(LENGTHS)), remedy=remedy
            )
            widget.model = model
            yield widget
    yield Wall("smollm2-135m", length=128, machine="v100")
    yield Wall("gpt-3", length=2**22, remedy="stored")


MOVES = {"model": 0, "machine": 0, "length": 512, "remedy": 3}


def test_javascript_equals_cost(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Wall()], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("wall.js", "n * (n + Math.max(n, d_head))", "n * n"), id="one square"),
        pytest.param(("wall.js", "(full * (full + 1)) / 2 + (n - full) * full", "(full * n)"), id="no causal half"),
        pytest.param(("wall.js", "Math.min(n, window) : n);", "n : n);"), id="a window that keeps all"),
        pytest.param(("wall.js", "d_head * (d_head + 1)\n", "d_head * d_head\n"), id="a state without its sums"),
        pytest.param(
            ("wall.js", "num_layers * num_kv_heads * d_head", "num_layers * num_heads * d_head"), id="ungrouped"
        ),
        pytest.param(("wall.js", "total <= memory", "total < 2 * memory"), id="a machine twice as large"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_the_published_model():
    model, n = cost.published_models()["llama-3-8b"], 2**13
    found = Wall(length=n, remedy="fused").compute()
    parameters = model.parameters() + model.feed_forward_parameters()
    assert found["weights"] == 2 * parameters
    assert found["cache"] == model.cache_bytes(n)
    split = {"num_kv_heads": 8, "pairs": masks.causal.pairs(n, n)}
    flops = 32 * cost.attention_flops(n, 4096, 32, **split) + 2 * n * model.feed_forward_parameters()
    assert found["prompt_flops"] == flops
    assert found["prompt_seconds"] == flops / 989e12
    assert found["token_seconds"] == (2 * parameters + model.cache_bytes(n)) / 3350e9


def test_a_full_window_has_the_pairs_of_its_mask():
    widget, n = Wall(), 3 * 4096 + 5
    pairs = masks.window_of(4096).pairs(n, n)
    assert widget.core_flops("window", n) == 32 * cost.core_flops(pairs, 32, 128)


@pytest.mark.parametrize("remedy", REMEDIES)
def test_the_wall_stands_where_the_memory_ends(remedy):
    widget = Wall("mistral-7b", machine="a100", remedy=remedy)
    last = widget.reach(remedy)
    assert sum(widget.held(remedy, last)) <= 80e9 < sum(widget.held(remedy, last + 1))


def test_weights_that_do_not_fit():
    widget = Wall("llama-3-405b", remedy="linear")
    assert widget.compute()["reach"] == 0
    assert "none: the weights do not fit" in widget.sentence()


def test_a_window_that_is_not_full_is_causal_attention():
    window, fused = (Wall(length=2048, remedy=remedy).compute() for remedy in ("window", "fused"))
    for key in ("cache", "prompt_flops", "token_seconds"):
        assert window[key] == fused[key]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "gpt-2-xl"}, "model is 'gpt-2-xl', expected one of gpt-1, "),
        ({"machine": "abacus"}, "machine is 'abacus', expected one of v100, a100, h100"),
        ({"length": 100}, r"length is 100, expected one of \[128, "),
        ({"remedy": "hope"}, "remedy is 'hope', expected one of stored, fused, window, linear"),
    ],
    ids=["model", "machine", "length", "remedy"],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Wall(**settings)
