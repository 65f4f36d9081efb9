"""Text to token numbers and back: symbols one by one, or byte-pair encoding (BPE) learnt from texts."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mha.data.reading import read_text
from mha.data.unavailable import missing_package
from mha.integers import integer
from mha.vocabulary import BOS, EOS, PAD

__all__ = ["BOS", "EOS", "PAD", "BPETokenizer", "CharacterTokenizer", "padded", "train_bpe"]

SPECIAL = ("<pad>", "<bos>", "<eos>")


class CharacterTokenizer:
    """A number for each symbol: for each character, or with `separator=" "` for each word or phoneme.

    The vocabulary is what the given texts hold, sorted; another symbol is an error when it is encoded.
    """

    def __init__(self, texts: Iterable[str], *, separator: str = ""):
        self.separator = separator
        self.symbols = sorted({symbol for text in _texts(texts) for symbol in self._split(text)})
        self._number = {symbol: number for number, symbol in enumerate(self.symbols, start=len(SPECIAL))}

    @property
    def vocab_size(self) -> int:
        """How many numbers there are: the special ones and one for each symbol."""
        return len(SPECIAL) + len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the symbols of `text`, without BOS and EOS."""
        symbols = self._split(_text(text))
        try:
            return [self._number[symbol] for symbol in symbols]
        except KeyError as unknown:
            raise ValueError(
                f"text holds {unknown.args[0]!r}: expected symbols of the texts this tokenizer was made from; "
                "make it from all texts that it is to encode"
            ) from None

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of `numbers` up to the first EOS; PAD and BOS are skipped."""
        kept = _content(numbers, self.vocab_size)
        return self.separator.join(self.symbols[number - len(SPECIAL)] for number in kept)

    def save(self, path) -> None:
        """Write the tokenizer to a JSON file."""
        kept = {"separator": self.separator, "symbols": self.symbols}
        Path(path).write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path) -> "CharacterTokenizer":
        """Return the tokenizer that `save` wrote."""
        try:
            kept = json.loads(read_text(path))
            return cls(kept["symbols"], separator=kept["separator"])
        except (json.JSONDecodeError, TypeError, KeyError):
            raise ValueError(f"{path} is not a file that CharacterTokenizer.save wrote") from None

    def _split(self, text):
        return [symbol for symbol in text.split(self.separator) if symbol] if self.separator else list(text)


class BPETokenizer:
    """Byte-pair encoding on the bytes of UTF-8, so that no text is unknown; made by `train_bpe` or `load`."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = True  # a text that spells "<eos>" does not end there

    @property
    def vocab_size(self) -> int:
        """How many numbers there are: special ones, 256 bytes, and one for each merge."""
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the tokens of `text`, without BOS and EOS."""
        return self.tokenizer.encode(_text(text), add_special_tokens=False).ids

    def decode(self, numbers: Iterable[int]) -> str:
        """Return the text of `numbers` up to the first EOS; PAD and BOS are skipped, broken UTF-8 becomes �."""
        return self.tokenizer.decode(_content(numbers, self.vocab_size), skip_special_tokens=False)

    def save(self, path) -> None:
        """Write the tokenizer to a JSON file of the `tokenizers` library."""
        self.tokenizer.save(str(path))

    @classmethod
    def load(cls, path) -> "BPETokenizer":
        """Return the tokenizer that `save` wrote."""
        text, library = read_text(path), _library()
        try:
            tokenizer = library.Tokenizer.from_str(text)
        except Exception:  # the library raises plain Exception
            raise ValueError(f"{path} is not a file of the tokenizers library") from None
        if [tokenizer.id_to_token(number) for number in range(len(SPECIAL))] != list(SPECIAL):
            raise ValueError(f"{path} does not begin with {', '.join(SPECIAL)}: expected a file of BPETokenizer.save")
        return cls(tokenizer)


def train_bpe(texts: Iterable[str], vocab_size: int) -> BPETokenizer:
    """Return a tokenizer whose merges join the most frequent pairs in `texts`, at most `vocab_size` numbers in all.

    Words are split as GPT-2 does. Sennrich et al. (2016); on bytes: Radford et al. (2019).
    """
    texts, smallest = _texts(texts), len(SPECIAL) + 256
    if integer("vocab_size", vocab_size) < smallest:
        raise ValueError(f"vocab_size is {vocab_size}: expected {smallest} or more, 3 special numbers and 256 bytes")
    library = _library()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return BPETokenizer(tokenizer)


def padded(rows: Sequence[Sequence[int]], *, device=None):
    """Return `rows` of token numbers as `tokens` (b, t), filled up with PAD, and `keep` (b, t), True on the rows."""
    import torch

    length = max(map(len, rows), default=0)
    filled = [[*row, *[PAD] * (length - len(row))] for row in rows]
    tokens = torch.tensor(filled, dtype=torch.long, device=device)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long, device=device)
    keep = torch.arange(length, device=device) < lengths[:, None]
    return tokens.reshape(len(rows), length), keep


def _library():
    try:
        import tokenizers
    except ImportError as absent:
        raise missing_package(absent) from absent
    return tokenizers


def _text(text):
    if not isinstance(text, str):
        raise TypeError(f"text is {text!r}: expected a string")
    return text


def _texts(texts):
    if isinstance(texts, str):
        raise TypeError("texts is a string: expected several strings, such as [text]")
    return [_text(text) for text in texts]


def _content(numbers, vocab_size):
    kept = []
    for number in (integer("an entry of numbers", one) for one in numbers):
        if number == EOS:
            break
        if not 0 <= number < vocab_size:
            raise ValueError(f"numbers holds {number}: expected 0 to {vocab_size - 1}")
        if number not in (PAD, BOS):
            kept.append(number)
    return kept
