"""The Tiles widget: JavaScript says what `mha.masks` says, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import masks
from mha.widgets import Tiles
from mha.widgets.tiles import SIDES

LENGTH = 24


def cases():
    rng = np.random.default_rng(6)
    for _ in range(20):
        rows, columns = (int(rng.choice(SIDES)) for _ in range(2))
        settings = {"reach": int(rng.integers(8)), "seen_by_all": int(rng.integers(5))}
        yield Tiles(
            int(rng.choice([8, 16, 24, 32])), **settings, causal=bool(rng.integers(2)), rows=rows, columns=columns
        )
    yield Tiles(reach=0, seen_by_all=0, rows=1, columns=1)
    yield Tiles(8, reach=0, seen_by_all=0)  # 12.5 %
    yield Tiles(reach=LENGTH - 1, seen_by_all=4, rows=8, columns=8)


MOVES = {"reach": 6, "seen_by_all": 3, "causal": True, "rows": 8, "columns": 2}


def test_javascript_equals_the_masks(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    passed, log = run_node([Tiles()], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("tiles.js", "<= reach", "< reach"), id="window too short"),
        pytest.param(("tiles.js", "Math.min(i, j) <", "j <"), id="global keys only"),
        pytest.param(("tiles.js", "j > i) return", "j >= i) return"), id="the diagonal hidden"),
        pytest.param(("tiles.js", "pairs.every", "pairs.some"), id="partial taken for full"),
        pytest.param(
            ("tiles.js", "other * columns, (other + 1) * columns", "other * rows, (other + 1) * rows"), id="sides"
        ),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 8), (4, 4), (8, 2)])
def test_counts_are_those_of_a_look_at_every_pair(rows, columns, causal):
    shown = Tiles(reach=2, seen_by_all=2, causal=causal, rows=rows, columns=columns)
    mask = masks.window(2, 2) | masks.global_tokens([0, 1])
    see = (mask & masks.causal if causal else mask).dense(LENGTH, LENGTH)
    tiles = see.reshape(LENGTH // rows, rows, LENGTH // columns, columns)
    found, some = shown.compute(), tiles.any((1, 3))
    assert_equal(found["kinds"], some.astype(int) + tiles.all((1, 3)))
    assert found["computed"] == some.sum() * rows * columns
    assert found["full"] + found["partial"] + found["skipped"] == some.size
    assert found["visible"] == see.sum()


def test_a_tile_of_one_pair_computes_what_is_visible():
    found = Tiles(rows=1, columns=1).compute()
    assert found["computed"] == found["visible"]
    assert found["partial"] == 0


def test_sentence_says_what_is_computed():
    shown = Tiles(reach=1, seen_by_all=0, rows=2, columns=2)
    assert shown.sentence() == (
        "70 pairs are visible, 12 %. In tiles of 2 × 2, 12 are full, 22 partial and 110 skipped: "
        "a kernel computes 136 pairs, 24 %."
    )
    assert shown.alt().startswith("24 positions, a window of ± 1, global tokens: 0, in both directions. ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 12}, "n is 12, expected 8, 16, 24 or 32: every side of a tile divides it"),
        ({"reach": 24}, "reach is 24, expected a value from 0 to 23"),
        ({"seen_by_all": 5}, "seen_by_all is 5, expected a value from 0 to 4"),
        ({"rows": 3}, r"rows is 3, expected one of \[1, 2, 4, 8\]"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Tiles(**settings)
