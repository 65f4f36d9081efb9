"""What a chapter shows is HTML or Markdown that any reader's program displays, and the same bytes each time."""

import re
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import notebook_rules
from mha import alt, book, plot

ALT = 'Query 0 puts 82 % on "key" 0 & the rest < 5 %.'


@pytest.fixture
def shown(monkeypatch):
    """Return a function that calls what it is given and returns the text of the one thing displayed."""
    displayed = []
    monkeypatch.setattr(book, "display", displayed.append)

    def call(function, *args, **kwargs):
        displayed.clear()
        assert function(*args, **kwargs) is None
        (output,) = displayed
        return output.data

    return call


def figure():
    fig, ax = plot.figure(3, 2)
    plot.weights(ax, [[1.0, 0.0], [0.25, 0.75]], title=r"$\sqrt{d_k}$")
    ax.plot([0, 1], [0, 1], color="black")
    return fig


def test_figure_is_an_svg_with_words(shown):
    data = shown(book.show, figure(), alt=ALT, caption="Weights & more", name="fig-w")
    pattern = r'<figure class="mha-figure" data-name="fig-w"><img alt="(.*?)" src="data:image/svg\+xml,(.*?)">'
    picture = re.match(pattern, data)[2]
    assert notebook_rules.alt_texts(data) == [ALT]
    assert data.endswith("<figcaption>Weights &amp; more</figcaption></figure>")
    ElementTree.fromstring(unquote(picture))


def test_same_figure_same_bytes(shown):
    assert shown(book.show, figure(), alt=ALT) == shown(book.show, figure(), alt=ALT)


def test_svg_takes_the_colour_of_the_page():
    svg = book.to_svg(figure())
    assert "prefers-color-scheme:dark" in svg
    assert "fill:currentColor" in svg
    assert "stroke: currentColor" in svg
    assert "#000000" not in svg
    assert "<metadata" not in svg
    assert "\n" not in svg


@pytest.mark.parametrize(
    "bad", ["", "A heat map", "../_images/map of all the heads.svg", "notebooks/_images/3f2a.png", "C:\\maps\\heads"]
)
def test_figure_without_words_is_refused(bad):
    with pytest.raises(ValueError, match="alt: expected a sentence that says what the picture shows"):
        book.show(figure(), alt=bad)
    with pytest.raises(TypeError, match="alt"):
        book.show(figure())


def test_name_must_be_a_label():
    with pytest.raises(ValueError, match="name: expected lower-case words joined by hyphens, got 'Fig 1'"):
        book.show(figure(), alt=ALT, name="Fig 1")


def test_source_names_the_function_and_shows_its_code(shown):
    text = shown(book.source, alt.percent)
    assert text.startswith("`mha.alt.percent`\n\n```python\ndef percent(share):\n")
    assert text.endswith("\n```")
    assert "math.floor" in text


def test_source_looks_through_decorators(shown):
    assert shown(book.source, plot.weights).startswith("`mha.plot.weights`")


def test_source_shortens_a_long_docstring(shown):
    def long(x):
        """Say one thing.

        Then
        go
        on
        for
        ever
        and ever.
        """
        return x

    text = shown(book.source, long)
    assert '    """Say one thing.\n\n    …\n    """\n    return x' in text
    compile(text.split("```python\n")[1].removesuffix("\n```"), "shown", "exec")


def test_claim_says_what_was_measured(shown):
    data = shown(book.claim, "A-scale", "variance < 2 at d_k = 64")
    assert data == (
        '<aside class="mha-claim" data-claim="A-scale">Claim A-scale, measured here: '
        "<b>variance &lt; 2 at d_k = 64</b></aside>"
    )
    with pytest.raises(ValueError, match="id: expected the id of a claim"):
        book.claim("scale", "1")


def test_table_escapes_its_words_and_aligns_numbers(shown):
    data = shown(book.table, ["name", "n < 3"], [["a & b", 2], ["c", "none"]])
    assert '<th>name</th><th style="text-align: right">n &lt; 3</th>' in data
    assert '<td>a &amp; b</td><td style="text-align: right">2</td>' in data
    assert '<td>c</td><td style="text-align: right">none</td>' in data
    with pytest.raises(ValueError, match="rows holds one of 1 values: expected 2, one for each title"):
        book.table(["name", "n"], [["a"]])
