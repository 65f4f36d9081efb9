"""The one place that checks the arguments of attention and raises. It serves NumPy and torch, and imports no torch."""

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from mha import masks
from mha.dropout import Dropout
from mha.integers import count, integer, is_integral


class Call(NamedTuple):
    """What a checked call amounts to: its sizes, and its options with every default filled in."""

    batch_shape: tuple[int, ...]  # the leading axes of q, k and v, broadcast
    num_heads: int
    num_kv_heads: int
    n_q: int
    n_k: int
    mask: masks.Mask | None
    q_start: Any  # an int, or one integer per sample
    scale: float
    softcap: float | None
    dropout: Dropout | None

    @property
    def batch(self):
        return math.prod(self.batch_shape)

    @property
    def weights_shape(self):
        return *self.batch_shape, self.num_heads, self.n_q, self.n_k


def check(q, k, v=..., *, mask=None, bias=None, scale=None, softcap=None, sinks=None, q_start=None, dropout=None):
    """Raise unless the arguments make a call of attention; return the `Call`. Without values, leave out `v`."""
    arrays = {"q": q, "k": k} | ({} if v is ... else {"v": v})
    for name, x in arrays.items():
        _check_float(name, x)
        if x.ndim < 3:
            raise ValueError(
                f"{name} has shape {_shape(x)}: expected (…, heads, length, width); x[None] adds a head axis"
            )
    options = {name: x for name, x in (("bias", bias), ("sinks", sinks)) if x is not None}
    for name, x in options.items():
        _check_float(name, x)
    mask = None if mask is None else masks.as_mask(mask)
    check_library(**arrays, **options)
    if isinstance(q, np.ndarray):
        _check_tables(q, mask, q_start)

    *q_batch, num_heads, n_q, d_q = _shape(q)
    *k_batch, num_kv_heads, n_k, d_k = _shape(k)
    batches = {"q": q_batch, "k": k_batch}
    if d_q != d_k:
        raise ValueError(f"k has width {d_k} and q has width {d_q}: the widths of queries and keys must be equal")
    if "v" in arrays:
        *batches["v"], heads_v, n_v, _ = _shape(v)
        if heads_v != num_kv_heads:
            raise ValueError(f"v has {heads_v} heads and k has {num_kv_heads}: every key head needs its value head")
        if n_v != n_k:
            raise ValueError(f"v has length {n_v} and k has length {n_k}: every key needs its value")
    check_groups(num_heads, num_kv_heads, wording="k has {} heads and q has {}")
    batch_shape = broadcast(*batches.values())
    if batch_shape is None:
        got = ", ".join(f"{name} {tuple(axes)}" for name, axes in batches.items())
        raise ValueError(f"the leading axes do not broadcast: {got}; expected equal sizes, or 1")

    call = Call(
        batch_shape=batch_shape,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        n_q=n_q,
        n_k=n_k,
        mask=mask,
        q_start=_query_start(mask, n_q, n_k, q_start, batch_shape),
        scale=d_k**-0.5 if scale is None and d_k else 1.0 if scale is None else _number("scale", scale),
        softcap=None if softcap is None else _number("softcap", softcap),
        dropout=_dropout(dropout),
    )
    if mask is not None:
        mask.check(n_q, n_k, call.batch, num_heads)
    if call.softcap is not None and call.softcap <= 0:
        raise ValueError(f"softcap is {softcap}: expected a positive number, or None for no cap")
    if bias is not None:
        _check_broadcast("bias", bias, call.weights_shape)
    if sinks is not None and _shape(sinks) != (num_heads,):
        raise ValueError(f"sinks has shape {_shape(sinks)}: expected ({num_heads},), one logit per query head")
    return call


def visible(call, *, rows=slice(None), arange=np.arange, table=np.asarray):
    """Return which pairs the mask of a call shows: None for all, else what broadcasts to `call.weights_shape`."""
    if call.mask is None:
        return None
    see = masks.visible(
        call.mask,
        call.n_q,
        call.n_k,
        start=call.q_start,
        batch=call.batch,
        num_heads=call.num_heads,
        rows=rows,
        arange=arange,
        table=table,
    )
    if see.ndim == 2:
        return see
    return see[0] if see.shape[0] == 1 else see.reshape(*call.batch_shape, *see.shape[1:])


def broadcast(*shapes):
    """Return the common shape, or None if there is none. Plain Python, so that torch can trace it."""
    rank = max(map(len, shapes))
    common = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            if size != 1 and common[axis] != 1 and common[axis] != size:
                return None
            common[axis] = size if common[axis] == 1 else common[axis]
    return tuple(common)


def fits(shape, target):
    """Tell whether a shape broadcasts to another, axis by axis: torch traces no comparison of tuples of sizes."""
    axes = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(size == wanted or size == 1 for size, wanted in axes)


def check_groups(num_heads, num_kv_heads, *, wording="num_kv_heads is {} and num_heads is {}"):
    """Raise unless every key head serves as many query heads."""
    if num_heads < 1 or num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"{wording.format(num_kv_heads, num_heads)}: query heads must be a multiple of key heads")


def check_heads(d_model, num_heads, *, name="d_model"):
    """Raise unless a width splits into heads of equal width."""
    num_heads = integer("num_heads", num_heads)
    if num_heads < 1 or d_model % num_heads:
        rest = f", remainder {d_model % num_heads}" if num_heads > 0 else ""
        raise ValueError(f"{name} is {d_model} and num_heads is {num_heads}{rest}: heads must split the width evenly")


def check_input(name, x, width):
    """Raise unless a module's input has the width it was built for."""
    _check_float(name, x)
    if x.ndim < 2 or x.shape[-1] != width:
        raise ValueError(f"{name} has shape {_shape(x)}: expected (batch, length, {width}), batch first")


def check_rank(name, x, expected):
    """Raise unless an array has the axes that `expected` names after any number of others."""
    if x.ndim < len(expected):
        raise ValueError(f"{name} has shape {_shape(x)}: expected (…, {', '.join(expected)})")


def check_shape(name, x, expected):
    if _shape(x) != tuple(expected):
        raise ValueError(f"{name} has shape {_shape(x)}: expected {tuple(expected)}")


def check_projection(name, x, weight_name, weight, bias=None):
    """Raise unless x W + b can be formed, with W of shape (d_in, d_out)."""
    check_rank(name, x, ("length", "width"))
    if weight.ndim != 2 or weight.shape[0] != x.shape[-1]:
        hint = "; torch's Linear stores the transpose" if x.shape[-1] in _shape(weight) else ""
        raise ValueError(f"{weight_name} has shape {_shape(weight)}: expected ({x.shape[-1]}, d_out) for {name}{hint}")
    if bias is not None and _shape(bias) != _shape(weight)[1:]:
        raise ValueError(f"the bias beside {weight_name} has shape {_shape(bias)}: expected {_shape(weight)[1:]}")


def check_biases(biases, of):
    """Raise unless there is one bias, or None, for each projection."""
    if not isinstance(biases, (tuple, list)) or len(biases) != len(of):
        got = f"has {len(biases)} entries" if hasattr(biases, "__len__") else f"is a {type(biases).__name__}"
        raise ValueError(f"biases {got}: expected {len(of)}, those of {', '.join(of)}; None where there is none")


def check_sinusoid(d_model, base, layout, *, axes=1):
    """Raise unless a width splits into pairs of a sine and a cosine, as many for each axis of the positions."""
    if layout not in ("interleaved", "half"):
        raise ValueError(
            f"layout is {layout!r}: expected 'interleaved' (pairs 2c, 2c + 1) or 'half' (c, c + d_model/2)"
        )
    if integer("d_model", d_model) < 2 or d_model % (2 * axes):
        of_each = "" if axes == 1 else f" for each of {axes} axes"
        raise ValueError(
            f"d_model is {d_model}: expected a multiple of {2 * axes}, pairs of a sine and a cosine{of_each}"
        )
    if _number("base", base) <= 0:
        raise ValueError(f"base is {base}: expected a positive number")


def check_places(name, positions):
    """Raise unless each position is a row and a column."""
    if not _shape(positions) or positions.shape[-1] != 2:
        raise ValueError(f"{name} has shape {_shape(positions)}: expected (…, 2), a row and a column for each place")


def check_in_table(first, last, count):
    """Raise unless a table of `count` rows has one for each position from the first to the last."""
    if first < 0 or last >= count:
        outside = first if first < 0 else last
        raise ValueError(
            f"positions hold {outside}: expected 0 to {count - 1}, the rows of the table; sinusoids have no end"
        )


def check_rotary(x, positions, layout, width=None):
    """Raise unless the first `width` coordinates of x (…, heads, length, d) can be turned by these positions."""
    _check_float("x", x)
    if layout not in ("half", "interleaved"):
        raise ValueError(f"layout is {layout!r}: expected 'half' (pairs m, m + d/2) or 'interleaved' (2m, 2m + 1)")
    if x.ndim < 3 or (width is None and x.shape[-1] % 2):
        raise ValueError(f"x has shape {_shape(x)}: expected (…, heads, length, width) with an even width")
    if width is not None and (width % 2 or not 0 < width <= x.shape[-1]):  # numbers, as a graph may have them
        raise ValueError(f"width is {width}: expected an even number above 0 and at most {x.shape[-1]}, that of a head")
    if not hasattr(positions, "dtype") or not is_integral(positions):
        got = f"dtype {positions.dtype}" if hasattr(positions, "dtype") else f"type {type(positions).__name__}"
        raise TypeError(f"positions has {got}: expected an array of integers")
    check_library(x=x, positions=positions)
    *batch, _, n, _ = _shape(x)
    expected = *batch, n
    if not _shape(positions) or positions.shape[-1] != n or not fits(_shape(positions), expected):
        raise ValueError(f"positions has shape {_shape(positions)}: expected ({n},), or one row per sample {expected}")


def check_turned(width, d_head=None, *, least=2):
    """Raise unless so many coordinates of a head make pairs that turn."""
    width = integer("width", width)
    if width < least or width % 2 or (d_head is not None and width > d_head):
        most = "" if d_head is None else f" and at most {d_head}, that of a head"
        raise ValueError(f"width is {width}: expected an even number above 0{most}")


def check_frequencies(frequencies, width, wording="x has width"):
    """Raise unless there is one frequency for each pair of the coordinates that turn."""
    if 2 * len(frequencies) != width:
        raise ValueError(
            f"{wording} {width}: expected {2 * len(frequencies)}, a pair a frequency; width= says that only the "
            "first coordinates turn"
        )


def check_spectrum(frequencies):
    """Raise unless pairs turn slower and slower, as those of a base do."""
    values = [float(x) for x in frequencies]
    if len(values) < 2 or not 0 < values[-1] < values[0]:
        got = f"go from {values[0]:.4g} to {values[-1]:.4g}" if values else "are none"
        raise ValueError(f"frequencies {got}: expected at least two, the fastest first, above 0")


def check_positive(**numbers):
    """Raise unless all of these are positive numbers."""
    for name, value in numbers.items():
        if _number(name, value) <= 0:
            raise ValueError(f"{name} is {value}: expected a positive number")


def check_ramp(slow, fast):
    """Raise unless the numbers of turns at the ends of a ramp are in order."""
    if not 0 < _number("slow", slow) < _number("fast", fast):
        raise ValueError(f"slow is {slow} and fast is {fast}: expected 0 < slow < fast, turns in training")


def check_distances(name, table):
    """Raise unless a table has a row for each distance from −K to K."""
    if len(_shape(table)) != 2 or table.shape[0] % 2 == 0:
        raise ValueError(f"{name} has shape {_shape(table)}: expected (2K + 1, width), for the distances −K to K")


def check_disentangled(q, position_keys, position_queries):
    """Raise unless these are tables of 2s rows for each head of q."""
    num_heads, width = q.shape[-3], q.shape[-1]
    for name, table in (("position_keys", position_keys), ("position_queries", position_queries)):
        rows = table.shape[1] if len(_shape(table)) == 3 else 0
        if rows % 2 or not rows or _shape(table) != (num_heads, rows, width):
            raise ValueError(f"{name} has shape {_shape(table)}: expected ({num_heads}, 2s, {width}), a table a head")
    check_shape("position_queries", position_queries, _shape(position_keys))


def check_log_buckets(span, max_distance):
    """Raise unless distances up to `max_distance` have fewer rows than they are, some of them to share."""
    if max_distance is None:
        return
    if not (span >= 4 and span % 2 == 0 and integer("max_distance", max_distance) > span // 2 + 1):
        raise ValueError(
            f"span is {span} and max_distance is {max_distance}: expected an even span of at least 4 and a "
            "max_distance of more than span/2 + 1, for the distances in between to share rows"
        )


def check_buckets(num_buckets, max_distance, bidirectional):
    """Raise unless in each direction some buckets hold one distance, and others what is left below `max_distance`."""
    least = 4 if bidirectional else 2
    exact = count("num_buckets", num_buckets, least=least) // least
    count("max_distance", max_distance, least=exact + 1)


def check_contents(q_positions, k_positions, q, k=None):
    """Raise unless there is a position for each row of q and of k, and q can meet k."""
    for name, x, positions in (("q", q, q_positions), ("k", k, k_positions)):
        if x is None:
            continue
        check_rank(name, x, ("heads", "length", "width"))
        if positions.shape[-1] != x.shape[-2]:
            got = f"{name}_positions has shape {_shape(positions)}"
            raise ValueError(f"{got}: expected (…, {x.shape[-2]}), a position for each row of {name}")
    if k is not None and k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k has width {k.shape[-1]} and q has {q.shape[-1]}: expected one width")


def check_grid(grid):
    """Raise unless these are the vectors of the places of a grid, one at least."""
    if len(_shape(grid)) != 3 or 0 in _shape(grid):
        raise ValueError(f"grid has shape {_shape(grid)}: expected (rows, columns, width), 1 or more of each")


def check_window(window):
    """Return the rows and the columns of a window, or raise."""
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise ValueError(f"window is {window!r}: expected (rows, columns)")
    return tuple(count(f"window[{axis}]", size, least=1) for axis, size in enumerate(window))


def check_in_window(name, first, last, rows, columns):
    """Raise unless the positions from the first to the last are in a window of rows and columns."""
    if first < 0 or last >= rows * columns:
        raise ValueError(
            f"{name} reach from {first} to {last}: expected 0 to {rows * columns - 1}, "
            f"the places of a window of {rows} × {columns}"
        )


def check_latent(q, q_rope, latent, k_rope, w_k, w_v):
    """Raise unless these make a call of latent attention."""
    check_rank("q", q, ("heads", "length", "width"))
    check_rank("latent", latent, ("length", "width"))
    check_shape("q_rope", q_rope, (*_shape(q)[:-1], q_rope.shape[-1]))
    check_shape("k_rope", k_rope, (*_shape(latent)[:-1], q_rope.shape[-1]))
    num_heads, d_latent, d_head = q.shape[-3], latent.shape[-1], q.shape[-1]
    check_shape("w_k", w_k, (num_heads, d_latent, d_head))
    check_shape("w_v", w_v, (num_heads, d_latent, w_v.shape[-1]))


LINEAR_AXES = {
    "state": ("heads", "key width", "value width"),
    "log_decay": ("heads", "length"),
    "log_gate": ("heads", "length", "key width"),
    "beta": ("heads", "length"),
}


def linear_sizes(q, v):
    """Return the sizes of the last axes of everything that a call of linear attention takes, behind the heads."""
    n, d, e = q.shape[-2], q.shape[-1], v.shape[-1]
    rows, by_token = {"q": (n, d), "k": (n, d), "v": (n, e)}, {"log_decay": (n,), "log_gate": (n, d), "beta": (n,)}
    return rows | by_token | {"state": (d, e)}


def check_linear(q, k, v, state=None, log_decay=None, **by_token):
    """Raise unless these make a call of linear attention; return its leading axes, the heads among them."""
    options = {"state": state, "log_decay": log_decay} | by_token
    options = {name: x for name, x in options.items() if x is not None}
    for name, x in {"q": q, "k": k, "v": v, **options}.items():
        _check_float(name, x)
        check_rank(name, x, LINEAR_AXES.get(name, ("heads", "length", "width")))
    check_library(q=q, k=k, v=v, **options)
    sizes = linear_sizes(q, v)
    (n, d), (_, e) = sizes["q"], sizes["v"]
    if k.shape[-1] != d:
        raise ValueError(f"k has width {k.shape[-1]} and q has width {d}: the widths of queries and keys must be equal")
    for name, x in {"k": k, "v": v}.items():
        if x.shape[-2] != n:
            raise ValueError(f"{name} has length {x.shape[-2]} and q has length {n}: every token has all three")
    if state is not None and _shape(state)[-2:] != (d, e):
        raise ValueError(f"state has shape {_shape(state)}: expected (…, heads, {d}, {e}), key width by value width")
    for name in options.keys() - {"state"}:
        _check_by_token(name, options[name], sizes[name])
    axes = {name: _shape(x)[: -len(sizes[name])] for name, x in {"q": q, "k": k, "v": v, **options}.items()}
    lead = broadcast(*axes.values())
    if lead is None:
        got = ", ".join(f"{name} {shape}" for name, shape in axes.items())
        raise ValueError(
            f"the axes before the length do not broadcast: {got}; groups of heads need an axis of their own"
        )
    return lead


def _check_by_token(name, x, size):
    if not fits(_shape(x)[-len(size) :], size):
        one = "1 for all tokens" if len(size) == 1 else "1 for all tokens or all channels"
        raise ValueError(f"{name} has shape {_shape(x)}: expected (…, heads, {', '.join(map(str, size))}), or {one}")


def check_state_space(x, dt, A, B, C, D=None):
    """Raise unless these make a call of a selective state space: x (…, h, n, e), B and C (…, g, n, d)."""
    axes = {"x": ("heads", "length", "width"), "dt": ("heads", "length"), "A": ("heads",)}
    axes |= {"B": ("groups", "length", "width"), "C": ("groups", "length", "width")}
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C}
    for name, one in given.items():
        _check_float(name, one)
        check_rank(name, one, axes[name])
    check_library(**given | ({} if D is None else {"D": D}))
    num_heads, n = x.shape[-3:-1]
    for name, one in {"A": A, "D": D}.items():
        if one is not None and _shape(one) != (num_heads,):
            raise ValueError(f"{name} has shape {_shape(one)}: expected ({num_heads},), one number per head of x")
    if not fits(_shape(dt)[-2:], (num_heads, n)):
        raise ValueError(f"dt has shape {_shape(dt)}: expected (…, {num_heads}, {n}), one step per head and token")
    for name, one in {"B": B, "C": C}.items():
        if one.shape[-2] != n:
            raise ValueError(f"{name} has length {one.shape[-2]} and x has length {n}: every token has all of them")
        check_groups(num_heads, one.shape[-3], wording=f"{name} has {{}} heads and x has {{}}")
    if B.shape[-1] != C.shape[-1]:
        raise ValueError(f"B has width {B.shape[-1]} and C has width {C.shape[-1]}: the widths must be equal")


def check_selective_scan(x, dt, A, B, C, D=None, state=None):
    """Raise unless these make a call of a selective scan, x and dt (…, c, n), A (c, s), B and C (…, n, s).

    Return the axes before those.
    """
    axes = {"x": ("channels", "length"), "dt": ("channels", "length"), "A": ("channels", "state")}
    axes |= {"B": ("length", "state"), "C": ("length", "state"), "D": ("channels",), "state": ("channels", "state")}
    given = {"x": x, "dt": dt, "A": A, "B": B, "C": C, "D": D, "state": state}
    given = {name: one for name, one in given.items() if one is not None}
    for name, one in given.items():
        _check_float(name, one)
        check_rank(name, one, axes[name])
    check_library(**given)
    (channels, n), width = x.shape[-2:], A.shape[-1]
    sizes = {"dt": (channels, n), "A": (channels, width), "B": (n, width), "C": (n, width)}
    sizes |= {"D": (channels,), "state": (channels, width)}
    for name in [name for name in sizes if name in given]:
        one, last = given[name], sizes[name]
        if _shape(one)[-len(last) :] != last or (name in "AD" and one.ndim > len(last)):
            expected = str(last) if name in "AD" else f"(…, {last[0]}, {last[1]})"
            raise ValueError(
                f"{name} has shape {_shape(one)}: expected {expected}, "
                f"for x has {channels} channels and {n} tokens and A has {width} numbers a channel"
            )
    batches = {name: _shape(one)[:-2] for name, one in given.items() if name not in "AD"}
    lead = broadcast(*batches.values())
    if lead is None:
        got = ", ".join(f"{name} {shape}" for name, shape in batches.items())
        raise ValueError(f"the axes before the channels do not broadcast: {got}")
    return lead


def check_convolution(x, weight, bias=None, state=None):
    """Raise unless these make a call of a causal convolution: x (…, c, n) and weight (c, w)."""
    given = {"x": x, "weight": weight, "bias": bias, "state": state}
    given = {name: one for name, one in given.items() if one is not None}
    for name, one in given.items():
        _check_float(name, one)
    check_rank("x", x, ("channels", "length"))
    check_library(**given)
    *batch, channels, _ = x.shape
    if weight.ndim != 2 or weight.shape[0] != channels or weight.shape[1] < 1:
        raise ValueError(
            f"weight has shape {_shape(weight)}: expected ({channels}, width), a row for each channel of x"
        )
    if bias is not None:
        check_shape("bias", bias, (channels,))
    if state is not None and not fits(_shape(state), (*batch, channels, weight.shape[1] - 1)):
        expected = (*batch, channels, weight.shape[1] - 1)
        raise ValueError(f"state has shape {_shape(state)}: expected {expected}, the inputs before the first")


def check_is_global(is_global, batch_shape, n_k):
    """Raise unless there is one truth for each token, shared or per sample."""
    if not str(getattr(is_global, "dtype", "")).endswith("bool"):
        got = f"dtype {is_global.dtype}" if hasattr(is_global, "dtype") else f"type {type(is_global).__name__}"
        raise TypeError(f"is_global has {got}: expected booleans, True = a global token")
    if _shape(is_global) not in ((n_k,), (*batch_shape, n_k)):
        raise ValueError(
            f"is_global has shape {_shape(is_global)}: expected ({n_k},), or one row per sample {(*batch_shape, n_k)}"
        )


def check_global(q, k, v, q_global, k_global, v_global):
    """Raise unless queries, keys and values of global tokens have the heads, length and width of the others."""
    for name, x, other in (("q", q_global, q), ("k", k_global, k), ("v", v_global, v)):
        _check_float(f"{name}_global", x)
        if _shape(x)[-3:] != _shape(other)[-3:]:
            got = f"{name}_global has shape {_shape(x)} and {name} has {_shape(other)}"
            raise ValueError(f"{got}: expected equal heads, length and width")


def check_rows(n_q, n_k, q_start):
    """Return the slot of the first query, whose tokens are among the keys; or raise."""
    first = n_k - n_q if q_start is None else integer("q_start", q_start)
    if not 0 <= first <= n_k - n_q:
        raise ValueError(f"q_start is {first}, with {n_q} queries and {n_k} keys: expected every query among the keys")
    return first


def check_patches(grid, **arrays):
    """Raise unless there is one row (…, heads, length, width) for each patch of a grid."""
    for name, x in arrays.items():
        _check_float(name, x)
        check_rank(name, x, ("heads", "length", "width"))
        if x.shape[-2] != grid[0] * grid[1]:
            raise ValueError(
                f"{name} has length {x.shape[-2]}: expected {grid[0]} × {grid[1]} = {grid[0] * grid[1]}, a row a patch"
            )


def check_kernels(v, kernels):
    """Raise unless there is a kernel of one odd size for each head of v (…, heads, length, width)."""
    check_rank("v", v, ("heads", "length", "width"))
    num_heads = v.shape[-3]
    if kernels.ndim != 2 or kernels.shape[0] != num_heads or kernels.shape[1] % 2 == 0:
        raise ValueError(
            f"kernels has shape {_shape(kernels)}: expected ({num_heads}, size), an odd size for each head"
        )


def check_routing(q, k, v, centroids, *, mask=None, scale=None):
    """Raise unless these make a call of routing attention, which is among the tokens of one sequence."""
    call = check(q, k, v, mask=mask, scale=scale)
    check_library(q=q, centroids=centroids)
    if call.n_q != call.n_k:
        raise ValueError(f"k has length {call.n_k} and q has length {call.n_q}: expected the tokens of one sequence")
    if centroids.ndim != 3 or (centroids.shape[0], centroids.shape[2]) != (call.num_heads, q.shape[-1]):
        expected = f"({call.num_heads}, clusters, {q.shape[-1]}), those of each head"
        raise ValueError(f"centroids has shape {_shape(centroids)}: expected {expected}")
    return call


def check_blocks(q, k, v, gates, block_size, num_blocks, *, mask=None, scale=None, q_start=None):
    """Raise unless these make a call of block selection; v and gates are None where only blocks are chosen."""
    call = check(q, k, *([] if v is None else [v]), mask=mask, scale=scale, q_start=q_start)
    count("block_size", block_size, least=1)
    count("num_blocks", num_blocks, least=1)
    if gates is not None:
        check_library(q=q, gates=gates)
        check_shape("gates", gates, (*gates.shape[:-3], call.num_heads, call.n_q, 2))
    return call


def check_talking_heads(q, k, v, before, after, **options):
    """Raise unless these make a call of talking-heads attention."""
    call = check(q, k, v, **options)
    check_library(q=q, before=before, after=after)
    for name, x in {"before": before, "after": after}.items():
        check_shape(name, x, (call.num_heads, call.num_heads))
    return call


def check_alignment(q, k, v=..., *, mask=None, q_start=None, centers=None, window=None):
    """Raise unless these make a call of alignment, which has no heads; return the `Call`, with one."""
    arrays = {"q": q, "k": k} | ({} if v is ... else {"v": v})
    for name, x in arrays.items():
        _check_float(name, x)
        check_rank(name, x, ("length", "width"))
    call = check(*(x[..., None, :, :0] for x in arrays.values()), mask=mask, q_start=q_start)  # widths may differ
    if (centers is None) != (window is None):
        given, absent = ("window", "centers") if centers is None else ("centers", "window")
        raise ValueError(f"{given} is given and {absent} is None: a local alignment needs both")
    if centers is not None:
        check_library(q=q, centers=centers)
        check_positive(window=window)
        if not _shape(centers) or not fits(_shape(centers), (*call.batch_shape, call.n_q)):
            expected = *call.batch_shape, call.n_q
            raise ValueError(f"centers has shape {_shape(centers)}: expected {expected}, one for each query")
    return call


def check_scheme_bias(position, bias, q):
    """Return what a position scheme adds to scores; raise if it is meant for another number of heads.

    One head is for all of them, unless the scheme has a `num_heads` of its own.
    """
    heads = bias.shape[-3] if bias.ndim > 2 else q.shape[-3]
    if heads != q.shape[-3] and (heads != 1 or hasattr(position, "num_heads")):
        raise ValueError(f"position is {position!r}: it adds to the scores of {heads} heads, and q has {q.shape[-3]}")
    return bias


def without_head(see):
    """Drop the one head of what a mask shows: (…, 1, i, j) to (…, i, j)."""
    return see if see is None or see.ndim < 3 else see[..., 0, :, :]


def check_additive(q, k, w_q, w_k, v):
    """Raise unless vᵀ tanh(W q + U k) can be formed."""
    check_library(q=q, k=k, w_q=w_q, w_k=w_k, v=v)
    check_projection("q", q, "w_q", w_q)
    check_projection("k", k, "w_k", w_k)
    check_shape("w_k", w_k, (k.shape[-1], w_q.shape[-1]))
    check_shape("v", v, w_q.shape[-1:])


def check_dot(q, k, hint="; general_scores projects queries to the width of the keys"):
    """Raise unless queries and keys have one width."""
    check_library(q=q, k=k)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"k has width {k.shape[-1]} and q has width {q.shape[-1]}: expected equal widths{hint}")


def check_halves(q):
    """Raise unless each vector is two of equal width, one for each map of differential attention."""
    if q.shape[-1] % 2:
        raise ValueError(f"q has width {q.shape[-1]}: expected an even width, for each half makes a map of its own")


def refuse(form, **options):
    """Raise if one of these options of attention is given, for which the form has no meaning."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is given: {form} has no {name}; expected None")


def check_library(**arrays):
    """Raise unless all arrays come from the same library."""
    first, *rest = arrays
    for name in rest:
        if isinstance(arrays[name], np.ndarray) != isinstance(arrays[first], np.ndarray):
            kinds = [
                "a NumPy array" if isinstance(x, np.ndarray) else "a torch tensor"
                for x in map(arrays.get, (name, first))
            ]
            raise TypeError(
                f"{name} is {kinds[0]} and {first} is {kinds[1]}: expected one library; torch.from_numpy converts"
            )


def float64(name, x):
    """Return a NumPy array of floating point in float64, what the reference computes with; or raise."""
    if hasattr(x, "detach"):
        raise TypeError(f"{name} is a torch tensor: expected a NumPy array; mha.nn takes tensors")
    _check_float(name, x)
    return x.astype(np.float64, copy=False)


def int64(name, x):
    """Return a NumPy array of integers with 64 bits, whose differences do not wrap around; or raise."""
    if hasattr(x, "detach"):
        raise TypeError(f"{name} is a torch tensor: expected a NumPy array; mha.nn takes tensors")
    if not isinstance(x, np.ndarray | np.integer) or not is_integral(np.asarray(x)):
        got = f"has dtype {x.dtype}" if hasattr(x, "dtype") else f"is a {type(x).__name__}"
        raise TypeError(f"{name} {got}: expected an array of integers")
    return np.asarray(x).astype(np.int64)


def _check_float(name, x):
    if isinstance(x, np.ndarray):
        good = x.dtype.kind == "f" and x.dtype.itemsize <= 8
    elif hasattr(x, "is_floating_point"):
        good = x.is_floating_point()
    else:
        hint = "; mha.kernels.attention takes a BiasRule too" if name == "bias" else ""
        raise TypeError(f"{name} is a {type(x).__name__}: expected a NumPy array or a torch tensor{hint}")
    if not good:
        hint = "; a boolean mask is mask=" if name == "bias" else "; x.astype(float) or x.float() converts"
        raise TypeError(f"{name} has dtype {x.dtype}: expected floating point of at most 64 bits{hint}")


def _check_tables(q, mask, q_start):
    """Raise if NumPy's q meets a tensor in the mask or in q_start. The other way round, NumPy's tables serve torch."""
    tables = [] if mask is None else mask.tables()
    for name, x in [*(("mask", table) for table in tables), ("q_start", q_start)]:
        if hasattr(x, "detach"):
            check_library(**{"q": q, name: x})


def _check_broadcast(name, x, shape):
    if broadcast(_shape(x), shape) != tuple(shape):
        raise ValueError(f"{name} has shape {_shape(x)}: expected one that broadcasts to (…, h, i, j) = {tuple(shape)}")


def _query_start(mask, n_q, n_k, q_start, batch_shape):
    start = masks.query_start(mask, n_q, n_k, q_start)
    if q_start is None or isinstance(start, int) or math.prod(batch_shape) == len(start):
        return start
    raise ValueError(
        f"q_start has {len(start)} entries and the batch has {math.prod(batch_shape)}: give one per sample"
    )


def _number(name, value):
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is a {type(value).__name__}: expected a number")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not -math.inf < value < math.inf:  # torch traces no math.isfinite
        raise ValueError(f"{name} is {value}: expected a finite number")
    return value


def _dropout(dropout):
    if dropout is not None and not isinstance(dropout, Dropout):
        raise TypeError(f"dropout is {dropout!r}: expected mha.dropout.Dropout(p, seed) or None")
    return dropout if dropout is not None and dropout.p > 0 else None


def _shape(x):
    return tuple(x.shape)
