"""The verse-aligned data sets, for tools/build_data.py: from SWORD modules, and from manual word alignments."""

import csv
import html
import io
import json
import re
import struct
import zipfile
import zlib
from collections import defaultdict
from itertools import product

SHORT_VERSE = range(20, 91)  # characters
SHORT_GREEK = range(1, 16)  # words
LEFT_OUT = re.compile(r"<(note|speaker)\b.*?</\1>|<title(?![^>]*canonical).*?</title>", re.DOTALL)
WITHIN_A_WORD = re.compile(r"</?(?:w|q|seg|name)\b[^>]*>")


def canon(versification):
    """Return (name, number of verses of each chapter) of the books of each testament, as SWORD orders them."""
    from pysword.canons import canons

    return {part: [(book[0], book[3]) for book in canons[versification][part]] for part in ("ot", "nt")}


def bible_en_es(english, spanish):
    """Return a row for each verse that is short in both languages and repeats no earlier one in either.

    Chapters with another number of verses in the other text are left out: there a verse would meet its neighbour.
    """
    texts = {"en": _verses(english, "nrsva"), "es": _verses(spanish, "kjv")}
    rows, seen = [], set()
    for chapter in texts["es"]:
        both = [texts[language].get(chapter, []) for language in ("en", "es")]
        if len(both[0]) != len(both[1]):
            continue
        for number, (en, es) in enumerate(zip(*both, strict=True), start=1):
            short = len(en) in SHORT_VERSE and len(es) in SHORT_VERSE and 0.5 <= len(es) / len(en) <= 2
            if short and not seen & {en, es}:
                seen |= {en, es}
                rows.append({"book": chapter[0], "chapter": chapter[1], "verse": number, "en": en, "es": es})
    return rows


def _verses(archive, versification):
    """Return the verses of each (book, chapter) of the one compressed text in a Debian package."""
    files = {
        member.name.rpartition("/")[2]: archive.extractfile(member).read() for member in archive if member.isfile()
    }
    chapters = {}
    for part, books in canon(versification).items():
        blocks = [
            zlib.decompress(files[f"{part}.bzz"][start : start + size])
            for start, size, _ in struct.iter_unpack("<III", files[f"{part}.bzs"])
        ]
        places = list(struct.iter_unpack("<IIH", files[f"{part}.bzv"]))
        index = 2  # after the headings of the module and of the testament
        for book, lengths in books:
            index += 1  # the heading of the book; each chapter has one too
            for chapter, length in enumerate(lengths, start=1):
                verses = places[index + 1 : index + 1 + length]
                texts = [_plain(blocks[block][start : start + size].decode("utf-8")) for block, start, size in verses]
                while texts and not texts[-1]:
                    texts.pop()
                chapters[book, chapter] = texts
                index += 1 + length
    return chapters


def _plain(markup):
    """Return the words of a verse: without footnotes, headings and tags, none of which may glue two words together."""
    text = re.sub(r"<[^>]+>", " ", WITHIN_A_WORD.sub("", LEFT_OUT.sub(" ", markup)))
    return re.sub(r" +(?=[,.;:?!”’)])", "", " ".join(html.unescape(text).split()))


def greek_english(package):
    """Return a row for each short Greek verse: words of both sides without punctuation, lemmas, and the links.

    Links are pairs i-j of word numbers from 0, Greek first. A group of several words is linked word by word.
    """
    with zipfile.ZipFile(package) as wheel:
        greek, english = (
            _words(wheel, name) for name in ("data/sources/SBLGNT.tsv", "data/eng/targets/BSB/nt_BSB.tsv")
        )
        manual = json.loads(wheel.read("data/eng/alignments/BSB/SBLGNT-BSB-manual.json"))["records"]
    links, crossing = defaultdict(set), set()
    for record in manual:
        verses = {_verse(word) for word in record["source"] + record["target"]}
        crossing |= verses if len(verses) > 1 else set()
        links[min(verses)] |= set(product(record["source"], record["target"]))
    rows = []
    for verse, words in greek.items():
        if len(words) in SHORT_GREEK and verse in english and links[verse] and verse not in crossing:
            rows.append(_row(verse, words, english[verse], links[verse]))
    return rows


def _words(wheel, name):
    """Return the words of each verse, as the rows of a table; punctuation is marked there as excluded."""
    verses = defaultdict(list)
    lines = io.StringIO(wheel.read(name).decode("utf-8"))
    for word in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        if not word.get("exclude"):
            verses[word.get("source_verse") or _verse(word["id"])].append(word)
    return verses


def _verse(word):
    return word.removeprefix("n")[:8]  # book, chapter and verse; three digits for the word follow


def _row(verse, greek, english, links):
    first, second = ({word["id"]: number for number, word in enumerate(words)} for words in (greek, english))
    numbers = sorted((first[source], second[target]) for source, target in links if target in second)
    return {
        "verse": f"{canon('kjv')['nt'][int(verse[:2]) - 40][0]} {int(verse[2:5])}:{int(verse[5:])}",
        "greek": " ".join(word["text"] for word in greek),
        "lemmas": " ".join(word["lemma"] for word in greek),
        "english": " ".join(word["text"] for word in english),
        "links": " ".join(f"{i}-{j}" for i, j in numbers),
    }
