"""The notebooks obey the rules, and each rule catches the fault that it is there for."""

import inspect

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import notebook_form
import notebook_rules as rules
import numbers_in_prose
from mha import alt

CHAPTERS = sorted(notebook_form.NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_obeys(path, rule):
    assert list(rule(notebook_form.read(path))) == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_is_canonical(path):
    assert list(rules.is_canonical(notebook_form.read(path), path.read_text(encoding="utf-8"))) == []


def test_numbers_in_prose_are_true():
    assert numbers_in_prose.refresh(check=True) == []


def notebook(*sources, outputs=(), tags=()):
    """Return a small executed notebook whose last code cell has these outputs and tags."""
    cells = [new_code_cell(source, execution_count=n) for n, source in enumerate(sources, start=1)]
    cells[-1].outputs = list(outputs)
    cells[-1].metadata["tags"] = list(tags)
    return new_notebook(cells=[new_markdown_cell("# A chapter"), *cells])


def html(text):
    return new_output("display_data", data={"text/html": text, "text/plain": "<IPython.core.display.HTML object>"})


PICTURE = '<figure><img alt="Query 0 puts 82 % on key 0." src="data:image/svg+xml,%3Csvg/%3E"></figure>'
DRAW = "rng = np.random.default_rng(5)\nx = rng.normal(size=3)"
PASTED = f"# another comment\n{inspect.getsource(alt.number).replace('def number', 'def my_number')}"

FINE = [
    (rules.is_executed, notebook("1", "2")),
    (rules.has_readable_size, notebook("x = 1\n" * 25)),
    (rules.has_readable_size, notebook(*["x = 1\n" * 25] * 11, tags=["hide-input"])),
    (rules.ran_quietly, notebook("1", outputs=[new_output("stream", name="stdout", text="1")])),
    (rules.ran_quietly, notebook("1", outputs=[new_output("error", ename="ValueError")], tags=["raises-exception"])),
    (rules.prints_rounded_numbers, notebook("1", outputs=[new_output("stream", text="0.1667 3.2e-07, within 1e-12")])),
    (rules.shows_pictures_with_words, notebook("1", outputs=[html(PICTURE)])),
    (rules.pastes_no_package_code, notebook("from mha import alt\nalt.percent(0.5)\nalt.percent(0.6)")),
    (rules.seeds_its_randomness, notebook(DRAW)),
    (rules.seeds_its_randomness, notebook("torch.manual_seed(7)", "x = torch.randn(3)")),
    (rules.seeds_its_randomness, notebook("x = torch.randn(3, generator=g)")),
    (rules.types_no_numbers_of_figures, new_notebook(cells=[new_markdown_cell("Table 3 of {cite:t}`vaswani2017`")])),
    (rules.installs_nothing_by_bare_name, notebook('%pip install --quiet "mha[torch] @ git+https://host/x@v1"')),
]

FAULTY = [
    (rules.is_executed, new_notebook(cells=[new_code_cell("1", execution_count=None)])),
    (rules.is_executed, new_notebook(cells=[new_code_cell("1", execution_count=2)])),
    (rules.has_readable_size, notebook(*["1"] * 60)),
    (rules.has_readable_size, notebook(*["x = 1\n" * 23] * 11)),
    (rules.has_readable_size, notebook("x = 1\n" * 26)),
    (rules.has_readable_size, notebook("1", outputs=[new_output("stream", text="x" * 1_000_000)])),
    (rules.ran_quietly, notebook("1", outputs=[new_output("error", ename="ValueError")])),
    (rules.ran_quietly, notebook("1", outputs=[new_output("stream", name="stderr", text="UserWarning")])),
    (rules.ran_quietly, notebook("1", outputs=[new_output("stream", text="<Axes at 0x7f12ab34cd>")])),
    (
        rules.ran_quietly,
        notebook("1", outputs=[new_output("display_data", data={"text/plain": "<X at 0x7f12ab>"})]),
    ),
    (rules.prints_rounded_numbers, notebook("1", outputs=[new_output("stream", text="0.16666666666666666")])),
    (rules.prints_rounded_numbers, notebook("1", outputs=[new_output("stream", text="error 2.2e-16")])),
    (rules.shows_pictures_with_words, notebook("1", outputs=[new_output("display_data", data={"image/png": ""})])),
    (rules.shows_pictures_with_words, notebook("1", outputs=[html('<img src="x">')])),
    (rules.shows_pictures_with_words, notebook("1", outputs=[html('<img alt="A map" src="x">')])),
    (rules.shows_pictures_with_words, notebook("1", outputs=[html('<img alt="../_images/a b c d.svg" src="x">')])),
    (rules.pastes_no_package_code, notebook(PASTED)),
    (rules.seeds_its_randomness, notebook("x = np.random.randn(3)")),
    (rules.seeds_its_randomness, notebook("np.random.seed(3)")),
    (rules.seeds_its_randomness, notebook("rng = np.random.default_rng()")),
    (rules.seeds_its_randomness, notebook("import random")),
    (rules.seeds_its_randomness, notebook("from numpy.random import randn")),
    (rules.seeds_its_randomness, notebook("x = torch.randn(3)", "torch.manual_seed(7)")),
    (rules.seeds_its_randomness, notebook("layer = mha.nn.MultiHeadAttention(8, 2)")),
    (rules.types_no_numbers_of_figures, new_notebook(cells=[new_markdown_cell("As Figure 3 shows")])),
    (rules.begins_as_all_do, notebook("import mha")),
    (rules.begins_as_all_do, new_notebook(cells=[new_markdown_cell("# No code")])),
    (rules.installs_nothing_by_bare_name, notebook("%pip install mha")),
    (rules.installs_nothing_by_bare_name, notebook("!pip install --quiet 'mha[torch]'")),
]


def named(pairs):
    return [pytest.param(rule, book, id=f"{rule.__name__}-{n}") for n, (rule, book) in enumerate(pairs)]


@pytest.mark.parametrize(("rule", "fine"), named(FINE))
def test_rule_lets_pass(rule, fine):
    assert list(rule(fine)) == []


@pytest.mark.parametrize(("rule", "faulty"), named(FAULTY))
def test_rule_catches(rule, faulty):
    assert len(list(rule(faulty))) == 1


def test_every_rule_has_its_planted_fault():
    assert {rule for rule, _ in FAULTY} == set(rules.RULES)


def test_canonical_rule_catches_a_saved_notebook():
    text = notebook_form.dumps(notebook("1"))
    saved = nbformat.reads(text, as_version=4)
    saved.metadata["widgets"] = {}
    assert list(rules.is_canonical(saved, text)) == []
    assert len(list(rules.is_canonical(saved, nbformat.writes(saved)))) == 1
