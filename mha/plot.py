"""Pictures of attention in Matplotlib. Each function draws into `ax` and returns it; none saves or prints.

Queries run down and keys across. A weight is one hue whose opacity is the weight, and a signed score is two hues,
so every picture reads on a light and on a dark page. What is black here takes the page's own text colour in
`mha.book.show`. `mha.alt` has a function of the same name that says in words what each picture shows.
"""

import functools

import numpy as np

from mha.text import say

try:
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "mha.plot needs Matplotlib: in a checkout, pip install '.[book]'", name=missing.name
    ) from None

INK = "#000000"
COLORS = ("#2f8097", "#c8553d", "#8a6fc0", "#7d8b2c")  # contrast at least 3.7 on a light and on a dark page
WEIGHT = POSITIVE = COLORS[0]
NEGATIVE = COLORS[1]
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))  # lines differ in more than colour
MARKERS = ("o", "s", "^", "D")
FAINT = 0.07  # opacity of the ground that shows where a map is, even where its weights are 0

RC = {
    "axes.prop_cycle": cycler(color=COLORS, linestyle=DASHES, marker=MARKERS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.family": "DejaVu Sans",  # ships with Matplotlib, so the same bytes everywhere
    "font.size": 9.5,
    "image.interpolation": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "savefig.transparent": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "mha",
}


def _styled(draw):
    @functools.wraps(draw)
    def styled(*args, **kwargs):
        with mpl.rc_context(RC):
            return draw(*args, **kwargs)

    return styled


@_styled
def figure(width=6.5, height=3.0, *, rows=1, columns=1, **grid):
    """Return a new figure of `width` × `height` inches and its axes: one, or an array of `rows` × `columns`."""
    fig = Figure(figsize=(width, height), layout="compressed")
    return fig, fig.subplots(rows, columns, **grid)


@_styled
def weights(ax, weights, *, queries=None, keys=None, values=False, full=1.0, title=""):
    """Draw weights (n_q, n_k): opacity is weight / `full`. `queries` and `keys` are labels, such as tokens."""
    weights = _matrix("weights", weights)
    shade = np.clip(weights / full, 0, 1)
    _map(ax, _rgba(WEIGHT, FAINT + (_strongest(values) - FAINT) * shade))
    return _finish_map(ax, np.where(weights == 0, np.nan, weights), queries, keys, title, "{:.2f}" if values else None)


@_styled
def scores(ax, scores, *, queries=None, keys=None, values=False, full=None, title=""):
    """Draw signed scores (n_q, n_k), positive and negative in two hues; −inf, a hidden pair, is a small cross."""
    scores = _matrix("scores", scores)
    finite = np.isfinite(scores)
    full = full or np.abs(scores[finite]).max(initial=0) or 1.0
    shade = np.clip(np.where(finite, np.abs(scores), 0) / full, 0, 1) * _strongest(values)
    _map(ax, np.where((scores >= 0)[..., None], _rgba(POSITIVE, shade), _rgba(NEGATIVE, shade)))
    _cross_out(ax, ~finite)
    return _finish_map(ax, scores, queries, keys, title, "{:.1f}" if values else None)


@_styled
def mask(ax, mask, n_q=None, n_k=None, *, q_start=None, queries=None, keys=None, title=""):
    """Draw which pairs attend: `mask` is a boolean array (n_q, n_k), or a Mask with `n_q` and `n_k` given."""
    visible = np.asarray(mask.dense(n_q, n_k, q_start) if hasattr(mask, "dense") else mask)
    if visible.dtype != bool:
        raise TypeError(
            f"mask: expected a boolean array or a Mask, got dtype {visible.dtype}; draw numbers by `weights`"
        )
    visible = _matrix("mask", visible)
    _map(ax, _rgba(WEIGHT, np.where(visible, 0.8, FAINT)))
    _cross_out(ax, ~visible)
    return _finish_map(ax, visible, queries, keys, title, None)


@_styled
def lines(ax, x, ys, *, x_label="", y_label="", log="", title=""):
    """Draw one line a named series: `ys` maps a label to its values; `log` names the logarithmic axes ("x", "xy")."""
    for label, y in ys.items():
        ax.plot(x, y, label=label)
    if len(ys) > 1:
        ax.legend()
    if "x" in log:
        ax.set_xscale("log", base=2)
        if len(x) <= 10:
            ax.set_xticks(x, [f"{value:g}" for value in x])
            ax.minorticks_off()
    if "y" in log:
        ax.set_yscale("log")
    ax.set(xlabel=x_label, ylabel=y_label, title=title)
    return ax


@_styled
def bars(ax, labels, heights, *, y_label="", values="", title=""):
    """Draw one bar a label; `values` is a format such as "{:.2f}" that writes each height above its bar."""
    drawn = ax.bar([str(label) for label in labels], heights, color=WEIGHT)
    if values:
        ax.bar_label(drawn, [values.format(height) for height in heights], padding=2)
    ax.set(ylabel=y_label, title=title)
    return ax


@_styled
def head_grid(ax, patterns, *, full=1.0, marked=None, title=""):
    """Draw the maps of many heads (layers, heads, n_q, n_k) as one picture: layers down, heads across.

    `marked` maps (layer, head) to a short label and puts a frame around that head.
    """
    patterns = np.asarray(patterns, dtype=np.float64)
    if patterns.ndim != 4:
        raise ValueError(f"patterns: expected shape (layers, heads, n_q, n_k), got {patterns.shape}")
    layers, heads, n_q, n_k = patterns.shape
    gap = max(1, round(n_k / 8))
    tiles = FAINT + (1 - FAINT) * np.clip(patterns / full, 0, 1)
    tiles = np.pad(tiles, [(0, 0), (0, 0), (0, gap), (0, gap)])  # opacity 0 between the maps
    step_q, step_k = n_q + gap, n_k + gap
    _map(ax, _rgba(WEIGHT, tiles.swapaxes(1, 2).reshape(layers * step_q, heads * step_k)))
    ax.set_yticks(np.arange(layers) * step_q + (n_q - 1) / 2, range(layers), fontsize=min(9, 260 / layers))
    ax.set_xticks(np.arange(heads) * step_k + (n_k - 1) / 2, range(heads))
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.xaxis.set_label_position("top")
    ax.set(xlabel=say("figures.axes.head"), ylabel=say("figures.axes.layer"), title=title)
    for color, ((layer, head), label) in zip(_cycle(COLORS[1:]), (marked or {}).items(), strict=False):
        corner = (head * step_k - 0.5 - gap / 2, layer * step_q - 0.5 - gap / 2)
        ax.add_patch(Rectangle(corner, step_k, step_q, fill=False, edgecolor=color, linewidth=2, clip_on=False))
        ax.text(corner[0] + step_k - gap, corner[1] + gap, label, color=color, ha="right", va="top", weight="bold")
    return ax


@_styled
def split_columns(ax, array, num_heads, *, rows=None, full=None, title=""):
    """Draw (n, d_model) with its columns cut into `num_heads` equal, contiguous slices, one a head."""
    array = _matrix("array", array)
    n, width = array.shape
    if num_heads < 1 or width % num_heads:
        raise ValueError(f"num_heads: expected a divisor of the width {width}, got {num_heads}")
    d_head = width // num_heads
    full = full or np.abs(array).max(initial=0) or 1.0
    shade = FAINT + (1 - FAINT) * np.clip(np.abs(array) / full, 0, 1)
    _map(ax, np.where((array >= 0)[..., None], _rgba(POSITIVE, shade), _rgba(NEGATIVE, shade)))
    for head in range(num_heads):
        color = COLORS[head % len(COLORS)]
        left = head * d_head - 0.5
        ax.add_patch(
            Rectangle((left + 0.1, -0.5), d_head - 0.2, n, fill=False, edgecolor=color, linewidth=2, clip_on=False)
        )
    ax.set_xticks(
        (np.arange(num_heads) + 0.5) * d_head - 0.5, [say("figures.axes.head_number", h=h) for h in range(num_heads)]
    )
    ax.set_yticks(range(n), _labels("rows", rows, n))
    ax.tick_params(length=0)
    ax.set(ylabel=say("figures.axes.position"), title=title)
    return ax


def _matrix(name, array):
    array = np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
    if array.ndim != 2:
        raise ValueError(f"{name}: expected shape (n_q, n_k), got {array.shape}; pick one head, e.g. {name}[0, 0]")
    return array


def _labels(name, labels, count):
    labels = [str(label) for label in (range(count) if labels is None else labels)]
    if len(labels) != count:
        raise ValueError(f"{name}: expected {count} labels, got {len(labels)}")
    return labels


def _cycle(colors):
    while True:
        yield from colors


def _strongest(values):
    return 0.8 if values else 1.0  # leaves numbers written on the cells readable


def _rgba(color, alpha):
    alpha = np.asarray(alpha, dtype=np.float64)
    return np.concatenate([np.broadcast_to(to_rgb(color), (*alpha.shape, 3)), alpha[..., None]], axis=-1)


def _map(ax, rgba):
    if rgba.size:
        ax.imshow(np.round(rgba * 255).astype(np.uint8), aspect="equal")
    ax.spines[:].set_visible(False)


def _cross_out(ax, hidden):
    if hidden.size <= 40 * 40:
        i, j = np.nonzero(hidden)
        ax.plot(j, i, linestyle="none", marker="x", color=INK, alpha=0.35, markersize=3.5)


def _finish_map(ax, numbers, queries, keys, title, number_format):
    n_q, n_k = numbers.shape
    if number_format:
        for (i, j), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                text = number_format.format(number + 0.0).replace("-", "−")
                ax.text(j, i, text, ha="center", va="center", fontsize=9)
    ticks = _labels("keys", keys, n_k)
    ax.set_xticks(range(n_k), ticks, rotation=90 if max(map(len, ticks), default=0) > 2 else 0)
    ax.set_yticks(range(n_q), _labels("queries", queries, n_q))
    if keys is None and queries is None and max(n_q, n_k) > 16:
        ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(6, integer=True))
    ax.tick_params(length=0)
    ax.set(xlabel=say("figures.axes.key"), ylabel=say("figures.axes.query"), title=title)
    return ax
