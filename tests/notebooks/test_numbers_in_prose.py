"""A number in prose is the printed one, or the check says where it is not."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import notebook_form
import numbers_in_prose
from numbers_in_prose import printed, rewrite

LINES = """\
share on the previous token = 71 %
heads = 9
largest error = -3.2e-07
mean entropy = 1.30 nats
pairs = 1,048,576
loss below 1.9: yes
twice = 5
twice = 7
mask = causal
scaled, d_k = 1024: mean largest weight = 0.07
"""


def chapter(prose, lines=LINES):
    code = new_code_cell("print()", execution_count=1, outputs=[new_output("stream", name="stdout", text=lines)])
    return new_notebook(cells=[new_markdown_cell(prose), code])


VALUES = {"heads": printed(chapter(""))}


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("82 %<!--=share on the previous token--> of it", "71 %<!--=share on the previous token--> of it"),
        ("**82 %**<!--=share on the previous token-->", "**71 %**<!--=share on the previous token-->"),
        ("all 12<!--=heads--> heads", "all 9<!--=heads--> heads"),
        ("in 3 of 12<!--=heads-->", "in 3 of 9<!--=heads-->"),
        ("| −1.0e-02<!--=largest error--> |", "| −3.2e-07<!--=largest error--> |"),
        ("| 1.0e-02<!--=largest error--> |", "| −3.2e-07<!--=largest error--> |"),
        ("0.5 nats<!--=mean entropy-->", "1.30 nats<!--=mean entropy-->"),
        ("4,096<!--=pairs--> pairs, 8<!--=heads-->", "1,048,576<!--=pairs--> pairs, 9<!--=heads-->"),
        ("0.1<!--=scaled, d_k = 1024: mean largest weight-->", "0.07<!--=scaled, d_k = 1024: mean largest weight-->"),
        ("82 %<!--=heads: share on the previous token-->", "71 %<!--=heads: share on the previous token-->"),
    ],
)
def test_number_becomes_the_printed_one_and_stays(prose, expected):
    assert rewrite(prose, "heads", VALUES) == (expected, [])
    assert rewrite(expected, "heads", VALUES) == (expected, [])


@pytest.mark.parametrize(
    "prose", ["71\u00a0%<!--=share on the previous token-->", "71%<!--=share on the previous token-->"]
)
def test_a_true_number_is_left_as_the_author_spaced_it(prose):
    assert rewrite(prose, "heads", VALUES) == (prose, [])


@pytest.mark.parametrize(
    ("prose", "stem", "fault"),
    [
        ("most<!--=share on the previous token-->", "heads", "expected a number such as '71 %' right before it"),
        ("82<!--=share on the previous token-->", "heads", "expected a number such as '71 %' right before it"),
        ("x82 %<!--=share on the previous token-->", "heads", "expected a number such as '71 %' right before it"),
        ("5<!--=tokens-->", "heads", "heads prints 'tokens' with 0 different numbers"),
        ("5<!--=mask-->", "heads", "heads prints 'mask' with 0 different numbers"),
        ("5<!--=twice-->", "heads", "heads prints 'twice' with 2 different numbers"),
        ("5<!--=rotary: heads-->", "heads", "there is no notebook 'rotary'"),
        ("5<!--=heads-->", None, "a page must name the notebook that prints it"),
    ],
)
def test_what_cannot_be_tied_is_a_fault(prose, stem, fault):
    text, (found,) = rewrite(prose, stem, VALUES)
    assert text == prose
    assert fault in found


def test_refresh_reaches_notebooks_and_pages(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    path, page = tmp_path / "notebooks/heads.ipynb", tmp_path / "book/index.md"
    notebook_form.write(path, chapter("12<!--=heads--> heads"))
    page.write_text("12<!--=heads: heads--> heads")
    before = path.read_text()

    faults = numbers_in_prose.refresh(tmp_path, check=True)
    assert [fault.partition(":")[0] for fault in faults] == ["notebooks/heads.ipynb", "book/index.md"]
    assert (path.read_text(), page.read_text()) == (before, "12<!--=heads: heads--> heads")

    assert numbers_in_prose.refresh(tmp_path) == []
    assert notebook_form.read(path).cells[0].source == "9<!--=heads--> heads"
    assert page.read_text() == "9<!--=heads: heads--> heads"
    assert numbers_in_prose.refresh(tmp_path, check=True) == []
