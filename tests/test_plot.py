"""Pictures draw the numbers they are given, with queries down and keys across."""

import matplotlib as mpl
import numpy as np
import pytest

from compare import assert_equal
from mha import book, masks, plot

RNG = np.random.default_rng(11)
STEP = 1 / 255 / (1 - plot.FAINT)  # what one step of a byte of opacity is worth
WEIGHTS = RNG.dirichlet(np.ones(7), size=5)
GROUNDS = {"light": "#fdfcf8", "dark": "#14171c"}
DRAWN = {
    "weights": lambda ax: plot.weights(ax, WEIGHTS, values=True),
    "scores": lambda ax: plot.scores(ax, np.log(WEIGHTS), values=True),
    "mask": lambda ax: plot.mask(ax, masks.causal, 5, 7),
    "lines": lambda ax: plot.lines(ax, range(1, 8), {"a": WEIGHTS[0], "b": WEIGHTS[1]}, log="xy"),
    "bars": lambda ax: plot.bars(ax, "abcdefg", WEIGHTS[0], values="{:.2f}"),
    "head_grid": lambda ax: plot.head_grid(ax, np.stack([[WEIGHTS] * 3] * 2), marked={(1, 2): "A"}),
    "split_columns": lambda ax: plot.split_columns(ax, WEIGHTS[:, :6], 3),
}


def opacity(ax):
    (image,) = ax.images
    return np.asarray(image.get_array())[..., 3] / 255


@pytest.fixture
def ax():
    return plot.figure()[1]


def test_opacity_is_the_weight(ax):
    plot.weights(ax, WEIGHTS)
    assert_equal((opacity(ax) - plot.FAINT) / (1 - plot.FAINT), WEIGHTS, atol=STEP / 2, label="opacity")


def test_queries_run_down_and_keys_across(ax):
    plot.weights(ax, WEIGHTS, queries=list("vwxyz"), keys=range(7))
    assert ax.get_ylabel() == "query i"
    assert ax.get_xlabel() == "key j"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list("vwxyz")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [str(j) for j in range(7)]
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_signs_have_two_hues_and_hidden_pairs_a_cross(ax):
    scores = np.array([[2.0, -1.0, -np.inf], [0.5, -np.inf, -np.inf]])
    plot.scores(ax, scores)
    drawn = np.asarray(ax.images[0].get_array()) / 255
    positive, negative = map(mpl.colors.to_rgb, (plot.POSITIVE, plot.NEGATIVE))
    assert_equal(drawn[0, 0], [*positive, 1.0], atol=0.5 / 255, label="strongest")
    assert_equal(drawn[0, 1], [*negative, 0.5], atol=0.5 / 255, label="half as strong, negative")
    assert_equal(opacity(ax)[~np.isfinite(scores)], np.zeros(3), label="hidden")
    (crosses,) = ax.lines
    assert sorted(zip(*crosses.get_data()[::-1], strict=True)) == [(0, 2), (1, 1), (1, 2)]


def test_mask_draws_a_value_like_its_array(ax):
    plot.mask(ax, masks.causal, 5, 7)
    other = plot.figure()[1]
    plot.mask(other, masks.causal.dense(5, 7))
    assert_equal(opacity(ax), opacity(other), label="value and array")
    assert_equal(opacity(ax) > 0.5, masks.causal.dense(5, 7), label="what attends is dark")


def test_head_grid_puts_layers_down_and_heads_across(ax):
    patterns = RNG.dirichlet(np.ones(11), size=(2, 3, 11))
    plot.head_grid(ax, patterns, marked={(1, 2): "A"})
    step = 11 + 1
    tile = opacity(ax)[1 * step : 1 * step + 11, 2 * step : 2 * step + 11]
    seen = (tile - plot.FAINT) / (1 - plot.FAINT)
    assert_equal(seen, patterns[1, 2], atol=STEP / 2, label="layer 1, head 2")
    assert_equal(opacity(ax)[11], np.zeros(3 * step), label="gap between layers")
    (frame,) = ax.patches
    assert frame.contains_point(ax.transData.transform((2 * step + 5, step + 5)))


def test_all_heads_of_a_model_are_one_small_picture():
    fig, ax = plot.figure(6, 14)
    plot.head_grid(ax, RNG.dirichlet(np.ones(19), size=(30, 9, 19)))
    assert len(book.to_svg(fig)) < 250_000


def test_split_columns_frames_every_head(ax):
    plot.split_columns(ax, RNG.normal(size=(3, 10)), 5)
    assert [(patch.get_x(), patch.get_width()) for patch in ax.patches] == [
        pytest.approx((2 * h - 0.4, 1.8)) for h in range(5)
    ]


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_takes_ax_returns_ax_and_leaves_the_settings_alone(ax, draw, capsys):
    before = dict(mpl.rcParams)
    assert draw(ax) is ax
    assert dict(mpl.rcParams) == before
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_same_numbers_same_bytes(draw):
    pictures = []
    for _ in range(2):
        fig, ax = plot.figure()
        draw(ax)
        pictures.append(book.to_svg(fig))
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (1, 1), (1, 3)])
def test_small_maps(ax, size):
    for draw in (plot.weights, plot.scores):
        draw(ax, np.zeros(size))


def test_lines_differ_in_more_than_colour(ax):
    plot.lines(ax, range(3), {label: [1, 2, 3] for label in "abcd"})
    assert len({line.get_color() for line in ax.lines}) == 4
    assert len({line.get_marker() for line in ax.lines}) == 4
    assert len(set(plot.DASHES)) == 4


@pytest.mark.parametrize("ground", GROUNDS.values(), ids=GROUNDS)
@pytest.mark.parametrize("color", plot.COLORS)
def test_colours_stand_out_on_both_grounds(color, ground):
    def luminance(color):
        channels = np.asarray(mpl.colors.to_rgb(color))
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    dark, light = sorted([luminance(color), luminance(ground)])
    assert (light + 0.05) / (dark + 0.05) >= 3  # WCAG 2.1, 1.4.11: graphical objects


def test_errors_name_the_argument(ax):
    with pytest.raises(ValueError, match=r"weights: expected shape \(n_q, n_k\), got \(2, 5, 7\); pick one head"):
        plot.weights(ax, np.stack([WEIGHTS, WEIGHTS]))
    with pytest.raises(ValueError, match="keys: expected 7 labels, got 3"):
        plot.weights(ax, WEIGHTS, keys="abc")
    with pytest.raises(TypeError, match="mask: expected a boolean array or a Mask, got dtype float64"):
        plot.mask(ax, WEIGHTS)
    with pytest.raises(ValueError, match=r"patterns: expected shape \(layers, heads, n_q, n_k\), got \(5, 7\)"):
        plot.head_grid(ax, WEIGHTS)
    with pytest.raises(ValueError, match="num_heads: expected a divisor of the width 10, got 3"):
        plot.split_columns(ax, np.zeros((3, 10)), 3)
