"""Pictures of level sets: solid lines, dashed jumps, filled cells, surfaces."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PolyCollection

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from hardmax.plotting.drawing import plot
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.level_sets import level_set

SQUARE = Box([-1, -1], [1, 1])
DISTANCE = ReluNetwork([np.array([[1.0, -1.0], [0.0, 0.0]]), np.ones((2, 1))], [None, [-0.5]])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def lines(ax):
    """Return the solid and the dashed segments drawn last."""
    solid, dashed = [c for c in ax.collections if isinstance(c, LineCollection)][-2:]
    return solid.get_segments(), dashed.get_segments()


@pytest.mark.parametrize("domain", [SQUARE, WholeSpace(2)], ids=["box", "plane"])
def test_lines_are_drawn_where_the_output_has_the_value(domain):
    found = level_set(enumerate_regions(DISTANCE, domain))
    solid, dashed = lines(plot(found, box=SQUARE))
    assert sorted(segment[0][0] for segment in solid) == [-0.5, 0.5]
    assert all(sorted(segment[:, 1]) == [-1.0, 1.0] for segment in solid)
    assert not dashed


def test_a_jump_is_dashed():
    head = AttentionHead(np.array([[1.0], [0.0]]), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
    step = HardTransformer([Block([head], attention_residual=False)])
    solid, dashed = lines(plot(level_set(enumerate_regions(step, SQUARE))))
    assert not solid
    (segment,) = dashed
    assert segment[:, 0].tolist() == [0.0, 0.0]


def test_a_cell_with_the_value_everywhere_is_filled():
    relu = ReluNetwork([np.array([[1.0], [0.0]]), np.ones((1, 1))])
    ax = plot(level_set(enumerate_regions(relu, SQUARE)))
    (filled,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    (polygon,) = [path.vertices for path in filled.get_paths()]
    assert polygon[:, 0].min() == -1.0
    assert polygon[:, 0].max() == 0.0


def test_axes_of_a_partition_keep_what_they_show():
    part = enumerate_regions(DISTANCE, WholeSpace(2))
    ax = plot(part, box=Box([-3, -2], [3, 2]))
    assert plot(level_set(part), ax=ax) is ax
    assert ax.get_ylim() == (-2.0, 2.0)
    solid, _ = lines(ax)
    assert all(sorted(segment[:, 1]) == [-2.0, 2.0] for segment in solid)


def test_nothing_is_drawn_of_nothing():
    solid, dashed = lines(plot(level_set(enumerate_regions(DISTANCE, SQUARE), value=9.0)))
    assert not solid
    assert not dashed


@pytest.mark.parametrize("domain", [Box([-1] * 3, [1] * 3), WholeSpace(3)], ids=["box", "space"])
def test_surfaces_are_drawn_in_space(domain):
    plane = ReluNetwork([np.array([[1.0], [2.0], [3.0]])])
    ax = plot(level_set(enumerate_regions(plane, domain)))
    assert len(ax.collections) == 1


def test_other_dimensions_are_refused():
    with pytest.raises(ArgumentError, match="`obj` must be a level set in dimension 2 or 3"):
        plot(level_set(enumerate_regions(ReluNetwork([[[1.0]]]), WholeSpace(1))))


def test_a_level_set_joins_the_legend_of_a_partition():
    layers = np.eye(2), np.array([[1.0, -1.0], [0.5, 1.0]]), np.ones((2, 1))
    part = enumerate_regions(ReluNetwork(layers), SQUARE)
    ax = plot(part, legend=True)
    before = [text.get_text() for text in ax.get_legend().get_texts()]
    ax = plot(level_set(part, value=0.5), ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*before, "level set"]
    assert before == ["layer 0", "layer 1"]
