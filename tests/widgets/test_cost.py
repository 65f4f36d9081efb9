"""The Cost widget: JavaScript says what `mha.cost` says, with any number of digits, and planted faults are seen."""

import numpy as np
import pytest

from mha import cost, masks
from mha.widgets import Cost
from mha.widgets.cost import BATCHES, ITEMSIZES, LENGTHS, digits, quantity


def cases():
    rng = np.random.default_rng(7)
    for model in range(len(Cost().models)):
        widget = Cost(
            length=int(rng.choice(LENGTHS)),
            batch=int(rng.choice(BATCHES)),
            itemsize=int(rng.choice(ITEMSIZES)),
            machine=str(rng.choice(["v100", "a100", "h100"])),
        )
        widget.model = model
        widget.num_heads, widget.num_kv_heads = (int(heads) for heads in rng.integers(1, 200, size=2))
        yield widget
    yield Cost("gpt-3", length=2**20, batch=1024, itemsize=4)
    yield Cost("smollm2-135m", num_heads=1, num_kv_heads=1, length=128)


MOVES = {"model": 0, "num_heads": 16, "num_kv_heads": 8, "length": 512, "batch": 64, "itemsize": 1}


def test_javascript_equals_cost(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Cost()], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("cost.js", "2n * d_model * g * d", "2n * d_model * h * d"), id="ungrouped parameters"),
        pytest.param(("cost.js", "(n * (n + 1n)) / 2n", "n * n"), id="no causal half"),
        pytest.param(("cost.js", "2n * n * g * d * layers * batch", "2n * n * g * d * layers"), id="cache of one"),
        pytest.param(("cost.js", "4n * h * n * n * size", "2n * h * n * n * size"), id="scores pass twice"),
        pytest.param(("cost.js", "Math.max(Number", "Math.min(Number"), id="the faster roof"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


@pytest.mark.parametrize("key", ["gpt-2-xl", "llama-2-70b"])
def test_counts_are_those_of_the_published_model(key):
    model, found = cost.published_models()[key], Cost(key, length=2048, batch=4).compute()
    assert (found["heads"], found["groups"], found["d_head"]) == (model.num_heads, model.num_kv_heads, model.d_head)
    assert found["parameters"] == str(model.parameters())
    assert found["cache_bytes"] == str(model.cache_bytes(2048, batch=4))


def test_prompt_and_step_are_counted_behind_a_causal_mask():
    found, n = Cost("gpt-1", length=128, batch=2).compute(), 128
    prompt = cost.attention_flops(n, 768, 12, pairs=masks.causal.pairs(n, n))
    assert found["prompt_flops"] == str(12 * 2 * prompt)
    step = cost.attention_flops(n, 768, 12, pairs=masks.causal.pairs(n, n)) - cost.attention_flops(
        n - 1, 768, 12, pairs=masks.causal.pairs(n - 1, n - 1)
    )
    assert found["step_flops"] == str(12 * 2 * step)


def test_heads_that_do_not_divide_fall_back_to_fewer():
    found = Cost("smollm2-135m", num_heads=10, num_kv_heads=7).compute()
    assert (found["heads"], found["groups"], found["d_head"]) == (9, 3, 64)


@pytest.mark.parametrize(
    ("x", "unit", "text"),
    [
        (0, "B", "0.00\u202fB"),
        (1, "", "1.00"),
        (2**31, "B", "2.15\u202fGB"),
        (12_500, "B", "12.5\u202fkB"),
        (0.00192, "s", "1.92\u202fms"),
        (3.2e-8, "s", "32.0\u202fns"),
        ("2658455991569831745807614120560689152", "FLOP", "2658455991569832\u202fZFLOP"),
    ],
)
def test_quantities_are_short(x, unit, text):
    assert quantity(x, unit) == text


def test_digits_round_halves_upwards():
    assert [digits(x) for x in (0.125, 2.5, 10.25, 100.5, 295.2)] == ["0.13", "2.50", "10.3", "101", "295"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "bert-base"}, "model is 'bert-base', expected one of gpt-1, "),
        ({"machine": "abacus"}, "machine is 'abacus', expected one of v100, a100, h100"),
        ({"length": 100}, r"length is 100, expected one of \[128, "),
        ({"batch": 3}, r"batch is 3, expected one of \[1, 2, "),
        ({"itemsize": 8}, r"itemsize is 8, expected one of \[4, 2, 1\]"),
        ({"num_heads": 0}, "num_heads is 0, expected a value from 1 to"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Cost(**settings)
