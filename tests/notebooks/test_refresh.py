"""A notebook is written in one form: run twice, the bytes are the same."""

import ast
import re
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import first_cell
import notebook_form
import refresh

VIEW = {"model_id": "0b1c", "version_major": 2}
REPOSITORY = "https://example.org/somebody/heads"


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def cells_of(*cells):
    return notebook_form.canonical(new_notebook(cells=list(cells))).cells


def only_outputs(*outputs):
    (cell,) = cells_of(new_code_cell("1", outputs=list(outputs)))
    return cell.outputs


def test_streams_are_joined_however_the_kernel_cut_them():
    joined = only_outputs(stream("a"), stream("b\n"), stream("w", "stderr"), stream("c"))
    assert [(output.name, output.text) for output in joined] == [("stdout", "ab\n"), ("stderr", "w"), ("stdout", "c")]


def test_a_widget_view_is_dropped_only_where_html_stands_in():
    widget = {notebook_form.WIDGET_VIEW: VIEW, "text/plain": "Heads: 9 heads"}
    (with_still,) = only_outputs(new_output("display_data", data=widget | {"text/html": "<figure></figure>"}))
    (without,) = only_outputs(new_output("display_data", data=widget))
    assert set(with_still.data) == {"text/html", "text/plain"}
    assert set(without.data) == {notebook_form.WIDGET_VIEW, "text/plain"}


def test_only_what_the_book_reads_is_kept():
    cell = new_code_cell(
        "x = 1  \n\n", metadata={"tags": ["hide-input"], "execution": {"iopub.status.busy": "12:00"}, "scrolled": True}
    )
    (kept,) = cells_of(cell, new_code_cell(" "))
    assert kept.metadata == {"tags": ["hide-input"]}
    assert kept.source == "x = 1"


def test_names_follow_the_content_and_are_unique():
    one, again, other = cells_of(new_code_cell("1"), new_code_cell("1"), new_markdown_cell("1"))
    (alone,) = cells_of(new_code_cell("1"))
    assert one.id == alone.id
    assert len({one.id, again.id, other.id}) == 3


@pytest.mark.parametrize("repository", ["", REPOSITORY], ids=["no repository", "repository"])
def test_first_cell_is_python_and_is_put_once(repository):
    notebook = new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell("x = 1")])
    first_cell.put(notebook, "https://example.org/older", "0.0.1")
    first_cell.put(notebook, repository, "0.1.0")
    title, first, rest = notebook.cells
    assert (title.source, rest.source) == ("# Title", "x = 1")
    ast.parse(re.sub(r"%pip.*", "pass", first.source))
    wanted = f'    %pip install --quiet "mha[widgets,train] @ git+{REPOSITORY}@v0.1.0"'
    assert (wanted in first.source.splitlines()) == bool(repository)
    assert ("install" in first.source.replace("pip install '.[dev]'", "")) == bool(repository)


def test_first_cell_explains_when_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mha", None)
    with pytest.raises(ModuleNotFoundError, match="make lab"):
        exec(first_cell.source("", "0.1.0"), {})


def test_a_second_run_changes_no_byte(tmp_path):
    path = tmp_path / "chapter.ipynb"
    code = [
        "import time\nprint('a = 1', flush=True)\ntime.sleep(0.3)\nprint('b = 2')",
        "from mha import alt, book, plot\nw = [[1.0, 0.0], [0.25, 0.75]]\nfig, ax = plot.figure()\n"
        "plot.weights(ax, w)\nbook.show(fig, alt=alt.weights(w), name='fig-w')",
        "book.source(alt.percent)",
        "1 + 1",
    ]
    notebook_form.write(path, new_notebook(cells=[new_markdown_cell("# Title"), *map(new_code_cell, code)]))
    texts = []
    for _ in range(2):
        notebook_form.write(path, refresh.refresh(path))
        texts.append(path.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert notebook_form.dumps(notebook_form.read(path)) == texts[0]
    assert [cell.get("execution_count") for cell in notebook_form.read(path).cells] == [None, 1, 2, 3, 4, 5]


def test_check_writes_nothing_and_names_what_would_change(tmp_path, capsys):
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks/heads.ipynb"
    notebook_form.write(path, new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell("x = 1")]))
    before = path.read_text()

    with pytest.raises(SystemExit, match="not as committed: heads"):
        refresh.main(["--check", "--no-run"], tmp_path)
    assert path.read_text() == before

    for arguments in (["--no-run", "heads"], ["--check", "--no-run"]):
        with pytest.raises(SystemExit) as end:
            refresh.main(arguments, tmp_path)
        assert end.value.code == 0
    assert first_cell.OPENING in path.read_text()

    with pytest.raises(SystemExit):
        refresh.main(["rotary"], tmp_path)
    assert "no notebook ['rotary']; there are ['heads']" in capsys.readouterr().err


def test_a_failing_cell_is_named_and_nothing_is_written(tmp_path):
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks/heads.ipynb"
    notebook_form.write(path, new_notebook(cells=[new_markdown_cell("# Title"), new_code_cell("1 / 0")]))
    before = path.read_text()
    with pytest.raises(SystemExit, match=r"heads: a cell failed[\s\S]*ZeroDivisionError"):
        refresh.main([], tmp_path)
    assert path.read_text() == before
