"""Embedded data is what its source says, and what is not here says so at once."""

import gzip
import sys
import time
from dataclasses import replace
from importlib.resources import files
from itertools import groupby

import pytest

import mha.data.tables as tables
from mha.data import DataUnavailable, capture, load, pretrained, result, splits

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
    names = load("emoji_names", source="embedded", split="all")
    assert names.column_names == ["emoji", "en", "ja", "es", "de", "fr"]
    whale = next(row for row in names if row["emoji"] == "🐋")
    assert (whale["en"], whale["ja"], whale["es"]) == ("whale", "クジラ", "ballena")
    assert len(set(names["emoji"])) == len(names) == 2247
    assert all(all(row.values()) for row in names)


def test_words_have_their_phonemes():
    pairs = load("grapheme_phoneme", split="all").to_dict()
    found = dict(zip(pairs["word"], pairs["phonemes"], strict=True))
    assert found["phoneme"] == "F OW N IY M"
    assert found["through"] == "TH R UW"
    assert len(found) == len(pairs["word"]) == 98248
    assert len({phoneme for phonemes in found.values() for phoneme in phonemes.split()}) == 39
    assert all(word.isalpha() and word.islower() and 4 <= len(word) <= 10 for word in found)


def test_verses_are_parallel():
    verses = load("bible_en_es", split="all")
    assert len(verses) == 7977
    found = {(row["book"], row["chapter"], row["verse"]): (row["en"], row["es"]) for row in verses.to_list()}
    light = "God said, “Let there be light,” and there was light.", "Y dijo Dios: Sea la luz: y fué la luz."
    assert found["Genesis", 1, 3] == light
    assert found["I Thessalonians", 5, 25] == ("Brothers, pray for us.", "Hermanos, orad por nosotros.")
    text = "".join(verses["en"]) + "".join(verses["es"])
    assert not set(text) & set("<>&{}[]0123456789\n\t")


def test_gold_links_are_word_numbers():
    verses = load("greek_english")
    assert len(verses) == 3447
    wept = next(row for row in verses if row["verse"] == "John 11:35")
    assert wept["greek"].split() == ["ἐδάκρυσεν", "ὁ", "Ἰησοῦς"]
    assert wept["english"].split() == ["Jesus", "wept"]
    assert wept["links"] == "0-1 2-0"  # ἐδάκρυσεν: wept, Ἰησοῦς: Jesus; the article has no word of its own
    for row in verses:
        greek, english = len(row["greek"].split()), len(row["english"].split())
        links = [tuple(map(int, link.split("-"))) for link in row["links"].split()]
        assert links
        assert len(row["lemmas"].split()) == greek <= 15
        assert all(0 <= i < greek and 0 <= j < english for i, j in links), row["verse"]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("emoji_names", (1928, 97, 222)),
        ("grapheme_phoneme", (83054, 5170, 10024)),
        ("bible_en_es", (6645, 400, 932)),
    ],
)
def test_splits_are_stable_and_share_no_base(name, counts):
    rows = load(name, split="all").to_list()
    parts = {"train": [], "validation": [], "test": []}
    for base, same in groupby(sorted(rows, key=tables.TABLES[name].base), key=tables.TABLES[name].base):
        parts[splits.part(base)] += same
    assert tuple(map(len, parts.values())) == counts
    for split in ("validation", "test"):
        found = load(name, split=split).to_list()
        assert sorted(map(str, found)) == sorted(map(str, parts[split]))


def test_no_sentence_is_in_two_splits():
    parts = [load("bible_en_es", split=split) for split in ("train", "validation", "test")]
    for language in ("en", "es"):
        assert len({text for rows in parts for text in rows[language]}) == sum(map(len, parts))


@pytest.mark.parametrize(
    ("base", "field", "together", "apart"),
    [
        (splits.emoji_base, "emoji", ("👨‍🍳", "👩‍🍳", "🧑‍🍳", "👩🏽‍🍳"), "👩‍🚀"),
        (splits.emoji_base, "emoji", ("🏃", "🏃‍♀️", "🏃‍♂", "🏃🏿"), "🚶"),
        (splits.word_base, "word", ("boat", "boats", "boated", "boating", "boater"), "bat"),
        (splits.word_base, "word", ("make", "makes", "making"), "mast"),
        (splits.word_base, "word", ("stop", "stopped", "stopping"), "step"),
        (splits.word_base, "word", ("abandon", "abandoned", "abandonment"), "abbot"),
    ],
)
def test_variants_share_a_base(base, field, together, apart):
    assert len({base({field: variant}) for variant in together}) == 1
    assert base({field: apart}) != base({field: together[0]})


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
    ("content", "reason"),
    [
        (b"", "was changed"),
        (b"not gzip", "could not be read .*gzip"),
        (gzip.compress(b"{}" * 99)[:-9], "could not be read .*ended"),
        (None, "could not be read .*No such file"),
    ],
    ids=["empty", "not gzip", "cut short", "absent"],
)
def test_a_broken_file_is_refused(monkeypatch, tmp_path, content, reason):
    if content is not None:
        (tmp_path / "greek_english.jsonl.gz").write_bytes(content)
    monkeypatch.setattr(tables, "files", lambda package: tmp_path)
    with pytest.raises(DataUnavailable, match=rf"greek_english\.jsonl\.gz {reason}"):
        load("greek_english")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("moby_duck", {}, r"name is 'moby_duck': expected one of bible_en_es, emoji_names, .*did you mean 'moby_dick'"),
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
