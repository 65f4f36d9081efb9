"""Print the whole book to `book/_build/attention-head-by-head.pdf` with Chromium; widgets appear as stills."""

import re
import subprocess
import sys
from pathlib import Path

import pypdf
from playwright.sync_api import sync_playwright

import chromium
from build_book import BUILD, COMMAND, ROOT, STRICT

PAGE = BUILD / "singlehtml/all.html"
PDF = BUILD / "attention-head-by-head.pdf"

# Solutions unfold, and a link to a file of this machine has no meaning on paper.
PREPARE = """
for (const part of document.querySelectorAll("details:not(.hide)")) part.open = true;
for (const fold of document.querySelectorAll(".toggle-hidden")) fold.classList.remove("toggle-hidden");
for (const lazy of document.querySelectorAll("img[loading=lazy]")) lazy.loading = "eager";
const isElsewhere = (link) => link.protocol === "file:" && link.pathname !== location.pathname;
for (const link of [...document.links].filter(isElsewhere)) link.removeAttribute("href");
document.documentElement.dataset.theme = document.documentElement.dataset.mode = "light";
const imprint = document.querySelectorAll(".component-author, .extra_footer");
document.querySelector("#jb-print-docs-body h1")?.after(...imprint);
// Paper does not scroll: a formula that is too wide gets smaller.
for (const formula of document.querySelectorAll("div.math mjx-container")) {
  const number = formula.parentElement.querySelector(".eqno")?.offsetWidth ?? 0;
  const room = formula.parentElement.clientWidth - 2 * number;
  const share = room / formula.firstElementChild.getBoundingClientRect().width;
  if (share < 1) formula.style.fontSize = `${Math.floor(100 * share)}%`;
}
// The contents name the sections of each numbered chapter. Ids of sections repeat in other chapters, these do not.
const lead = (entry, heading) => {
  heading.id ||= `print-${document.querySelectorAll("[id^=print-]").length}`;
  entry.href = `#${heading.id}`;
  return entry;
};
for (const entry of document.querySelectorAll("#jb-print-toc a")) {
  const chapter = document.getElementById(entry.hash.slice(1))?.nextElementSibling;
  const heading = chapter?.querySelector("h2");
  if (!heading) continue;
  lead(entry, heading);
  if (!heading.querySelector(".section-number")) continue;
  const sections = document.createElement("ul");
  for (const heading of chapter.querySelectorAll(":scope > section > h3")) {
    const section = lead(document.createElement("a"), heading);
    section.innerHTML = heading.innerHTML;
    section.querySelector(".headerlink")?.remove();
    sections.appendChild(document.createElement("li")).append(section);
  }
  entry.after(sections);
}
"""
NUMBER = """(pages) => {
for (const entry of document.querySelectorAll("#jb-print-toc a")) {
  const page = pages[entry.hash.slice(1)];
  if (page) entry.dataset.page = page;
}}"""
FOOTER = '<div style="width: 100%; font: 8pt serif; text-align: center"><span class="pageNumber"></span></div>'
TEXT_WIDTH = 658  # CSS pixels in 174 mm
SHEET = {
    "format": "A4",
    "margin": {"top": "18mm", "bottom": "20mm", "left": "18mm", "right": "18mm"},
    "print_background": True,
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": FOOTER,
    "outline": True,
    "tagged": True,
}


def build_single_page() -> None:
    subprocess.run([*COMMAND, *STRICT, "--builder", "singlehtml"], cwd=ROOT, check=True)
    root = BUILD / "singlehtml/book/index.html"
    PAGE.write_text(own_links(root.read_text(encoding="utf-8")), encoding="utf-8")


def own_links(text: str) -> str:
    """The root page lies in a folder, and its links to itself miss that: let the copy above it point into itself."""
    text = re.sub(r'(href|src)="(?:\.\./)+', r'\1="', text)
    return re.sub(r'href="(?:book/)?index\.html#', 'href="#', text)


def print_page(source: Path, target: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.program(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 1000}, color_scheme="light")
        page.emulate_media(media="print")
        page.goto(source.as_uri(), wait_until="load")
        page.evaluate("() => window.MathJax?.startup.promise")
        page.evaluate(PREPARE)
        page.evaluate("() => document.fonts.ready")
        page.pdf(path=target, **SHEET)
        page.evaluate(NUMBER, page_numbers(target))
        page.pdf(path=target, **SHEET)
        browser.close()


def page_numbers(printed: Path) -> dict[str, int]:
    """The page on which each place that a link leads to was printed."""
    reader = pypdf.PdfReader(printed)
    places = reader.named_destinations.items()
    return {name.lstrip("/"): reader.get_destination_page_number(place) + 1 for name, place in places}


def main() -> None:
    if chromium.program() is None:
        sys.exit(chromium.MISSING)
    build_single_page()
    print_page(PAGE, PDF)
    print(f"The book is in {PDF.relative_to(ROOT)} ({PDF.stat().st_size / 1e6:.1f} MB).")


if __name__ == "__main__":
    main()
