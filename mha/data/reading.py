"""A user's own text files: read whole, with an error that names the file, the line and what was expected."""

from pathlib import Path

__all__ = ["read_pairs", "read_text"]


def read_text(path) -> str:
    """Return the text of a UTF-8 file; an empty file or another encoding is an error."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path} is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}; convert the file first, "
            "such as by: iconv -f latin1 -t utf-8"
        ) from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text


def read_pairs(path) -> list[tuple[str, str]]:
    """Return the pairs of a UTF-8 file with a source text, a tab and a target text in each line."""
    pairs = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 2 or not all(fields):
            raise ValueError(f"{path}, line {number} is {line!r}: expected a source text, one tab and a target text")
        pairs.append((fields[0], fields[1]))
    return pairs
