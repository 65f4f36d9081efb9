"""Widgets on a page of their own: they live without a kernel, obey mouse and keyboard, and leave each other alone."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from browser.visit import picture, served, still_controls, visit
from mha import masks, reference
from mha.widgets import (
    Alignments,
    Cost,
    DotProduct,
    Features,
    Flash,
    HeadMaps,
    Heads,
    Lookup,
    Masks,
    Phases,
    Rounding,
    Sampling,
    Slopes,
    Tiles,
    Wall,
)

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
TOKENS = ["[CLS]", "call", "me", "Ishmael", ".", "some", "<years>", "ago", "never", "mind", "[SEP]"]
STYLE = "html{color-scheme:light dark}body{margin:0 auto;padding:0 20px;max-width:46rem}"


def hydrate():
    spec = importlib.util.spec_from_file_location("hydrate", ROOT / "book/_ext/hydrate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_page(folder, widgets, fault=None):
    """Write a page as the site does: its extension writes the modules and names the files that the page needs."""
    extension, static = hydrate(), folder / "_static"
    files = []
    app = SimpleNamespace(
        builder=SimpleNamespace(format="html"),
        outdir=folder,
        add_css_file=lambda file: files.append(f'<link rel="stylesheet" href="_static/{file}">'),
        add_js_file=lambda file, loading_method: files.append(f'<script defer src="_static/{file}"></script>'),
    )
    body = "".join(widget.to_html() for widget in widgets)
    extension.write_sources(app)
    extension.add_scripts(app, "index", "page.html", {"body": body}, None)
    (static / "hydrate.js").write_text((ROOT / "book/assets/hydrate.js").read_text(encoding="utf-8"), encoding="utf-8")
    if fault:
        name, old, new = fault
        path = static / name
        source = path.read_text(encoding="utf-8")
        if name.startswith("widgets/"):
            old, new = (json.dumps(text)[1:-1] for text in (old, new))
        assert source.count(old) == 1, f"the fault is planted nowhere: {old}"
        path.write_text(source.replace(old, new), encoding="utf-8")
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    page = f"<!doctype html><html lang='en'><title>Widgets</title>{head}<style>{STYLE}</style>{''.join(files)}{body}"
    (folder / "index.html").write_text(page, encoding="utf-8")


def widgets():
    q, k = np.random.default_rng(11).normal(0, 1.3, (2, 12, len(TOKENS), 32))
    maps = reference.attention_weights(q, k, mask=masks.causal).reshape(4, 3, len(TOKENS), len(TOKENS))
    return [
        DotProduct(TOKENS, q[0], k[0], query=3),
        DotProduct(TOKENS, q[1], k[1]),
        Heads(TOKENS, q, k),
        HeadMaps(TOKENS, maps, layer=2, head=1, query=6),
        Lookup(range(0, 24, 3), range(8), period=24, query=7.5),
        Cost("llama-3-8b", itemsize=4),
        Flash(TOKENS, q[0], k[0], k[1, :, :2], step=2),
        Features(q[0, :, :8], k[0, :, :8], features=64),
        Rounding(exponent=-4, thousandths=600, format=2),
        Tiles(reach=2, rows=4, columns=8),
        Masks(),
        Phases(q[0, :2].ravel(), k[0, :2].ravel(), position=5),
        Slopes(num_heads=6, head=4),
        Alignments(TOKENS, TOKENS[::-1], reference.attention_weights(q[:3], k[:3])[:, ::-1], ["a", "b", "c"], step=2),
        Sampling(temperature=1.5, top_p=0.8),
        Wall("llama-3-70b", length=2**15),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_page(folder, widgets())
    return folder


@pytest.fixture(params=["http", "file"])
def address(request, folder):
    if request.param == "file":
        yield f"file://{folder}/index.html"
    else:
        with served(folder) as host:
            yield f"{host}/index.html"


def disturbed(page):
    """Move one widget after the other; return (moved, changed) for each that changed with another."""
    lives = page.locator(".mha-live").all()
    found = []
    for moved, live in enumerate(lives):
        before = [picture(other) for other in lives]
        chips = live.locator(".mha-chip")
        if chips.count():
            chips.nth(1).click()
        else:
            live.locator("input").first.press("ArrowRight")
        changed = [other for other, old in enumerate(before) if picture(lives[other]) != old]
        found += [(moved, other) for other in changed if other != moved]
        assert moved in changed
        live.locator("button").click()
    return found


def test_every_control_moves_its_picture(browser, address):
    with visit(browser, address) as (page, seen):
        lives = page.locator(".mha-live").all()
        assert [still_controls(live) for live in lives] == [[]] * len(widgets())
        assert disturbed(page) == []
        assert (seen.outside, seen.errors) == ([], [])


def test_control_that_moves_nothing_is_reported(browser, tmp_path):
    old = "(scale ? 1 / Math.sqrt(d_k) : 1) / temperature"
    write_page(tmp_path, widgets()[:1], fault=("widgets/dot_product.js", old, old.replace("temperature", "1")))
    with visit(browser, f"file://{tmp_path}/index.html") as (page, _):
        assert still_controls(page.locator(".mha-live")) == ["Temperature by keyboard", "Temperature by mouse"]


def test_widgets_that_share_a_model_are_reported(browser, tmp_path):
    old = "model: makeModel(JSON.parse(still.dataset.state))"
    shared = "model: (window.models ??= {})[still.dataset.widget] ??= makeModel(JSON.parse(still.dataset.state))"
    write_page(tmp_path, widgets(), fault=("hydrate.js", old, shared))
    with visit(browser, f"file://{tmp_path}/index.html") as (page, _):
        assert disturbed(page) == [(0, 1), (1, 0)]


def test_outside_request_is_counted(browser, tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><img alt='' src='http://example.com/x.png'>")
    with visit(browser, f"file://{tmp_path}/index.html") as (_, seen):
        assert seen.outside == ["http://example.com/x.png"]
        assert len(seen.errors) == 1


def test_live_picture_is_the_still(browser, folder):
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        for widget, live in zip(widgets(), page.locator(".mha-live").all(), strict=True):
            svg = live.locator("svg")
            assert svg.get_attribute("aria-label") == widget.alt()
            assert svg.get_attribute("role") == "img"
            drawn = page.evaluate(
                "s => new DOMParser().parseFromString(s, 'text/html').body.textContent", widget.picture()
            )
            assert svg.evaluate("s => s.textContent") == drawn
            assert live.locator("[aria-live=polite]").inner_text() == widget.sentence()


def test_click_on_the_picture_chooses(browser, folder):
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        dot_product, _, heads, head_maps, lookup, _, flash, _, rounding, *_ = page.locator(".mha-live").all()
        dot_product.locator("svg rect.pick[data-value='5']").click()
        assert "Query 5, “some”" in dot_product.locator("[aria-live]").inner_text()
        assert dot_product.get_by_role("radio").nth(5).is_checked()
        heads.locator("svg rect.pick[data-value='7']").last.click()
        assert heads.locator("[aria-live]").inner_text().startswith("Head 7 of 12 reads columns 224 to 255")
        head_maps.locator("svg rect[data-layer='3'][data-head='2']").click()
        head_maps.locator("svg rect.pick[data-value='4']").click()
        said = head_maps.locator("[aria-live]").inner_text()
        assert said.startswith("Layer 3, head 2: ")
        assert "Query 4, “.”" in said
        lookup.locator("svg circle.pick[data-value='9']").click()
        assert (
            lookup.locator("[aria-live]").inner_text().startswith("Asked at 9 with temperature 0.10, the table answers")
        )
        flash.locator("svg rect.pick[data-value='5']").click()
        assert flash.locator("[aria-live]").inner_text().startswith("Step 5 of ")
        rounding.locator("svg rect.pick[data-value='4']").click()
        assert rounding.locator("[aria-live]").inner_text().startswith("0.1 becomes 0.10156 in float8_e4m3fn")


def test_arrow_keys_move_through_all_heads(browser, folder):
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        head_maps = page.locator(".mha-live").nth(3)
        heads = head_maps.locator(".mha-picture")
        head_maps.get_by_role("radio", checked=True).focus()
        page.keyboard.press("Tab")
        assert heads.evaluate("h => h === document.activeElement")
        assert heads.locator(".all").evaluate("a => getComputedStyle(a).strokeWidth") == "3px"
        assert heads.get_attribute("aria-label") == "All heads: the arrow keys choose a layer and a head"
        places = {"ArrowRight": (3, 1), "ArrowDown": (3, 2), "ArrowLeft": (2, 2), "ArrowUp": (2, 1)}
        for key, (layer, head) in places.items():
            page.keyboard.press(key)
            assert head_maps.locator("[aria-live]").inner_text().startswith(f"Layer {layer}, head {head}: ")
        for _ in range(3):
            page.keyboard.press("ArrowUp")
        assert head_maps.locator("[aria-live]").inner_text().startswith("Layer 2, head 0: ")


def test_new_split_keeps_looking_at_the_same_columns(browser, folder):
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        heads = page.locator(".mha-live").nth(2)
        heads.locator("svg rect.pick[data-value='7']").last.click()
        heads.locator(".mha-chip", has_text="24").click()
        assert "Head 14 of 24 reads columns 224 to 239" in heads.locator("[aria-live]").inner_text()
        assert "what-if" in heads.locator("[aria-live]").inner_text()
        heads.locator(".mha-chip", has_text="6").last.click()


def test_reader_without_eyes_or_mouse(browser, folder):
    """Each control has a name, says its value, is at least 44 pixels high and shows where the focus is."""
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        inputs = page.locator(".mha-live :is(input, select, button)").all()
        for inner in inputs:
            assert inner.evaluate("i => (i.labels?.[0] ?? i).innerText.trim()")
            hit = inner.evaluate("i => (i.labels?.[0] ?? i).getBoundingClientRect().toJSON()")
            assert min(hit["width"], hit["height"]) >= 44
            if inner.evaluate("i => i.matches('input, select')"):
                assert inner.evaluate("i => i.dataset.lmSuppressShortcuts") == ""
        for fieldset in page.locator(".mha-live fieldset").all():
            assert fieldset.locator("legend").inner_text()
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement.parentElement).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_does_not_scroll_sideways(browser, folder, scheme):
    with visit(browser, f"file://{folder}/index.html", width=390, scheme=scheme) as (page, _):
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        assert page.locator(".mha-live svg").first.bounding_box()["width"] > 340


def test_print_shows_the_still(browser, folder):
    with visit(browser, f"file://{folder}/index.html") as (page, _):
        assert not page.locator(".mha-widget > img").first.is_visible()
        page.emulate_media(media="print")
        assert page.locator(".mha-widget > img").first.is_visible()
        assert not page.locator(".mha-live").first.is_visible()


def test_page_without_widget_loads_nothing():
    files = []
    app = SimpleNamespace(add_css_file=files.append, add_js_file=lambda file, **_: files.append(file))
    hydrate().add_scripts(app, "index", "page.html", {"body": "<p>words</p>"}, None)
    assert files == []
