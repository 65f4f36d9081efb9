"""The built book in a browser: nothing from outside, no error, maths typeset, widgets alive, phone and dark mode."""

from pathlib import Path

import pytest

from browser.visit import move_one, picture, served, still_controls, visit

pytestmark = [pytest.mark.browser, pytest.mark.book]

SITE = Path(__file__).parents[2] / "book" / "_build" / "html"
REDIRECT = "index.html"
PAGES = sorted(
    name
    for name in (str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
    if not name.startswith("_") and name != REDIRECT
)
CONTRAST = """() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const text = light(getComputedStyle(document.querySelector("article p, article h1, main")).color);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return [ground, (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05)];
}"""


@pytest.fixture(scope="module")
def host():
    with served(SITE) as host:
        yield host


def typeset(page):
    """Wait for MathJax and return the formulas that it left as they were or marked as errors."""
    if page.locator(".math").count() == 0:
        return []
    page.wait_for_function("window.MathJax?.startup?.promise !== undefined")
    page.evaluate("MathJax.startup.promise.then(() => undefined)")
    left = "[...document.querySelectorAll('.math')].filter((m) => !m.querySelector('mjx-container'))"
    wrong = "[...document.querySelectorAll('mjx-merror, [data-mjx-error]')]"
    return page.evaluate(f"[...{left}, ...{wrong}].map((m) => m.textContent)")


def test_the_book_is_built():
    if not PAGES:
        pytest.skip("the book is not built: make book")
    assert "book/index.html" in PAGES


def test_root_leads_to_the_landing_page(browser, host):
    if not PAGES:
        pytest.skip("the book is not built: make book")
    with visit(browser, f"{host}/{REDIRECT}") as (page, seen):
        page.wait_for_url(f"{host}/book/index.html")
        assert (seen.outside, seen.errors) == ([], [])


@pytest.mark.parametrize("name", PAGES)
def test_page(browser, host, name):
    with visit(browser, f"{host}/{name}") as (page, seen):
        assert typeset(page) == []
        for live in page.locator(".mha-live").all():
            assert still_controls(live) == []
        light, contrast = page.evaluate(CONTRAST)
        assert contrast >= 4.5
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 1280
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function(f"({CONTRAST})()[0] < 0.1")  # the theme answers when its script comes to it
        dark, contrast = page.evaluate(CONTRAST)
        assert dark < 0.1 < 0.8 < light
        assert contrast >= 4.5
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        assert (seen.outside, seen.errors) == ([], [])


@pytest.mark.parametrize("name", PAGES)
def test_page_from_a_folder(browser, name):
    with visit(browser, f"file://{SITE / name}") as (page, seen):
        assert typeset(page) == []
        for live in page.locator(".mha-live").all():
            before = picture(live)
            move_one(live)
            assert picture(live) != before
        assert (seen.outside, seen.errors) == ([], [])
