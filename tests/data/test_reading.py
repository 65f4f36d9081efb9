"""A user's own file is read exactly or refused with the place and the reason."""

import re

import pytest

from mha.data import read_pairs


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pairs_are_read(tmp_path, start, end):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(start + f"the sea\tla mar{end}{end}whale\tballena azul\u2028é{end}".encode())
    assert read_pairs(path) == [("the sea", "la mar"), ("whale", "ballena azul\u2028é")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pairs.tsv is empty"),
        (b"\n \n", "pairs.tsv is empty"),
        (b"\xef\xbb\xbf\n", "pairs.tsv is empty"),
        ("a\tb\nmañana\tc\n".encode("latin1"), "pairs.tsv is not UTF-8: line 2 holds the byte 0xf1; convert"),
        ("a\tb\n".encode("utf-16"), "pairs.tsv is not UTF-8: line 1 holds the byte 0xff"),
        (b"a\tb\nno tab\n", "pairs.tsv, line 2 is 'no tab': expected a source text, one tab and a target text"),
        (b"a\tb\tc\n", r"pairs.tsv, line 1 is 'a\tb\tc': expected"),
        (b"a\t \n", r"pairs.tsv, line 1 is 'a\t ': expected"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_pairs(path)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"pairs\.tsv"):
        read_pairs(tmp_path / "pairs.tsv")
