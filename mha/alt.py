"""Sentences that say what a picture shows, computed from the numbers that it draws.

Each function has the name and the leading arguments of the one in `mha.plot`. Numbers are rounded so that noise in
the last bits changes no digit: ties, the likeliest boundary, always go the same way.
"""

import math

import numpy as np

from mha.text import say

NOISE = 1e-4  # relative; what differs by less is the same number seen on another machine
FLAT = 0.15  # a line whose values differ by less of the largest "stays between" them
ROWS = 8  # rows told one by one; of a larger picture only the clearest three


def percent(share):
    """Return `share` (0 … 1) in whole percent, with its sign."""
    return say("figures.names.percent", p=math.floor(100 * share * (1 + NOISE) + 0.5))


def number(x, digits=3):
    """Return `x` with `digits` significant digits, as prose writes it."""
    text = f"{x * (1 + 2 * 10 ** -(digits + 2)):.{digits}g}"
    if min(1e4, 10**digits) <= abs(float(text)) < 1e9:
        text = f"{float(text):,}".removesuffix(".0")
    return ("0" if x == 0 else text).replace("-", "−")


def weights(weights, *, queries=None, keys=None):
    """Say where each query looks."""
    weights = _numpy(weights)
    n_q, n_k = weights.shape
    sentences = [say("figures.weights.size", n_q=n_q, n_k=n_k)]
    if not weights.size:
        return sentences[0]
    top = weights.max(axis=1)
    told = range(n_q) if n_q <= ROWS else sorted(np.argsort(-_coarse(top), kind="stable")[:3])

    def row(i):
        if top[i] == 0:
            return say("figures.weights.empty_row", query=_query(i, queries))
        j = _argmax(weights[i])
        return say("figures.weights.row", query=_query(i, queries), percent=percent(top[i]), key=_key(j, keys))

    rows = say("figures.names.and").join(row(i) for i in told)
    sentences.append(say("figures.weights.rows" if n_q <= ROWS else "figures.weights.most", rows=rows))
    if n_q > ROWS:
        sentences.append(say("figures.weights.mean", percent=percent(top.mean())))
    return _capitalised(sentences)


def scores(scores, *, queries=None, keys=None):
    """Say which key each query scores highest, and how many pairs are hidden."""
    scores = _numpy(scores)
    n_q, n_k = scores.shape
    finite = np.isfinite(scores)
    if not finite.any():
        return say("figures.scores.nothing", n_q=n_q, n_k=n_k)
    low, high = scores[finite].min(), scores[finite].max()
    sentences = [say("figures.scores.size", n_q=n_q, n_k=n_k, low=number(low), high=number(high))]
    top = np.where(finite, scores, -np.inf).max(axis=1)
    told = [i for i in range(n_q) if finite[i].any()]
    if n_q > ROWS:
        told = sorted(sorted(told, key=lambda i: -_coarse(top)[i])[:3])

    def row(i):
        j = _argmax(np.where(finite[i], scores[i], -np.inf))
        return say("figures.scores.row", query=_query(i, queries), key=_key(j, keys), score=number(top[i]))

    sentences.append(say("figures.weights.rows", rows=say("figures.names.and").join(row(i) for i in told)))
    if not finite.all():
        sentences.append(say("figures.scores.hidden", hidden=int((~finite).sum())))
    return _capitalised(sentences)


def mask(mask, n_q=None, n_k=None, *, q_start=None, queries=None, keys=None):
    """Say which keys each query sees."""
    visible = np.asarray(mask.dense(n_q, n_k, q_start) if hasattr(mask, "dense") else mask)
    n_q, n_k = visible.shape
    told = range(n_q) if n_q <= ROWS else (0, n_q // 2, n_q - 1)

    def row(i):
        seen = np.flatnonzero(visible[i])
        if not seen.size:
            which = say("figures.mask.none")
        elif seen.size == 1:
            which = say("figures.mask.one", first=_name(seen[0], keys))
        else:
            ends = {"first": _name(seen[0], keys), "last": _name(seen[-1], keys)}
            whole = seen.size == seen[-1] - seen[0] + 1
            which = say("figures.mask.range", **ends) if whole else say("figures.mask.several", count=seen.size, **ends)
        return say("figures.mask.row", query=_query(i, queries), keys=which)

    size = say("figures.mask.size", n_q=n_q, n_k=n_k, visible=int(visible.sum()), total=visible.size)
    if not visible.size:
        return size
    return _capitalised([size, say("figures.weights.rows", rows=say("figures.names.and").join(map(row, told)))])


def lines(x, ys, *, x_label, digits=2):
    """Say how each line runs: from where to where, and through which extremes."""

    def line(label, y):
        y = np.asarray(y, dtype=np.float64)
        steps, largest = np.diff(y), np.abs(y).max()
        noise = 10.0**-digits * largest  # less than the digits told
        ends = {"start": number(y[0], digits), "end": number(y[-1], digits)}
        extremes = {"low": number(y.min(), digits), "high": number(y.max(), digits)}
        if np.ptp(y) <= noise:
            change = say("figures.lines.stays", start=ends["start"])
        elif np.ptp(y) <= FLAT * largest:
            change = say("figures.lines.stays_near", **extremes)
        elif (steps >= -noise).all() and y[-1] > y[0]:
            change = say("figures.lines.rises", **ends)
        elif (steps <= noise).all() and y[-1] < y[0]:
            change = say("figures.lines.falls", **ends)
        else:
            change = say("figures.lines.turns", **ends, **extremes)
        return say("figures.lines.line", label=label, change=change)

    count = say("figures.lines.one") if len(ys) == 1 else say("figures.lines.many", n=len(ys))
    size = say("figures.lines.size", count=count, x_label=x_label, first=number(x[0], 6), last=number(x[-1], 6))
    told = say("figures.names.and").join(line(label, y) for label, y in ys.items())
    return f"{size} {say('figures.weights.rows', rows=told)}"


def bars(labels, heights, *, y_label, digits=2):
    """Say the height of each bar, or of the highest and the lowest where there are many."""
    heights = np.asarray(heights, dtype=np.float64)
    sentences = [say("figures.bars.size", count=len(heights), y_label=y_label)]
    if len(heights) <= ROWS:
        told = [
            say("figures.bars.bar", label=a, height=number(b, digits)) for a, b in zip(labels, heights, strict=True)
        ]
        sentences.append(say("figures.weights.rows", rows=say("figures.names.and").join(told)))
    else:
        high, low = _argmax(heights), _argmax(-heights)
        ends = {"high": number(heights[high], digits), "low": number(heights[low], digits)}
        sentences.append(say("figures.bars.ends", high_label=labels[high], low_label=labels[low], **ends))
    return " ".join(sentences)


def head_grid(patterns, *, marked=None):
    """Say how many heads look at the first key, how many at the previous one, and which are framed."""
    patterns = _numpy(patterns)
    layers, heads, n_q, n_k = patterns.shape
    sizes = {"count": layers * heads, "layers": layers, "heads": heads, "n_q": n_q, "n_k": n_k}
    on_first = patterns[:, :, 1:, 0].mean(axis=-1)
    on_previous = np.diagonal(patterns, offset=-1, axis1=-2, axis2=-1).mean(axis=-1)
    sentences = [
        say("figures.head_grid.size", **sizes),
        say("figures.head_grid.first", count=int((on_first > 0.5).sum())),
        say("figures.head_grid.previous", count=int((on_previous > 0.5).sum())),
    ]
    if marked:
        told = [say("figures.head_grid.mark", label=label, head=h, layer=ell) for (ell, h), label in marked.items()]
        sentences.append(say("figures.head_grid.marked", heads=say("figures.names.and").join(told)))
    return " ".join(sentences)


def split_columns(array, num_heads):
    """Say which columns each head takes."""
    n, width = array.shape
    d_head = width // num_heads
    slices = [
        say("figures.split_columns.slice", h=h, first=h * d_head, last=(h + 1) * d_head - 1) for h in range(num_heads)
    ]
    slices = say("figures.names.and").join(slices)
    return say("figures.split_columns.size", n=n, width=width, heads=num_heads, d_head=d_head, slices=slices)


def _numpy(array):
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array, dtype=np.float64)


def _coarse(x):
    return np.round(x, 3)


def _argmax(x):
    """Return the first index whose value is the largest up to noise."""
    return int(np.flatnonzero(x >= x.max() - NOISE * np.abs(x.max()))[0])


def _name(index, labels):
    return str(index) if labels is None else say("figures.names.token", token=labels[index])


def _query(i, queries):
    return say("figures.names.query", i=_name(i, queries))


def _key(j, keys):
    return say("figures.names.key", j=j) if keys is None else _name(j, keys)


def _capitalised(sentences):
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)
