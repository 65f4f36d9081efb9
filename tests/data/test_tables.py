"""Embedded data is what its source says, and what is not here says so at once."""

import gzip
import sys
import time
from dataclasses import replace
from importlib.resources import files

import pytest

import mha.data.tables as tables
from mha.data import DataUnavailable, capture, load, pretrained, result

datasets = pytest.importorskip("datasets")


def test_moby_dick_has_all_chapters():
    book = load("moby_dick")
    assert isinstance(book, datasets.Dataset)
    assert book.column_names == ["chapter", "title", "text"]
    assert book["chapter"][:] == list(range(1, 136))
    assert book[0]["title"] == "Loomings"
    assert book[0]["text"].startswith("Call me Ishmael. Some years ago—never mind how long precisely—")
    assert all(book["text"])
    assert not any(title.startswith("CHAPTER") for title in book["title"])


def test_emoji_names_are_parallel():
    names = load("emoji_names", source="embedded")
    assert names.column_names == ["emoji", "en", "ja", "es", "de", "fr"]
    whale = next(row for row in names if row["emoji"] == "🐋")
    assert (whale["en"], whale["ja"], whale["es"]) == ("whale", "クジラ", "ballena")
    assert len(set(names["emoji"])) == len(names) == 1928
    assert all(all(row.values()) for row in names)


def test_every_table_names_its_licence_and_origin():
    for name, table in tables.TABLES.items():
        assert table.licence, name
        assert table.provenance, name
        assert table.file or table.hub, name
        if table.file:
            assert len(table.sha256) == 64
            assert table.file in files("mha.data").joinpath("NOTICE.md").read_text(encoding="utf-8")


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "moby_dick.jsonl.gz").write_bytes(gzip.compress(b'{"chapter": 1, "title": "", "text": ""}\n'))
    monkeypatch.setattr(tables, "files", lambda package: tmp_path)
    with pytest.raises(DataUnavailable, match=r"moby_dick\.jsonl\.gz was changed: expected sha256 ef7414df"):
        load("moby_dick")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("moby_duck", {}, r"name is 'moby_duck': expected one of emoji_names, grapheme_phoneme, moby_dick, wikitext_2"),
        ("moby_dick", {"source": "web"}, r"source is 'web': expected one of 'auto', 'embedded', 'hub'"),
        (
            "moby_dick",
            {"split": "test"},
            r"split is 'test': expected one of 'train', 'all' of the embedded 'moby_dick'",
        ),
    ],
)
def test_wrong_arguments(name, options, message):
    with pytest.raises(ValueError, match=message):
        load(name, **options)


@pytest.mark.parametrize(("name", "source"), [("wikitext_2", "embedded"), ("moby_dick", "hub")])
def test_where_there_is_no_copy_the_other_source_is_named(name, source):
    with pytest.raises(DataUnavailable, match=rf"load\('{name}'"):
        load(name, source=source)


@pytest.mark.parametrize("source", ["auto", "hub"])
def test_offline_hub_fails_fast_and_says_so(source):
    start = time.perf_counter()
    with pytest.raises(DataUnavailable, match=r"Salesforce/wikitext could not be read from the hub \(offline\?\)"):
        load("wikitext_2", source=source)
    assert time.perf_counter() - start < 5


def test_unreachable_hub_is_asked_once(monkeypatch):
    import huggingface_hub

    asked = []

    def refuse(self, repository, *, repo_type, timeout):
        asked.append((repository, repo_type))
        raise TimeoutError("no answer")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", refuse)
    with pytest.raises(DataUnavailable, match="no answer"):
        load("wikitext_2")
    assert asked == [("Salesforce/wikitext", "dataset")]


def test_the_hub_gets_the_name_configuration_and_split(monkeypatch):
    def answer(repository, configuration, *, split):
        return datasets.Dataset.from_list([{"text": f"{repository} {configuration} {split}"}])

    monkeypatch.setattr(datasets, "load_dataset", answer)
    assert load("wikitext_2", split="test")["text"][:] == ["Salesforce/wikitext wikitext-2-raw-v1 test"]


def test_an_embedded_copy_never_stands_in_for_the_hub(monkeypatch):
    monkeypatch.setitem(tables.TABLES, "moby_dick", replace(tables.TABLES["moby_dick"], hub=("someone/moby", "plain")))
    with pytest.raises(DataUnavailable, match=r"someone/moby could not be read.*\n.*reads the embedded copy"):
        load("moby_dick", source="hub")
    assert len(load("moby_dick")) == 135


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [("datasets", "data", lambda: load("moby_dick")), ("torch", "torch", lambda: pretrained("smollm2"))],
)
def test_an_absent_package_names_its_extra(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DataUnavailable, match=rf"{package} is not installed: .*pip install '\.\[{extra}\]'"):
        call()


@pytest.mark.parametrize("ask", [load, pretrained, capture, result])
@pytest.mark.parametrize("name", [["moby_dick"], None])
def test_a_name_is_a_string(ask, name):
    with pytest.raises(TypeError, match=r"name is .*: expected a string, one of "):
        ask(name)
