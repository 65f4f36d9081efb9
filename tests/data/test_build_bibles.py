"""What the builder of the verses takes out of its sources: words, neither footnotes nor two glued into one."""

import io
import json
import tarfile
import zipfile
import zlib
from struct import pack

import pytest

import build_bibles as build

CANON = {"ot": [("Genesis", [2, 1])], "nt": [("Matthew", [2])]}


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            '<w lemma="a">God</w><note placement="foot">1:1 so<reference>x</reference></note><w>created</w>',
            "God created",
        ),
        ("allí<transChange>también</transChange>bdelio", "allí también bdelio"),
        ("<w>heavens</w><note>or skies</note>, <q marker=''>“<w>Yes</w>,</q> it is.”", "heavens, “Yes, it is.”"),
        ('<title canonical="true">A Psalm.</title><l sID="1"/>Lord<l eID="1"/><l/>hear', "A Psalm. Lord hear"),
        ("<title>Book 2</title><speaker>Lover</speaker>You &amp; I", "You & I"),
        ('<q>“<w>Ego</w>ist</q><milestone type="x"/>', "“Egoist"),
    ],
)
def test_markup_leaves_whole_words(markup, text):
    assert build._plain(markup) == text


def module(monkeypatch, ot, nt):
    """Return an open package with a text in SWORD's compressed form: headings are empty, verses as given."""
    monkeypatch.setattr(build, "canon", lambda versification: CANON)
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for part, verses in (("ot", ot), ("nt", nt)):
            data = [verse.encode() for verse in verses]
            text = zlib.compress(b"".join(data))
            starts = [sum(map(len, data[:n])) for n in range(len(data))]
            places = b"".join(pack("<IIH", 0, start, len(verse)) for start, verse in zip(starts, data, strict=True))
            blocks = pack("<III", 0, len(text), sum(map(len, data)))
            for ending, content in (("bzz", text), ("bzs", blocks), ("bzv", places)):
                member = tarfile.TarInfo(f"./usr/share/sword/{part}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    file.seek(0)
    return tarfile.open(fileobj=file)


HEADINGS = ["", "", "book"]  # of the module, the testament and the book


def test_verses_meet_their_own_translation(monkeypatch):
    first, second, third = "In the beginning it was so.", "And it was evening, morning.", "It came to pass that day."
    ot = [*HEADINGS, "chapter", first, second, "chapter", third]
    english = module(monkeypatch, ot, [*HEADINGS, "chapter", first, "Short."])
    spanish = module(
        monkeypatch,
        [*HEADINGS, "c", "En el principio era así.", "Y fué la tarde, la mañana.", "c", "Y aconteció aquel día que."],
        [*HEADINGS, "c", "En el principio fué así, otra vez.", "Breve."],
    )
    rows = build.bible_en_es(english, spanish)
    assert [(row["book"], row["chapter"], row["verse"]) for row in rows] == [
        ("Genesis", 1, 1),
        ("Genesis", 1, 2),
        ("Genesis", 2, 1),
    ]  # Matthew 1:1 repeats Genesis 1:1, and Matthew 1:2 is too short
    assert rows[1]["en"] == second
    assert rows[1]["es"].startswith("Y fué la tarde")


def test_chapters_that_count_otherwise_are_left_out(monkeypatch):
    verse = "It came to pass in those days {}."
    english = module(monkeypatch, [*HEADINGS, "c", verse.format(1), "", "c", verse.format(3)], HEADINGS)
    spanish = module(monkeypatch, [*HEADINGS, "c", verse.format(4), verse.format(5), "c", verse.format(6)], HEADINGS)
    assert [(row["book"], row["chapter"]) for row in build.bible_en_es(english, spanish)] == [("Genesis", 2)]


def test_links_are_numbers_of_words_without_punctuation(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "canon", lambda versification: {"nt": [("Matthew", []), ("Mark", [])]})
    greek = [("n41001001001", "ἐδάκρυσεν", "δακρύω"), ("n41001001002", "ὁ", "ὁ"), ("n41001001003", "Ἰησοῦς", "Ἰησοῦς")]
    greek += [("n41001002001", "καὶ", "καί"), ("n41001003001", "δὲ", "δέ")]
    english = [("41001001001", "“", "y"), ("41001001002", "Jesus", ""), ("41001001003", "wept", "")]
    english += [("41001002001", "And", ""), ("41001003001", "but", "")]
    links = [(["n41001001001"], ["41001001003"]), (["n41001001003", "n41001001002"], ["41001001002"])]
    links += [(["n41001002001"], ["41001003001"])]  # across two verses: neither is kept
    records = [{"source": source, "target": target} for source, target in links]
    with zipfile.ZipFile(tmp_path / "package.whl", "w") as wheel:
        lines = ["id\ttext\tlemma", *("\t".join(word) for word in greek)]
        wheel.writestr("data/sources/SBLGNT.tsv", "\n".join(lines))
        lines = ["id\tsource_verse\ttext\texclude", *(f"{i}\t{i[:8]}\t{text}\t{out}" for i, text, out in english)]
        wheel.writestr("data/eng/targets/BSB/nt_BSB.tsv", "\n".join(lines))
        wheel.writestr("data/eng/alignments/BSB/SBLGNT-BSB-manual.json", json.dumps({"records": records}))
    assert build.greek_english(tmp_path / "package.whl") == [
        {
            "verse": "Mark 1:1",
            "greek": "ἐδάκρυσεν ὁ Ἰησοῦς",
            "lemmas": "δακρύω ὁ Ἰησοῦς",
            "english": "Jesus wept",
            "links": "0-1 1-0 2-0",
        }
    ]
