"""The table of conversions in the documentation is what the conversions do."""

from mha import masks
from mha.masks import causal, convert, dense, lengths, per_head, segments, window
from mha.masks.convert import conversions

LENGTH = 6
MASKS = [
    "causal",
    "window(2, 0)",
    "window(9, 9)",
    "causal & window(9, 0)",
    "lengths([4, 6])",
    "causal & lengths([4, 6])",
    "key_padding([[False] * 2 + [True] * 4])",
    "segments([0, 0, 1, 1, 1, 2])",
    "causal & segments([0, 0, 1, 1, 1, 2])",
    "prefix(3)",
    "causal | prefix(3)",
    "window(1, 1) | global_tokens([0])",
    "causal & strided(2)",
    "per_head([causal, window(1, 1)])",
    "~causal",
]


def rows():
    for text in MASKS:
        told = conversions(eval(text, vars(masks)), LENGTH, LENGTH)
        cells = ["not possible" if names is None else ", ".join(names) or "nothing" for names in told.values()]
        cells = [cell.replace(", max_seqlen_q, max_seqlen_k", "").replace("cu_seqlens_q, cu_", "cu_") for cell in cells]
        yield f"| `{text.replace('|', chr(92) + '|')}` | {' | '.join(cells)} |"


def test_the_table_in_the_documentation():
    written = [line for line in convert.__doc__.splitlines() if line.startswith("| `")]
    assert written == list(rows())


def test_conversions():
    told = conversions(causal & lengths([1, 3]), 2, 3, 0)
    assert told["sdpa"] == told["onnx"] == ["attn_mask"]
    assert told["torch_mha"] == ["attn_mask", "key_padding_mask"]
    assert told["flash"] is None  # one window cannot put both samples' queries at slot 0
    assert conversions(window(9, 9), 3, 3)["sdpa"] == []
    assert conversions(dense([[True, False]]), 1, 2)["flash"] is None
    assert conversions(per_head([causal, causal]), 3, 3)["flash"] is None
    assert conversions(segments([0, 1]), 2, 2)["flex"] == ["block_mask"]


if __name__ == "__main__":
    print("\n".join(rows()))
