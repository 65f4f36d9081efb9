"""Relative positions: which slope, which bucket, which entry of a table belongs to a distance."""

import numpy as np

from mha.conformance.case import Part

NEAR = np.arange(-6, 7)
FAR = np.array([-1000, -16, 16, 1000])
SLOPES_OF_8 = 0.5 ** np.arange(1, 9)
SLOPES_OF_16 = 0.5 ** (np.arange(1, 17) / 2)


def slopes(num_heads, expected, *reports):
    """ALiBi's slopes; where the number of heads is no power of two, one series for all is a known other reading."""
    one_series = 2.0 ** (-8 * np.arange(1, num_heads + 1) / num_heads)
    return Part(
        name=f"slopes-of-{num_heads}-heads",
        report=reports[0] if reports else "",
        needs=frozenset({"alibi-slopes"}),
        run=lambda subject: subject.part("alibi-slopes", num_heads),
        expected=expected,
        conventions={"slopes-in-one-series": one_series} if np.log2(num_heads) % 1 else {},
    )


def buckets(name, distances, bidirectional, expected, report=""):
    """T5's buckets: 8 of them, the last from 16 on."""
    return Part(
        name=name,
        report=report,
        needs=frozenset({"distance-buckets"}),
        run=lambda subject: subject.part("distance-buckets", distances, 8, 16, bidirectional),
        expected=np.array(expected),
    )


def disentangled(subject, *, of_positions):
    """The terms of one head of width 1, span 2: contents are 1 on one side, and tables hold their own index."""
    index, ones, places = np.arange(4.0).reshape(1, 4, 1), np.ones((1, 1, 3, 1)), np.arange(3)
    by_keys = of_positions == "keys"
    contents, tables = (ones * by_keys, ones * (not by_keys)), (index * by_keys, index * (not by_keys))
    return subject.part("disentangled", *contents, *tables, places, places)[0, 0]


def index_case(name, of_positions, conventions, report=""):
    return Part(
        name=name,
        report=report,
        needs=frozenset({"disentangled"}),
        run=lambda subject: disentangled(subject, of_positions=of_positions),
        expected=np.array([[2.0, 1, 0], [3, 2, 1], [3, 3, 2]]),  # i − j + span, inside the table
        conventions=conventions,
    )


CASES = [
    slopes(8, SLOPES_OF_8),
    slopes(6, [*SLOPES_OF_8[1::2], SLOPES_OF_8[0], SLOPES_OF_8[2]], "NVIDIA/TensorRT-LLM#1611"),
    slopes(12, [*SLOPES_OF_8, *SLOPES_OF_16[:8:2]], "baichuan-inc/Baichuan2#225"),
    buckets(
        "buckets-of-both-directions",
        NEAR,
        True,
        [3, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 7],
        "huggingface/transformers#8518",
    ),
    buckets(
        "buckets-of-the-past", NEAR, False, [5, 4, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0], "huggingface/transformers#8518"
    ),
    buckets("far-distances-share-a-bucket", FAR, True, [3, 3, 7, 7]),
    buckets("the-far-past-shares-a-bucket", FAR, False, [7, 7, 0, 0]),
    index_case("a-query-meets-the-position-of-a-key", "keys", {}),
    index_case(
        "a-key-meets-the-position-of-a-query",
        "queries",
        {"distances-turned": np.array([[2.0, 3, 3], [1, 2, 3], [0, 1, 2]])},
        "microsoft/DeBERTa#162",
    ),
]
