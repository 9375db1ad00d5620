"""Partitions of lines: intervals, walls, and graphs of the outputs."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PolyCollection

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.plotting import house_style
from hardmax.plotting.intervals import find_largest_outputs, thin_graph


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def transformer():
    return random_transformer(np.random.default_rng(1), 4, 2, 4, 2)


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    sizes = (20, 16), (16, 16), (16, 4)
    weights = [rng.normal(size=size) / np.sqrt(size[0]) for size in sizes]
    biases = [0.3 * rng.normal(size=16), 0.3 * rng.normal(size=16), None]
    return hm.ReluNetwork(weights, biases)


def strips(ax):
    """Return the axes of the strips below a picture, by name."""
    return {child.get_yticklabels()[0].get_text(): child for child in ax.child_axes}


def intervals(strip):
    """Return the ends of the intervals of a strip."""
    (collection,) = (c for c in strip.collections if isinstance(c, PolyCollection))
    corners = [path.vertices[:, 0] for path in collection.get_paths()]
    return [[float(x.min()), float(x.max())] for x in corners]


def test_the_cells_of_a_segment_are_intervals_with_their_walls(transformer):
    part = hm.enumerate_regions(transformer, hm.Segment([-3, -2], [3, 2]))
    ax = hm.plot(part)
    cells = strips(ax)["cells"]
    ends = [0.0, *map(float, part.breakpoints), 1.0]
    np.testing.assert_allclose(intervals(cells), np.stack([ends[:-1], ends[1:]], axis=1))
    (walls,) = (c for c in cells.collections if isinstance(c, LineCollection))
    places = [segment[0, 0] for segment in walls.get_segments()]
    assert len(places) > 5
    for place in places:
        assert np.abs(np.array(ends[1:-1]) - place).min() < 1e-12
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.get_xlabel() == "$t$"
    ax.figure.canvas.draw()


def test_a_graph_is_the_output_and_has_a_gap_where_it_jumps(transformer):
    domain = hm.Segment([-3, -2], [3, 2])
    part = hm.enumerate_regions(transformer, domain)
    ax = hm.plot(part)
    outputs = [line for line in ax.lines if line.get_label().startswith("output")]
    assert [line.get_label() for line in outputs] == ["output 0", "output 1"]
    gaps = set()
    for k, line in enumerate(outputs):
        t, values = line.get_data()
        is_gap = np.isnan(t)
        gaps.update(t[np.flatnonzero(is_gap) - 1].tolist())
        middles = (t[1:] + t[:-1]) / 2
        means = (values[1:] + values[:-1]) / 2
        inside = np.isfinite(middles) & (t[1:] > t[:-1])
        assert inside.sum() == part.n_cells
        expected = transformer(domain.points(middles[inside, np.newaxis]))[:, k]
        np.testing.assert_allclose(means[inside], expected, atol=1e-9)
    # A jump needs a wall of a head; walls of units bend the graph.
    before, after = (
        transformer(domain.points([[t + s] for t in sorted(gaps)])) for s in (-1e-9, 1e-9)
    )
    assert gaps
    assert (np.abs(after - before).max(axis=1) > 1e-2).all()


def test_a_network_of_units_alone_has_no_gap(classifier):
    p, q = np.random.default_rng(2).normal(size=(2, 20))
    ax = hm.plot(hm.enumerate_regions(classifier, hm.Segment(p, q)))
    assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)


def test_the_band_says_which_output_is_the_largest(classifier):
    p, q = 2 * np.random.default_rng(2).normal(size=(2, 20))
    domain = hm.Segment(p, q)
    names = ["cat", "dog", "owl", "fox"]
    ax = hm.plot(hm.enumerate_regions(classifier, domain), names=names)
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown[:4] == names
    band = strips(ax)["largest"]
    (collection,) = band.collections
    lines = {line.get_label(): line.get_color() for line in ax.lines}
    for (low, high), colour in zip(intervals(band), collection.get_facecolors(), strict=True):
        points = domain.points(np.linspace(low, high, 9)[1:-1, np.newaxis])
        (winner,) = set(classifier(points).argmax(axis=1).tolist())
        assert plt.matplotlib.colors.to_hex(colour) == lines[names[winner]]


def test_which_output_is_the_largest_agrees_with_many_points():
    rng = np.random.default_rng(3)
    ends = np.sort(rng.normal(size=30))
    maps = rng.normal(size=(29, 2, 7))
    places, winners = find_largest_outputs(ends, maps)
    assert (places[0], places[-1]) == (ends[0], ends[-1])
    assert (np.diff(places) > 0).all()
    t = rng.uniform(ends[0], ends[-1], size=4000)
    cell = np.searchsorted(ends, t, "right") - 1
    expected = (t[:, np.newaxis] * maps[cell, 0] + maps[cell, 1]).argmax(axis=1)
    found = winners[np.searchsorted(places, t, "right") - 1]
    assert (found == expected).all()
    assert (winners[1:] != winners[:-1]).all()


def test_a_thinned_graph_keeps_what_can_be_seen():
    t = np.linspace(0.0, 1.0, 100_001)
    values = np.sin(40 * t)
    values[31_415] = 7.0
    drawn = thin_graph(t, values, np.zeros(len(t), np.bool_), (0.0, 1.0))
    assert len(drawn[0]) <= 4 * 2001
    assert drawn[1].max() == 7.0
    np.testing.assert_allclose(np.interp(t[::977], *drawn), np.sin(40 * t[::977]), atol=0.05)


@pytest.mark.parametrize(
    ("domain", "limits"),
    [
        (hm.Line([0, 0], [3, 2]), (-4.0, 4.0)),
        (hm.Ray([0, 0], [3, 2]), (0.0, 4.0)),
        (hm.Slice([0, 0], [[3, 2]], hm.Box([-1], [5])), (-1.0, 5.0)),
    ],
    ids=["line", "ray", "slice"],
)
def test_every_domain_of_dimension_one_is_drawn(transformer, domain, limits):
    part = hm.enumerate_regions(transformer, domain)
    ax = hm.plot(part)
    assert ax.get_xlim() == limits
    n_outside = sum(
        high <= limits[0] or low >= limits[1]
        for low, high in zip(
            [limits[0], *part.breakpoints], [*part.breakpoints, limits[1]], strict=True
        )
    )
    # The outer cells of a line reach beyond any breakpoint.
    shown = intervals(strips(ax)["cells"])
    assert len(shown) == part.n_cells - n_outside
    assert (shown[0][0], shown[-1][1]) == limits
    assert (f"{n_outside} of {part.n_cells}" in ax.get_title()) == (n_outside > 0)


def test_a_window_on_a_line(transformer):
    part = hm.enumerate_regions(transformer, hm.Segment([-3, -2], [3, 2]))
    ax = hm.plot(part, box=hm.Box([0.5], [1.5]))
    assert ax.get_xlim() == (0.5, 1.5)
    assert intervals(strips(ax)["cells"])[-1][1] == 1.0
    with pytest.raises(ArgumentError, match="`box` must contain part of a cell"):
        hm.plot(part, box=hm.Box([2.0], [3.0]))
    with pytest.raises(ArgumentError, match="one entry for each of the 2 outputs"):
        hm.plot(part, names=["one"])


def test_the_cells_of_one_input_are_drawn_in_x():
    tent = hm.ReluNetwork([[[1.0, -1.0]], [[-1.0], [-1.0]]], [[0.0, 0.0], [1.0]])
    with house_style("dark"):
        ax = hm.plot(hm.enumerate_regions(tent, hm.Box([-2], [2])), walls="units")
        ax.figure.canvas.draw()
    assert ax.get_xlabel() == "$x$"
    assert set(strips(ax)) == {"cells"}
    assert ax.lines[0].get_xydata().tolist() == [[-2, -1], [0, 1], [0, 1], [2, -1]]


def test_very_many_cells_are_an_image_of_their_mean_colours():
    layers = 14
    fold, again = np.array([[2.0, 2.0]]), np.array([[2.0, 2.0], [-4.0, -4.0]])
    weights = [fold, *[again] * (layers - 1), [[1.0], [-2.0]]]
    net = hm.ReluNetwork(weights, [[0.0, -1.0]] * layers + [None])
    part = hm.enumerate_regions(net, hm.Box([0], [1]))
    assert part.n_cells == 2**layers
    ax = hm.plot(part)
    strip = strips(ax)["cells"]
    (image,) = strip.images
    pixels = np.asarray(image.get_array())
    from hardmax._ground.palette import cell_colours

    colours = cell_colours(part.signatures, [2] * layers)
    np.testing.assert_allclose(pixels[0].mean(axis=0), colours.mean(axis=0), atol=1e-3)
    assert all(len(line.get_xdata()) < 10_000 for line in ax.lines)
    ax.figure.canvas.draw()


def test_of_many_outputs_those_are_drawn_that_win_or_vary():
    maps = np.zeros((1, 30))
    maps[0, [4, 20]] = [3.0, -3.0]
    net = hm.ReluNetwork([[[1.0, -1.0]], np.vstack([maps, -maps])], [[0.0, 0.0], None])
    ax = hm.plot(hm.enumerate_regions(net, hm.Box([-1], [1])))
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"output 4", "output 20"} <= set(shown)
    assert ax.get_ylabel() == "10 of 30 outputs"
