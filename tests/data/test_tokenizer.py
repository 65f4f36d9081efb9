"""Token numbers and back: nothing is lost, nothing is guessed, and a file gives the same tokenizer again."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha.data import DataUnavailable, load
from mha.data.tokenizer import BOS, EOS, PAD, BPETokenizer, CharacterTokenizer, padded, train_bpe

pytest.importorskip("tokenizers")

TEXTS = ["low low low lower lowest", "newer newest wider", "ἐδάκρυσεν ὁ Ἰησοῦς", "クジラ"]


@pytest.fixture(scope="module")
def bpe():
    return train_bpe(TEXTS, 290)


@pytest.fixture(scope="module")
def characters():
    return CharacterTokenizer(TEXTS)


def test_characters_are_numbered_in_order():
    tokenizer = CharacterTokenizer(["cab", "bad"])
    assert tokenizer.symbols == ["a", "b", "c", "d"]
    assert tokenizer.vocab_size == 7
    assert tokenizer.encode("bad") == [4, 3, 6]
    assert tokenizer.encode("") == []
    assert (PAD, BOS, EOS) == (0, 1, 2)


def test_phonemes_are_symbols_too():
    tokenizer = CharacterTokenizer(["HH AH L OW", "W ER L D"], separator=" ")
    assert tokenizer.symbols == ["AH", "D", "ER", "HH", "L", "OW", "W"]
    assert tokenizer.decode(tokenizer.encode("HH  ER")) == "HH ER"


def test_decoding_stops_at_the_end_and_skips_padding(bpe, characters):
    for tokenizer in (characters, bpe):
        word = tokenizer.encode("low")
        assert tokenizer.decode([BOS, PAD, *word, EOS, *word, PAD]) == "low"
        with pytest.raises(ValueError, match=rf"numbers holds {tokenizer.vocab_size}: expected 0 to "):
            tokenizer.decode([tokenizer.vocab_size])
        with pytest.raises(ValueError, match=r"numbers holds -1: "):
            tokenizer.decode([-1])
        with pytest.raises(TypeError, match=r"numbers is 3\.7: expected an integer"):
            tokenizer.decode([3.7])


def test_an_unknown_character_is_named():
    with pytest.raises(ValueError, match=r"text holds 'x': expected symbols of the texts"):
        CharacterTokenizer(["abc"]).encode("cax")


@pytest.mark.parametrize("name", ["emoji_names", "grapheme_phoneme", "bible_en_es", "greek_english"])
def test_every_text_comes_back(name):
    for column, texts in load(name, split="all").to_dict().items():
        if isinstance(texts[0], str):
            tokenizer = CharacterTokenizer(texts)
            assert all(tokenizer.decode(tokenizer.encode(text)) == text for text in texts[::37]), column


@given(text=st.text())
def test_bytes_know_every_text(bpe, text):
    assert bpe.decode(bpe.encode(text)) == text


def test_frequent_pairs_are_merged(bpe):
    """`low` is in every word of the first text, so it is one token, with and without the space before it."""
    assert bpe.vocab_size == 290
    assert len(bpe.encode("low low")) == 2
    assert len(bpe.encode("owl owl")) > 2
    assert train_bpe(TEXTS, 290).encode("lowest newest") == bpe.encode("lowest newest")


def test_special_tokens_in_a_text_are_text(bpe):
    numbers = bpe.encode("low<eos><pad>")
    assert not {PAD, BOS, EOS} & set(numbers)
    assert bpe.decode(numbers) == "low<eos><pad>"


def test_no_room_for_merges_leaves_bytes():
    tokenizer = train_bpe(["aaaa"], 259)
    assert tokenizer.vocab_size == 259
    assert len(tokenizer.encode("aaaa")) == 4


def test_saved_and_loaded_is_the_same(bpe, characters, tmp_path):
    for tokenizer in (bpe, characters, CharacterTokenizer(TEXTS, separator=" ")):
        tokenizer.save(tmp_path / "tokenizer.json")
        again = type(tokenizer).load(tmp_path / "tokenizer.json")
        assert again.vocab_size == tokenizer.vocab_size
        assert [again.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    bpe.save(tmp_path / "tokenizer.json")
    assert not {PAD, BOS, EOS} & set(BPETokenizer.load(tmp_path / "tokenizer.json").encode("<eos>"))


@pytest.mark.parametrize("kind", [CharacterTokenizer, BPETokenizer])
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "is empty"), (b"{", "is not a file"), (b"[1, 2]", "is not a file"), (b'"\xe9"', "is not UTF-8: line 1")],
)
def test_another_file_is_refused(kind, content, reason, tmp_path):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"t\.json {reason}"):
        kind.load(tmp_path / "t.json")


def test_a_tokenizer_with_other_special_tokens_is_refused(bpe, tmp_path):
    text = json.dumps(json.loads(bpe.tokenizer.to_str())).replace("<bos>", "<cls>")
    (tmp_path / "t.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"does not begin with <pad>, <bos>, <eos>"):
        BPETokenizer.load(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CharacterTokenizer("abc"), TypeError, r"texts is a string: expected several"),
        (lambda: CharacterTokenizer([b"abc"]), TypeError, r"text is b'abc': expected a string"),
        (lambda: CharacterTokenizer(["a"]).encode(["a"]), TypeError, r"text is \['a'\]: expected a string"),
        (lambda: train_bpe("abc", 300), TypeError, r"texts is a string"),
        (lambda: train_bpe(["abc"], 258), ValueError, r"vocab_size is 258: expected 259 or more"),
        (lambda: train_bpe(["abc"], 300.0), TypeError, r"vocab_size is 300\.0: expected an integer"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(DataUnavailable, match=r"tokenizers is not installed: install the extra `data`"):
        train_bpe(["abc"], 300)


def test_rows_are_filled_up():
    torch = pytest.importorskip("torch")
    tokens, keep = padded([[5, 6, 7], [], [8]])
    assert tokens.tolist() == [[5, 6, 7], [PAD] * 3, [8, PAD, PAD]]
    assert keep.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert (tokens.dtype, keep.dtype) == (torch.long, torch.bool)
    assert padded([[PAD, 4], [4]])[1].tolist() == [[True, True], [True, False]]  # by length, not by number
    assert [tuple(x.shape) for x in padded([[], []])] == [(2, 0)] * 2
    assert [tuple(x.shape) for x in padded([])] == [(0, 0)] * 2
