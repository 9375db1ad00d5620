"""Pictures of finite temperature: their content, not their style."""

import numpy as np
import pytest

from hardmax import stability as sb
from hardmax._ground.palette import strong_colours
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.transformers import Block
from tests.stability_models import SIGN, random_head, random_transformer

pytest.importorskip("matplotlib")
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection

from hardmax.plotting.drawing import plot
from hardmax.plotting.stability import (
    plot_annealing,
    plot_error_curves,
    plot_persistence,
    plot_persistent_counts,
)

SQUARE = Box([-2, -2], [2, 2])


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_annealing_shows_the_same_walls_at_every_temperature():
    head = random_head(np.random.default_rng(0), 2, 5)
    figure, axes = plot_annealing(head, [1.0, 0.1, 0.0], SQUARE, resolution=40, epsilon=0.1)
    assert len(axes) == len(figure.axes) == 3
    walls = [[tuple(map(tuple, patch.get_xy())) for patch in ax.patches] for ax in axes]
    assert walls[0] == walls[1] == walls[2]
    assert len(walls[0]) == len(head.pulled_back_diagram.cells(SQUARE))
    assert [ax.get_title() for ax in axes] == [r"$\tau = 1$", r"$\tau = 0.1$", r"$\tau = 0$"]
    hard = axes[2].images[0].get_array().reshape(-1, 3)
    soft = axes[0].images[0].get_array().reshape(-1, 3)
    assert len(np.unique(hard, axis=0)) <= 5 < len(np.unique(soft, axis=0))


def test_error_curves_are_drawn_with_their_names():
    curves = sb.error_curves(SIGN, [[0.5]], np.geomspace(0.05, 2, 7), radius=0.01)
    ax = plot_error_curves(curves)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[-1] == "measured"
    assert "certified at the points" in labels
    assert len(ax.lines) == 4
    block = sb.error_curves(Block([SIGN]), [[0.5]], [0.1, 1.0])
    assert len(plot_error_curves(block).lines) == 2


def test_persistence_curves_start_at_all_cells_and_end_at_none():
    rng = np.random.default_rng(1)
    block = Block([random_head(rng, 2, 4), random_head(rng, 2, 3)])
    found = sb.persistence(block, SQUARE, 0.05)
    ax = plot_persistence(found, at=[sb.persistent_cells(block, SQUARE, 0.1, 0.05)])
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    n = found.partition.n_cells
    for label in ("possible", "certain", "certain by margins alone"):
        assert (lines[label][0], lines[label][-1]) == (n, 0)
    assert (np.asarray(lines["certain"]) <= np.asarray(lines["possible"])).all()
    assert lines["certain, with a point"][0] == found.count(0.1)


def test_counts_of_deep_models_are_drawn_in_order_of_temperature():
    model = random_transformer(3, n_heads=1, n_keys=3, d_ff=2)
    searches = [sb.persistent_cells(model, SQUARE, tau, 0.1) for tau in (0.3, 0.02)]
    ax = plot_persistent_counts(searches)
    line = next(line for line in ax.lines if line.get_label() == "certain")
    assert line.get_color() == strong_colours()[0]
    assert line.get_xdata().tolist() == [0.02, 0.3]
    assert list(line.get_ydata()) == [searches[1].n_certified, searches[0].n_certified]


@pytest.mark.parametrize(
    "call",
    [
        lambda: plot_annealing(SIGN, [1.0], SQUARE),
        lambda: plot_annealing(random_head(np.random.default_rng(0), 2, 3), [], SQUARE),
        lambda: plot_persistent_counts([]),
    ],
)
def test_what_cannot_be_drawn_is_refused(call):
    with pytest.raises(ArgumentError, match=r"`\w+` must"):
        call()


def test_persistent_cells_are_coloured_by_what_is_known():
    model = random_transformer(3, n_heads=1, n_keys=3, d_ff=2)
    found = sb.persistent_cells(model, SQUARE, 0.3, 0.1)
    ax = plot(found)
    (polygons,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    kinds = np.where(found.is_certified, 0, np.where(found.is_possible, 1, 2))
    colours = polygons.get_facecolor()
    assert len(np.unique(colours, axis=0)) == len(np.unique(kinds))
    for kind in np.unique(kinds):
        assert len(np.unique(colours[kinds == kind], axis=0)) == 1
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"certainly hard: {found.n_certified}" in labels


def test_error_curves_show_the_errors_that_can_be_seen():
    curves = sb.error_curves(SIGN, [[0.5]], np.geomspace(1e-3, 2, 15))
    low, high = plot_error_curves(curves).get_ylim()
    assert low == pytest.approx(1e-16)
    assert curves.certified.max() < high < 100 * curves.from_margin.max()
