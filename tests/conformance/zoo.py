"""One careful attention in NumPy, written apart from the package, and faults planted in it one at a time."""

import numpy as np


class Careful:
    """Attention in steps that a fault can replace."""

    def __call__(
        self,
        q,
        k,
        v,
        *,
        mask=None,
        bias=None,
        scale=None,
        softcap=None,
        sinks=None,
        causal=False,
        window=None,
        lengths=None,
    ):
        if k.shape[-2] != v.shape[-2] or (mask is not None and mask.ndim not in (2, 4)):
            raise ValueError("lengths or axes")
        num_heads, d_value = q.shape[1], v.shape[-1]
        q, k, v = self.entered(q), self.grouped(self.entered(k), num_heads), self.grouped(self.entered(v), num_heads)
        shape = (*q.shape[:-1], k.shape[-2])
        see = np.ones(shape, bool)
        for part in (
            self.shown(mask),
            self.aligned(causal, window, lengths, *shape[-2:]),
            self.valid(lengths, shape[-1]),
        ):
            see = see & part
        see = self.intersected(see, mask, causal)
        scale = self.scale(scale, q.shape[-1], d_value)
        scores = self.scores(self.products(q, k), scale, softcap, bias)
        scores = self.hidden(scores, see if bias is None else see & (bias != -np.inf))
        return self.mixed(self.weights(scores, None if sinks is None else self.sink(sinks, scale)), v, scores > -np.inf)

    def entered(self, x):
        return x.astype(np.float64)

    def grouped(self, x, num_heads):
        return np.repeat(x, num_heads // x.shape[1], 1) if num_heads % x.shape[1] == 0 else x

    def shown(self, mask):
        return True if mask is None else mask.astype(bool)

    def aligned(self, causal, window, lengths, n_q, n_k):
        last = n_k if lengths is None else lengths.astype(int)[:, None, None, None]
        i, j = self.first(n_q, last) + np.arange(n_q)[:, None], np.arange(n_k)
        see = (j <= i) if causal else np.ones_like(j <= i)
        if self.has_window(window):
            see = see & (j >= i - self.left(window)) & (j <= i + window[1])
        return see

    def first(self, n_q, n_k):
        return n_k - n_q

    def has_window(self, window):
        return window is not None

    def left(self, window):
        return window[0]

    def valid(self, lengths, n_k):
        return True if lengths is None else (np.arange(n_k) < lengths[:, None])[:, None, None]

    def intersected(self, see, mask, causal):
        return see

    def scale(self, scale, d, d_value):
        return d**-0.5 if scale is None else scale

    def products(self, q, k):
        return np.einsum("bhid,bhjd->bhij", q, k)

    def scores(self, products, scale, softcap, bias):
        scores = products * scale
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        return scores if bias is None else scores + bias

    def hidden(self, scores, see):
        return np.where(see, scores, -np.inf)

    def sink(self, sinks, scale):
        return sinks

    def weights(self, scores, sinks):
        rows = scores
        if sinks is not None:
            rows = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))], -1)
        top = rows.max(-1, keepdims=True, initial=-np.inf)
        exponentials = np.exp(rows - np.where(top == -np.inf, 0.0, top))
        total = exponentials.sum(-1, keepdims=True)
        return (exponentials / np.where(total == 0, 1.0, total))[..., : scores.shape[-1]]

    def mixed(self, weights, v, see):
        terms = np.where(see[..., None], weights[..., None] * v[..., None, :, :], 0.0)
        return terms.sum(-2)


def fault(case, **steps):
    """Return the case that names the fault, and the attention with these steps replaced."""
    name = "_".join(steps)
    return case, type(name, (Careful,), steps)()


def plain_softmax(self, scores, sinks):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(-1, keepdims=True)


def nan_in_empty_rows(self, scores, sinks):
    empty = (scores == -np.inf).all(-1, keepdims=True)
    return np.where(empty, np.nan, Careful.weights(self, scores, sinks))


def sink_without_a_maximum(self, scores, sinks):
    extra = 0 if sinks is None else np.exp(sinks[:, None, None])
    exponentials = np.exp(scores)
    return exponentials / (exponentials.sum(-1, keepdims=True) + extra)


def over_queries(self, scores, sinks):
    return np.swapaxes(Careful.weights(self, np.swapaxes(scores, -1, -2), None), -1, -2)


def mean_of_empty_rows(self, scores, sinks):
    empty = (scores == -np.inf).all(-1, keepdims=True)
    return Careful.weights(self, np.where(empty, 0.0, scores), sinks)


def capped_last(self, scores, see):
    return 5.0 * np.tanh(np.where(see, scores, -np.inf) / 5.0)


def bias_inside_the_cap(self, products, scale, softcap, bias):
    scores = products * scale + (0 if bias is None else bias)
    return scores if softcap is None else softcap * np.tanh(scores / softcap)


def cap_before_the_scale(self, products, scale, softcap, bias):
    scores = products if softcap is None else softcap * np.tanh(products / softcap)
    return scores * scale + (0 if bias is None else bias)


def in_half(self, q, k):
    return np.einsum("bhid,bhjd->bhij", q.astype(np.float16), k.astype(np.float16))


def written_over(self, x):
    before = x.astype(np.float64)
    x *= 2
    return before


def tiled_over_heads(self, mask):
    if mask is None or mask.ndim < 4 or mask.shape[0] == 1:
        return Careful.shown(self, mask)
    batch = mask.shape[0]
    flat = np.tile(mask[:, 0], (2, 1, 1)) if mask.shape[1] == 1 else mask.reshape(-1, *mask.shape[2:])
    return flat.reshape(batch, -1, *mask.shape[2:])


def on_the_query_axis(self, mask):
    if mask is not None and mask.ndim == 4 and mask.shape[2] == 1 and mask.shape[1] == 1 and mask.shape[3] > 2:
        return np.swapaxes(mask, -1, -2)
    return Careful.shown(self, mask)


def rows_share_a_maximum(self, scores, sinks):
    """One maximum for the whole array."""
    shown = scores[np.isfinite(scores)]
    exponentials = np.exp(scores - shown.max(initial=-np.inf)) if shown.size else np.zeros_like(scores)
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total == 0, 1.0, total)


def tiles(width, *, rescale=True, empty_first=True, ragged=True):
    """Softmax over tiles of keys, with faults."""

    def weights(self, scores, sinks):
        top, total, parts = np.full((*scores.shape[:-1], 1), -np.inf), 0.0, []
        for start in range(0, scores.shape[-1], width):
            tile = scores[..., start : start + width]
            if start and tile.shape[-1] < width and not ragged:
                tile = np.full_like(tile, -np.inf)
            new = np.maximum(top, tile.max(-1, keepdims=True))
            steady = np.where(new == -np.inf, 0.0, new) if empty_first else new
            factor, exponentials = np.exp(top - steady), np.exp(tile - steady)
            total = (total * factor if rescale else total) + exponentials.sum(-1, keepdims=True)
            parts, top = [part * factor for part in parts] + [exponentials], new
        return np.concatenate(parts, -1) / np.where(total == 0, 1.0, total)

    return weights


def sample_and_group_swapped(self, x, num_heads):
    batch, groups = x.shape[:2]
    if num_heads % groups:
        return x
    return np.repeat(x[:, :, None], num_heads // groups, 2).swapaxes(0, 1).reshape(batch, num_heads, *x.shape[2:])


def sinks_by_key_head(self, sinks, scale):
    return np.tile(sinks[: len(sinks) // 2], 2) if len(sinks) == 4 else sinks


def bias_by_sample(self, products, scale, softcap, bias):
    apart = bias is not None and bias.ndim == 3
    return Careful.scores(self, products, scale, softcap, bias[:, None] if apart else bias)


def bias_in_place(self, products, scale, softcap, bias):
    scores = Careful.scores(self, products, scale, softcap, bias)
    if bias is not None:
        bias += 1
    return scores


FAULTS = {
    "the mask is inverted": fault("true-attends", shown=lambda self, m: True if m is None else ~m.astype(bool)),
    "the mask is ignored": fault("rows-differ", shown=lambda self, m: True),
    "one row of the mask serves all": fault(
        "rows-differ", shown=lambda self, m: True if m is None else m.astype(bool)[..., :1, :]
    ),
    "masks are tiled over heads": fault("masks-of-samples-stay-apart", shown=tiled_over_heads),
    "padding lies on the query axis": fault("padding-lies-on-the-key-axis", shown=on_the_query_axis),
    "key heads are tiled": fault(
        "groups-are-contiguous", grouped=lambda self, x, h: np.tile(x, (1, h // x.shape[1], 1, 1))
    ),
    "the scale is missing": fault("the-default-scale", scale=lambda self, s, d, e: 1.0 if s is None else s),
    "the scale is 1/d": fault("the-default-scale", scale=lambda self, s, d, e: 1 / d if s is None else s),
    "the scale goes by the values": fault(
        "the-scale-goes-by-key-width", scale=lambda self, s, d, e: e**-0.5 if s is None else s
    ),
    "a scale of 0 is the default": fault("a-scale-of-zero", scale=lambda self, s, d, e: s or d**-0.5),
    "a small number stands for −∞": fault("hidden-below-any-score", hidden=lambda self, s, see: np.where(see, s, -1e9)),
    "the smallest number stands for −∞": fault(
        "an-empty-row-gives-zero", hidden=lambda self, s, see: np.where(see, s, np.finfo(float).min)
    ),
    "an empty row is the mean": fault(
        "an-empty-causal-row-sees-no-future", weights=mean_of_empty_rows, mixed=lambda self, w, v, see: w @ v
    ),
    "an empty row is NaN": fault(
        "a-sample-of-padding-gives-zero", weights=nan_in_empty_rows, mixed=lambda self, w, v, see: w @ v
    ),
    "exp without a maximum": fault("large-scores-do-not-overflow", weights=plain_softmax),
    "softmax over the queries": fault("equal-values-come-out", weights=over_queries),
    "the mask is added": fault("hidden-below-any-score", hidden=lambda self, s, see: s + np.where(see, 0.0, -1e9)),
    "0 · NaN": fault("nan-in-a-hidden-value", mixed=lambda self, w, v, see: w @ v),
    "NaN is covered up": fault(
        "a-visible-nan-shows", mixed=lambda self, w, v, see: np.nan_to_num(Careful.mixed(self, w, v, see))
    ),
    "causal from the upper left": fault("fewer-queries-than-keys", first=lambda self, n_q, n_k: 0),
    "causal hides the diagonal": fault("causal-square", first=lambda self, n_q, n_k: n_k - n_q - 1),
    "causal lifts the mask": fault(
        "causal-and-mask-intersect",
        intersected=lambda self, see, mask, causal: np.tri(*see.shape[-2:], dtype=bool) & True if causal else see,
    ),
    "a window counts the query": fault("a-window-counts-the-keys-before", left=lambda self, window: window[0] - 1),
    "a window of 0 is none": fault(
        "a-window-of-zero-is-the-diagonal", has_window=lambda self, window: window is not None and window[0] > 0
    ),
    "the cap comes last": fault("the-cap-comes-before-the-mask", hidden=capped_last),
    "the bias is capped": fault("the-cap-comes-before-the-bias", scores=bias_inside_the_cap),
    "the cap comes first": fault("the-cap-comes-after-the-scale", scores=cap_before_the_scale),
    "the bias is scaled": fault(
        "a-bias-is-not-scaled", scores=lambda self, p, scale, cap, bias: (p + (0 if bias is None else bias)) * scale
    ),
    "a sink without a maximum": fault("scores-outweigh-the-sink", weights=sink_without_a_maximum),
    "the sink is lost": fault("a-sink-takes-its-share", weights=lambda self, s, sinks: Careful.weights(self, s, None)),
    "the sink is scaled": fault("a-sink-is-not-scaled", sink=lambda self, sinks, scale: sinks * scale),
    "all heads share a sink": fault(
        "each-head-has-its-sink", sink=lambda self, sinks, scale: np.full_like(sinks, sinks[0])
    ),
    "products in half precision": fault("half-precision-does-not-overflow", products=in_half),
    "a length of 0 is one key": fault(
        "lengths-of-samples",
        valid=lambda self, n, n_k: True if n is None else (np.arange(n_k) < n.clip(1)[:, None])[:, None, None],
    ),
    "inputs are written over": fault("inputs-are-not-written-to", entered=written_over),
    "the batch is averaged": fault(
        "samples-do-not-mix",
        mixed=lambda self, w, v, see: Careful.mixed(self, w, v.mean(0, keepdims=True) + 0 * v, see),
    ),
    "rows share a maximum": fault("rows-have-their-own-maximum", weights=rows_share_a_maximum),
    "tiles are not rescaled": fault("a-large-score-comes-last", weights=tiles(128, rescale=False)),
    "the ragged tile is dropped": fault("a-large-score-comes-last", weights=tiles(128, ragged=False)),
    "an empty first tile is NaN": fault("many-hidden-keys-come-first", weights=tiles(128, empty_first=False)),
    "sixteen queries share a row of the mask": fault(
        "every-row-of-many-has-its-mask",
        shown=lambda self, m: True if m is None else np.repeat(m[..., ::16, :], 16, -2)[..., : m.shape[-2], :] > 0,
    ),
    "positions in eight bits": fault(
        "every-row-of-many-is-causal",
        aligned=lambda self, causal, window, lengths, n_q, n_k: (
            np.arange(n_k).astype(np.int8) <= np.arange(n_q)[:, None] if causal else True
        ),
    ),
    "samples and groups change places": fault("groups-of-each-sample", grouped=sample_and_group_swapped),
    "sinks go by key head": fault("a-sink-goes-by-query-head", sink=sinks_by_key_head),
    "integers are inverted bit by bit": fault(
        "integers-are-no-mask", shown=lambda self, m: True if m is None else m if m.dtype == bool else ~m == 0
    ),
    "a bias of three axes is one of samples": fault("a-bias-of-three-axes-goes-by-head", scores=bias_by_sample),
    "a bias of one column is read as a row": fault(
        "a-bias-of-one-column-changes-nothing",
        scores=lambda self, p, scale, cap, bias: Careful.scores(self, p, scale, cap, None if bias is None else bias.T),
    ),
    "the bias is written to": fault("a-bias-is-not-written-to", scores=bias_in_place),
    "the window goes by the slots": fault(
        "a-window-ends-at-the-last-valid-key",
        aligned=lambda self, causal, window, lengths, n_q, n_k: Careful.aligned(self, causal, window, None, n_q, n_k),
    ),
    "slots beyond the length are weighed": fault(
        "nan-beyond-the-length", mixed=lambda self, weights, v, see: weights @ v
    ),
    "a mask lifts the window": fault(
        "a-window-and-a-mask-intersect",
        intersected=lambda self, see, mask, causal: see if mask is None else np.broadcast_to(mask > 0, see.shape),
    ),
    "a mask lifts the lengths": fault(
        "lengths-and-a-mask-intersect",
        intersected=lambda self, see, mask, causal: see if mask is None else np.broadcast_to(mask > 0, see.shape),
    ),
    "a given scale reaches the bias": fault(
        "a-given-scale-leaves-the-bias-alone",
        scores=lambda self, p, scale, cap, bias: Careful.scores(
            self, p, scale, cap, None if bias is None else bias * scale
        ),
    ),
    "integers are cut": fault(
        "integers-are-not-rounded",
        mixed=lambda self, w, v, see: (
            np.trunc(Careful.mixed(self, w, v, see)) if (v == np.trunc(v)).all() else Careful.mixed(self, w, v, see)
        ),
    ),
}
