"""The Masks widget: JavaScript says what `mha.masks` says, reasons included, and planted faults are seen."""

import numpy as np
import pytest

from compare import assert_equal
from mha import cost, masks
from mha.widgets import Masks
from mha.widgets.masks import JOIN, KINDS, LARGEST


def cases(count=15):
    rng = np.random.default_rng(4)
    for kind in KINDS:
        yield Masks([(kind, int(rng.integers(1, LARGEST + 1)))], [], n=16, query=9, key=int(rng.integers(16)))
    for _ in range(count):
        n = int(rng.choice([8, 16, 24, 32]))
        number = int(rng.integers(2, 4))
        terms = [(str(rng.choice([*KINDS])), int(rng.integers(1, LARGEST + 1))) for _ in range(number)]
        operators = [str(rng.choice([*JOIN])) for _ in range(number - 1)]
        yield Masks(terms, operators, n=n, query=int(rng.integers(n)), key=int(rng.integers(n)))


MOVES = {
    "kind_1": "prefix", "size_1": 5, "operator_2": "|", "kind_2": "dilated", "size_2": 5, "operator_3": "&",
    "kind_3": "fixed", "size_3": 4, "query": 3, "key": 2,
}  # fmt: skip


def test_javascript_equals_the_masks(run_node):
    passed, log = run_node(cases())
    assert passed, log


def test_every_setting_moves_the_picture(run_node):
    shown = Masks([("window", 3), ("strided", 4), ("global_tokens", 2)], ["&", "|"])
    passed, log = run_node([shown], moves=MOVES)
    assert passed, log


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("masks.js", "see: (i, j) => j <= i, ", "see: (i, j) => j < i, "), id="the diagonal hidden"),
        pytest.param(("masks.js", 'mask.sign === "&" ? one && two : one || two', "one && two"), id="or taken for and"),
        pytest.param(("masks.js", "Math.min(i, j) < size", "j < size"), id="global keys only"),
        pytest.param(("masks.js", "seen: seen !== mask.negated", "seen"), id="the numbers of a negated term"),
        pytest.param(
            ("masks.js", "[...others, ...deciding.slice(1).map((k) => parts[k])]", "others"),
            id="other reasons forgotten",
        ),
        pytest.param(("masks.js", "j % size === size - 1", "j % size === 0"), id="the summary at the block's start"),
        pytest.param(("masks.js", ".slice(0, size).includes", ".slice(0, 1).includes"), id="one draw for all"),
        pytest.param(("masks.js", "flops: 4 * D_HEAD * pairs,\n", "flops: 2 * D_HEAD * pairs,\n"), id="half the FLOPs"),
    ],
)
def test_planted_fault_in_the_numbers_is_seen(run_node, fault):
    passed, log = run_node(cases(), fault=fault)
    assert not passed
    assert "numbers" in log


def test_numbers_are_those_of_the_mask():
    shown = Masks([("causal", 1), ("window", 3), ("global_tokens", 2)], ["&", "|"], n=24, query=17, key=9)
    mask = (masks.causal & masks.window(3, 3)) | masks.global_tokens([0, 1])
    found, tiles = shown.compute(), mask.tiles(24, 24, size=(4, 4), refine=True)
    assert found["mask"] == repr(mask)
    assert_equal(found["see"], mask.dense(24, 24))
    assert found["pairs"] == mask.pairs(24, 24)
    assert found["empty"] == len(mask.empty_rows(24, 24)) == 0
    assert_equal(found["kinds"], tiles.visible[0, 0].astype(int) + tiles.full[0, 0])
    assert found["computed"] == 16 * len(tiles.index)
    assert found["explained"] == mask.explain(17, 9)
    assert found["flops"] == cost.core_flops(mask.pairs(24, 24), 1, 64)


def test_sentence_says_why_and_what_it_costs():
    shown = Masks([("causal", 1), ("window", 1)], ["&"], n=8, query=5, key=2)
    assert shown.sentence() == (
        "i=5 may not see j=2: window(1, 1) (5 − 2 = 3 > 1). 15 of 64 pairs are visible, 23 %: 3\u202f840 FLOPs a head. "
        "In tiles 48 pairs are computed, 75 %: 12\u202f288 FLOPs."
    )
    assert shown.alt().startswith("8 positions, causal & window(1, 1). ")
    assert "Rows that see nothing: 8." in Masks([("causal", 1), ("causal", 1)], ["& ~"], n=8, query=1, key=1).sentence()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 12}, "n is 12, expected 8, 16, 24 or 32"),
        ({"query": 24}, "query is 24, expected a value from 0 to 23"),
        ({"terms": [("causal", 9)], "operators": []}, "size_1 is 9, expected a value from 1 to 8"),
        ({"terms": [("band", 1)], "operators": []}, "kind_1 is band, expected one of"),
        ({"operators": ["^", "&"]}, r"operator_2 is \^, expected one of"),
        ({"operators": ["&"]}, "terms has 3 entries and operators 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Masks(**settings)
