"""What all widgets share: plain HTML for the page, one module text, words from the text table."""

import html
import json
import re
import sys
import tomllib
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from traitlets import TraitError

from mha.analysis.stream import stream_sizes
from mha.masks import causal
from mha.reference import attention_weights
from mha.text import template
from mha.widgets import (
    Alignments,
    Block,
    Changes,
    Cost,
    Dilution,
    DotProduct,
    Explanations,
    Features,
    Flash,
    HeadMaps,
    HeadPair,
    Heads,
    Lookup,
    Masks,
    Phases,
    Prune,
    Rounding,
    Sampling,
    Slopes,
    Tiles,
    Wall,
)
from mha.widgets.base import HERE, module_source

TOKENS = ["[CLS]", "ships", "<sail>", "'at'", '"sea"', "&"]
Q, K = np.random.default_rng(7).normal(size=(2, 3, 6, 8))
WIDGETS = [
    Alignments(TOKENS, TOKENS, attention_weights(Q, K), ["a", "b", "c"], name="fig-m"),
    Block({"a": ("pre", TOKENS, stream_sizes(Q, K[:2]))}, name="fig-n"),
    Changes(
        TOKENS, TOKENS, np.ones((1, 6, 8)), np.ones((1, 6, 7)), encoder_layers=[1], decoder_layers=[1], name="fig-o"
    ),
    Cost("smollm2-135m", name="fig-d"),
    Dilution(name="fig-q"),
    DotProduct(TOKENS, Q[0], K[0], name="fig-a"),
    Explanations(name="fig-r"),
    Features(Q[0], K[0], name="fig-j"),
    Flash(TOKENS, Q[0], K[0], K[1, :, :2], name="fig-g"),
    HeadMaps(TOKENS, attention_weights(Q, K, mask=causal)[None], name="fig-b"),
    HeadPair(TOKENS, attention_weights(Q, K, mask=causal)[None], b=(0, 1), name="fig-s"),
    Heads(TOKENS, Q, K, name="fig-c"),
    Lookup(range(0, 24, 3), range(8), period=24, query=7.5, name="fig-e"),
    Masks(name="fig-i"),
    Phases(Q.ravel()[:64], K.ravel()[:64], name="fig-k"),
    Prune(name="fig-t"),
    Rounding(exponent=-4, thousandths=600, name="fig-f"),
    Sampling(name="fig-p"),
    Slopes(name="fig-l"),
    Tiles(name="fig-h"),
    Wall(name="fig-w"),
]
KINDS = sorted(path.stem for path in HERE.glob("*.js") if path.stem != "common")
each_widget = pytest.mark.parametrize("widget", WIDGETS, ids=KINDS)
SHAPE = re.compile(
    r'<figure class="mha-widget" data-name="(.*?)" data-widget="(\w+)" data-state="(.*?)">'
    r'<img alt="(.*?)" src="data:image/svg\+xml,([^"<>]*)"><figcaption>(.*?)</figcaption></figure>'
)


@each_widget
def test_html_holds_picture_state_and_words(widget):
    name, kind, state, alt, still, caption = SHAPE.fullmatch(widget.to_html()).groups()
    assert (name, kind) == (widget.name, widget.kind())
    assert html.unescape(alt) == widget.alt()
    assert html.unescape(caption) == template(f"widgets.{kind}.caption")
    state = json.loads(html.unescape(state))
    assert state.get("tokens", TOKENS) == getattr(widget, "tokens", TOKENS)
    assert set(state) == set(widget.trait_names(setting=True))
    assert ElementTree.fromstring(unquote(still)).tag.endswith("svg")


@each_widget
def test_display_is_live_and_plain_html(widget):
    data, _ = widget._repr_mimebundle_()
    assert data["text/html"] == widget.to_html()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(widget) == f"{type(widget).__name__}: {widget.alt()}"


def test_colab_gets_the_live_view_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", None)
    data, _ = WIDGETS[0]._repr_mimebundle_()
    assert "text/html" not in data


def test_same_arguments_give_same_html():
    assert Heads(TOKENS, Q, K).to_html() == Heads(TOKENS, Q, K).to_html()
    assert DotProduct(TOKENS, Q[0], K[0]).to_html() == DotProduct(TOKENS, Q[0], K[0]).to_html()


def test_html_of_a_real_layer_is_small():
    q, k = np.random.default_rng(3).normal(size=(2, 12, 12, 32))
    tokens = [f"token{i}" for i in range(12)]
    assert len(Heads(tokens, q, k).to_html().encode()) < 120_000
    assert len(DotProduct(tokens, q[0], k[0]).to_html().encode()) < 60_000


@pytest.mark.parametrize("path", sorted(HERE.glob("*.js")), ids=lambda path: path.name)
def test_module_reaches_nothing_outside(path):
    source = path.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(", source)


@pytest.mark.parametrize("kind", KINDS)
def test_module_is_one_text(kind):
    source = module_source(kind)
    assert "import " not in source
    names = re.findall(r"^(?:export )?(?:const|function) (\w+)", source, re.M)
    assert len(names) == len(set(names)), "common.js and the widget declare the same name"


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_used(kind):
    words = {**template("widgets.common"), **template(f"widgets.{kind}")}
    source = module_source(kind)

    def used(key):
        prefix, _, suffix = key.rpartition("_")
        written = [rf"\b{key}\b", rf"`{prefix}_\$" if prefix else r"$^", rf"\}}_{suffix}`"]
        return any(re.search(pattern, source) for pattern in written)

    assert [key for key in words if key != "caption" and not used(key)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_javascript_has_no_words_of_its_own(kind):
    strings = re.findall(r'"([^"\n]*)"|`([^`]*)`', (HERE / f"{kind}.js").read_text(encoding="utf-8"))
    assert [text for pair in strings for text in pair if re.search(r"[a-z]{3,} [a-z]{3,}", text)] == []


def test_every_table_of_words_has_its_widget():
    table = tomllib.loads((HERE.parent / "text/en/widgets.toml").read_text(encoding="utf-8"))
    assert set(table) == {"common", *KINDS}


@each_widget
def test_data_is_given_once(widget):
    assert widget.trait_names(data=True) or widget.kind() in ("dilution", "slopes")  # which have settings alone
    for name in widget.trait_names(data=True):
        before = getattr(widget, name)
        with pytest.raises(TraitError, match=f'"{name}" trait is read-only'):
            setattr(widget, name, type(before)())
        assert getattr(widget, name) == before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DotProduct(TOKENS, Q[0], K[0], query="first"), ValueError, "'query' trait .* expected an int"),
        (lambda: DotProduct(TOKENS, Q[0], K[0], mask="future"), ValueError, "'mask' trait .* expected any of"),
        (lambda: DotProduct(TOKENS, Q[0] * 1j, K[0]), TypeError, "q has dtype complex128, expected real numbers"),
        (lambda: Heads(TOKENS, Q, K * 1e200), ValueError, r"k holds .*e\+200, expected numbers up to 1,000,000"),
        (lambda: Heads(TOKENS, Q, K, num_heads=2.5), ValueError, "'num_heads' trait .* expected an int"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_largest_numbers_are_drawn():
    widget = DotProduct(TOKENS, np.full((6, 8), 1e6), np.full((6, 8), -1e6), temperature=0.1, scale=False)
    assert "NaN" not in widget.to_html()


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_is_declared_twice(kind):
    """A module and `common.js` become one text, in which a browser refuses a second declaration."""
    names = re.findall(r"^(?:export )?(?:const|let|function) (\w+)", module_source(kind), re.M)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
