"""The printed book: links stay inside, solutions are open, headings make an outline, pictures keep their words."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pypdf
import pytest

import pdf

PICTURE = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect width='9' height='9'/></svg>"
PAGE = """<!doctype html><html lang="en"><head><title>One</title></head><body>
<h1>Heads</h1><p><a href="#two">inside</a> <a href="other.html">elsewhere</a></p>
<details><summary>Solution</summary>unfolded words</details>
<details class="hide"><summary>Cell</summary>folded words</details>
<figure><img alt="a head that looks back" src="data:image/svg+xml,{picture}">
</figure><h2 id="two">Two</h2></body></html>"""


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('href="../book/index.html#heads"', 'href="#heads"'),
        ('href="index.html#heads"', 'href="#heads"'),
        ('src="../_static/one.js"', 'src="_static/one.js"'),
        ('href="https://arxiv.org/abs/1706.03762"', 'href="https://arxiv.org/abs/1706.03762"'),
    ],
)
def test_links_of_the_single_page_point_into_it(link, expected):
    assert pdf.own_links(link) == expected


@pytest.mark.browser
def test_a_page_is_printed_for_every_reader(tmp_path):
    source, target = tmp_path / "page.html", tmp_path / "page.pdf"
    source.write_text(PAGE.format(picture=quote(PICTURE)))
    printed = print_page(source, target)
    text = "".join(page.extract_text() for page in printed.pages)
    assert "unfolded words" in text
    assert "folded words" not in text.replace("unfolded words", "")
    assert printed.outline[0].title == "Heads"
    assert printed.trailer["/Root"]["/MarkInfo"]["/Marked"]
    addresses = [
        str(note.get_object()["/A"].get("/URI", ""))
        for page in printed.pages
        for note in page.get("/Annots", [])
        if "/A" in note.get_object()
    ]
    assert not [address for address in addresses if address.startswith("file:")]
    assert set(alternatives(printed.trailer["/Root"]["/StructTreeRoot"])) == {"a head that looks back"}


CONTENTS = """<!doctype html><html lang="en"><head><title>Book</title>
<style>a::after {{ content: " on " attr(data-page) }} section section {{ break-before: page }}</style></head><body>
<div id="jb-print-toc"><a href="#document-one">One</a> <a href="#document-two">Two</a></div>{chapters}</body></html>"""
CHAPTER = """<span id="document-{name}"></span><section><h2><span class="section-number">1.</span>{name}</h2>
<section id="exercises"><h3>Exercises {name}</h3></section></section>"""


@pytest.mark.browser
def test_the_contents_name_pages_although_ids_repeat(tmp_path):
    source, target = tmp_path / "page.html", tmp_path / "page.pdf"
    source.write_text(CONTENTS.format(chapters="".join(CHAPTER.format(name=name) for name in ("one", "two"))))
    printed = print_page(source, target)
    contents = " ".join(printed.pages[0].extract_text().split())
    for entry in ("One on 1", "Exercises one on 2", "Two on 2", "Exercises two on 3"):
        assert entry in contents


def print_page(source, target):
    """Print in a thread of its own: Playwright allows one browser a thread, and the session has its own."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(pdf.print_page, source, target).result()
    return pypdf.PdfReader(target)


def alternatives(node):
    """The alternative texts below a node of the structure tree."""
    node = node.get_object()
    if isinstance(node, list):
        for child in node:
            yield from alternatives(child)
    elif isinstance(node, dict):
        if "/Alt" in node:
            yield str(node["/Alt"])
        yield from alternatives(node.get("/K", pypdf.generic.NullObject()))
