"""Pictures show what was computed; unsupported objects are refused."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection

from hardmax._ground import palette
from hardmax._ground.palette import simulate_vision
from hardmax.constructions.families.shattering import attention_grid_transformer
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.plotting.drawing import plot
from hardmax.plotting.style import cell_colours, house_style
from hardmax.plotting.windows import count_cells_outside
from hardmax.regions.arrow_tables import save_partition
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.order_k import order_k_diagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.polynomials import TropicalPolynomial

SQUARE = np.array([[0.0, 0.0], [1, 0], [1, 1], [0, 1]])
CUBE = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def polygons(ax):
    """Return the filled cells of flat axes as vertex arrays, without the closing point."""
    (collection,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    return [path.vertices[:-1] for path in collection.get_paths()]


def area(polygon):
    x, y = polygon.T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def test_the_cells_of_a_diagram_fill_the_box():
    diagram = PowerDiagram.from_keys(np.random.default_rng(1).normal(size=(9, 2)), np.arange(9) / 9)
    ax = plot(diagram, box=Box([-2, -1], [2, 3]))
    cells = polygons(ax)
    assert len(cells) == len(diagram.cells(Box([-2, -1], [2, 3])))
    assert sum(area(cell) for cell in cells) == pytest.approx(16.0)
    assert ax.get_xlim() == (-2.0, 2.0)
    assert ax.get_ylim() == (-1.0, 3.0)


def test_a_window_that_is_no_box_is_refused():
    triangle = Polytope([[1, 1], [-1, 0], [0, -1]], [1, 1, 1])
    with pytest.raises(DtypeError, match=r"`box` must be a Box.*; got Polytope"):
        plot(PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]]), box=triangle)


def stars(ax):
    """Return the positions of the keys and their fill colours."""
    lines = [line for line in ax.lines if line.get_marker() == "*"]
    places = [place for line in lines for place in line.get_xydata().tolist()]
    fills = [line.get_markerfacecolor() for line in lines for _ in line.get_xydata()]
    return dict(zip(map(tuple, places), map(tuple, fills), strict=True))


def test_dead_keys_are_marked_apart():
    ax = plot(PowerDiagram.from_keys([[1, 0], [-1, 1], [-1, -1], [0, 0]]))
    assert set(stars(ax)) == {(1, 0), (-1, 1), (-1, -1)}
    (dead,) = (line for line in ax.lines if line.get_label() == "key that never wins")
    assert dead.get_xydata().tolist() == [[0, 0]]
    assert sum(line.get_label() == "key" for line in ax.lines) == 1


def test_a_key_in_the_cell_of_another_has_the_colour_of_its_own():
    keys = np.array([[1.0, 0], [-1, 1], [-1, -1], [0.2, 2.0]])
    diagram = PowerDiagram.from_keys(keys, [0.0, 0.0, 3.0, 0.0])
    box = Box([-9, -9], [9, 9])
    ax = plot(diagram, box=box)
    winners = diagram.locate(keys).tolist()
    assert winners != [0, 1, 2, 3]
    fills = stars(ax)
    (cells,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    for cell, colour in zip(diagram.cells(box), cells.get_facecolors(), strict=True):
        assert fills[tuple(keys[cell.site])] == tuple(colour[:3])


def test_given_axes_are_used_and_returned():
    _, ax = plt.subplots()
    assert plot(Polytope.from_points(SQUARE), ax) is ax


def test_equal_winners_have_equal_colours_and_many_are_told_apart():
    colours = cell_colours(range(21))
    gaps = np.linalg.norm(colours[:, None] - colours[None], axis=-1) + np.eye(21)
    assert gaps.min() > 0.02
    np.testing.assert_array_equal(cell_colours([3, 3])[0], cell_colours([3])[0])


def test_of_a_solid_the_faces_towards_the_viewer_are_drawn():
    ax = plot(Polytope.from_points(CUBE))
    (faces,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    for elevation, n_seen in ((30, 3), (90, 1), (-30, 3)):
        ax.view_init(elevation, -60)
        ax.figure.canvas.draw()
        assert len(faces.get_paths()) == n_seen
    glass = plot(Polytope.from_points(CUBE), alpha=0.5)
    glass.figure.canvas.draw()
    (faces,) = (c for c in glass.collections if isinstance(c, PolyCollection))
    assert len(faces.get_paths()) == 6


def test_a_polytope_is_drawn_with_its_vertices():
    ax = plot(Polytope.from_points(SQUARE))
    assert {tuple(p) for p in ax.lines[0].get_xydata()} == {tuple(p) for p in SQUARE}


@pytest.mark.parametrize("points", [CUBE, CUBE[:3], CUBE[:2], CUBE[:1]], ids=len)
def test_solids_are_drawn_also_when_flat(points):
    ax = plot(Polytope.from_points(points))
    ax.figure.canvas.draw()
    assert ax.name == "3d"


def test_a_sum_says_how_many_vertices_it_has():
    ax = plot(minkowski_vertices([SQUARE, SQUARE + 1]))
    assert "4 vertices" in ax.get_title()
    assert plot(minkowski_vertices([CUBE, CUBE[:2]])).name == "3d"


def test_a_diagram_in_space_is_drawn():
    ax = plot(PowerDiagram(np.eye(3), np.zeros(3)))
    ax.figure.canvas.draw()
    assert len(ax.collections) == 3


def test_order_k_cells_fill_the_box():
    diagram = PowerDiagram.from_keys(np.random.default_rng(4).normal(size=(6, 2)), np.arange(6) / 6)
    order2 = order_k_diagram(diagram, 2)
    cells = polygons(plot(order2, box=Box([-9, -9], [9, 9])))
    assert sum(area(cell) for cell in cells) == pytest.approx(18.0**2)


def test_the_joint_cells_of_two_groups_fill_the_box():
    rng = np.random.default_rng(8)
    groups = [AffineForms(rng.normal(size=(4, 2)), rng.normal(size=4)) for _ in range(2)]
    refinement = common_refinement(groups)
    cells = polygons(plot(refinement, box=Box([-9, -9], [9, 9])))
    assert sum(area(cell) for cell in cells) == pytest.approx(18.0**2)


def test_a_head_is_drawn_in_query_space_or_pulled_back():
    keys = np.random.default_rng(0).normal(size=(5, 2))
    head = AttentionHead(np.eye(3)[:, :2], keys, np.eye(5), np.eye(5))
    assert plot(head).get_xlabel() == "$q_1$"
    narrow = AttentionHead(np.ones((2, 1)), keys[:, :1], np.eye(5), np.eye(5))
    assert plot(narrow).get_xlabel() == "$x_1$"


def test_a_polynomial_of_one_variable_shows_its_kinks():
    ax = plot(TropicalPolynomial([[-1.0], [0.0], [2.0]], [0.0, 1.0, 0.0]))
    (kinks,) = (line.get_xdata() for line in ax.lines if line.get_marker() == "o")
    assert kinks.tolist() == [-1.0, 0.5]


def test_a_polynomial_of_two_variables_and_its_dual():
    polynomial = TropicalPolynomial([[0.0, 0], [1, 0], [0, 1], [1, 1]], [0.0, 0, 0, -1])
    assert len(polygons(plot(polynomial))) == 4
    dual = polygons(plot(polynomial, dual=True))
    assert sum(area(cell) for cell in dual) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (Polytope.from_points(np.eye(4)), ArgumentError),
        (Polytope([[1.0, 0.0]], [1.0]), ArgumentError),
        (PowerDiagram.from_keys(np.eye(4)), ArgumentError),
        (TropicalPolynomial(np.eye(3), np.zeros(3)), ArgumentError),
        ("a string", ArgumentError),
        (3, DtypeError),
    ],
    ids=["polytope in R^4", "half-plane", "diagram in R^4", "three variables", "string", "number"],
)
def test_what_cannot_be_drawn_is_refused(obj, error):
    with pytest.raises(error, match="`obj` must be"):
        plot(obj)


def a_small_transformer():
    rng = np.random.default_rng(2)
    heads = [
        AttentionHead(*(rng.normal(size=shape) for shape in ((2, 2), (4, 2), (4, 2), (2, 2))))
        for _ in range(2)
    ]
    ffn = FeedForward(*(rng.normal(size=shape) for shape in ((2, 3), 3, (3, 2), 2)))
    return HardTransformer([Block(heads, ffn)])


@pytest.mark.parametrize("colour", ["region", "map", "cell"])
def test_a_partition_fills_its_box_and_names_its_walls(colour):
    part = enumerate_regions(a_small_transformer(), Box([-2, -2], [2, 2]))
    ax = plot(part, color=colour, legend=True)
    cells = polygons(ax)
    assert len(cells) == part.n_cells
    assert sum(area(cell) for cell in cells) == pytest.approx(16.0)
    names = {text.get_text() for text in ax.get_legend().get_texts()}
    assert names == {"block 0, head 0", "block 0, head 1", "block 0, units"}


def test_a_partition_of_the_whole_plane_is_drawn_as_far_as_asked():
    part = enumerate_regions(a_small_transformer(), WholeSpace(2))
    ax = plot(part, box=Box([-1, -1], [3, 1]))
    assert ax.get_xlim() == (-1.0, 3.0)
    assert len(polygons(ax)) == part.n_cells


def test_a_partition_of_space_is_drawn():
    cut = ReluNetwork([np.eye(3), np.ones((3, 1))])
    assert len(plot(enumerate_regions(cut, Box([-1] * 3, [1] * 3))).collections) == 8
    ax = plot(enumerate_regions(cut, WholeSpace(3)))
    assert len(ax.collections) == 8
    with pytest.raises(
        ArgumentError, match="`box` must have the dimension of the domain, 3; got 2"
    ):
        plot(enumerate_regions(cut, WholeSpace(3)), box=Box([-1, -1], [1, 1]))


def test_a_partition_of_four_dimensions_names_what_can_be_drawn():
    part = enumerate_regions(ReluNetwork([np.eye(4), np.ones((4, 1))]), WholeSpace(4))
    with pytest.raises(ArgumentError, match=r"got dimension 4\. Search a `Segment`"):
        plot(part)


def test_the_whole_plane_is_shown_around_the_origin_and_the_title_says_what_is_not():
    model = random_transformer(np.random.default_rng(1), 4, 2, 4, 2)
    part = enumerate_regions(model, WholeSpace(2))
    ax = plot(part)
    assert (ax.get_xlim(), ax.get_ylim()) == ((-4.0, 4.0), (-4.0, 4.0))
    box = Box([-4, -4], [4, 4])
    inside = {tuple(row) for row in enumerate_regions(model, box).signatures.tolist()}
    n_outside = sum(tuple(row) not in inside for row in part.signatures.tolist())
    assert n_outside > 20
    assert ax.get_title() == f"{n_outside} of {part.n_cells} cells lie outside this window"
    assert plot(part, box=box).get_title() == ""
    assert plot(enumerate_regions(model, box)).get_title() == ""


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_window_has_the_scale_of_the_vertices(scale):
    """At no scale is the default picture a star, or a single cell."""
    rng = np.random.default_rng(5)
    bias = scale * rng.normal(size=8)
    part = enumerate_regions(
        ReluNetwork([rng.normal(size=(2, 8)), np.ones((8, 1))], [bias, None]), WholeSpace(2)
    )
    window = Box(*np.transpose([plot(part).get_xlim(), plot(part).get_ylim()]))
    assert 0.2 * scale < float((window.high - window.low).max()) < 40.0 * scale
    assert part.n_cells / 2 < part.n_cells - count_cells_outside(part, window) < part.n_cells


def test_cells_of_a_search_that_stopped_are_outside_by_their_vertices():
    part = enumerate_regions(a_small_transformer(), WholeSpace(2), max_cells=9)
    box = Box([-0.01, -0.01], [0.01, 0.01])
    inside = {tuple(r) for r in enumerate_regions(a_small_transformer(), box).signatures.tolist()}
    n_outside = sum(tuple(row) not in inside for row in part.signatures.tolist())
    assert 0 < count_cells_outside(part, box) <= n_outside
    assert plot(part).get_title() == "at least 1 of 9 cells lies outside this window"


def test_a_quarter_of_the_plane_is_shown_without_what_is_not_in_it():
    quarter = Polytope([[-1.0, 0.0], [0.0, -1.0]], [0.0, 1.0])
    ax = plot(enumerate_regions(a_small_transformer(), quarter))
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.0, 4.0), (-1.0, 4.0))


def test_a_partition_knows_what_to_colour():
    part = enumerate_regions(a_small_transformer(), Box([-2, -2], [2, 2]))
    with pytest.raises(ArgumentError, match="`color` must be one of region, map, cell"):
        plot(part, color="red")
    with pytest.raises(ArgumentError, match="`colour` must be one of region, map, cell"):
        plot(part, colour="red")
    with pytest.raises(ArgumentError, match="`color` and `colour`"):
        plot(part, color="cell", colour="cell")
    one, other = plot(part, color="map"), plot(part, colour="map")
    colours = [ax.collections[0].get_facecolors().tolist() for ax in (one, other)]
    assert colours[0] == colours[1]


def test_a_model_is_drawn_on_a_domain():
    model = a_small_transformer()
    part = enumerate_regions(model, Box([-2, -2], [2, 2]))
    _, ax = plt.subplots()
    assert plot(model, "box:-2,2^2", ax) is ax
    assert len(polygons(ax)) == part.n_cells
    assert len(polygons(plot(model, "box:-2,2^2", color="map"))) == part.n_cells
    head = model.blocks[0].heads[0]
    assert len(polygons(plot(head, "box:-2,2^2"))) == enumerate_regions(head, "box:-2,2^2").n_cells
    with pytest.raises(
        ArgumentError, match=r"`domain` is required to draw a HardTransformer: hm\.plot"
    ):
        plot(model)
    with pytest.raises(ArgumentError, match="`domain` applies only to models; got a Partition"):
        plot(part, "box:-2,2^2")
    with pytest.raises(ArgumentError, match=r"`domain` .* 2; got a domain .* 3"):
        plot(model, "box:-2,2^3")


def test_a_saved_partition_is_drawn(tmp_path):
    pytest.importorskip("pyarrow")
    part = enumerate_regions(a_small_transformer(), "box:-2,2^2")
    save_partition(part, tmp_path / "cells.parquet")
    assert len(polygons(plot(tmp_path / "cells.parquet"))) == part.n_cells


def test_cells_keep_their_hue_as_later_blocks_cut_them():
    one, two = (random_transformer(np.random.default_rng(1), 4, 2, 4, n) for n in (1, 2))
    box = Box([-3, -3], [3, 3])
    first, second = (enumerate_regions(model, box) for model in (one, two))
    drawn = [plot(part, color="cell").collections[0] for part in (first, second)]
    colours = [simulate_vision(found.get_facecolors()[:, :3])["normal"][:, 1:] for found in drawn]
    parents = first.locate(second.witnesses)
    gaps = np.linalg.norm(colours[0][parents] - colours[1], axis=1)
    assert gaps.max() < 0.05 < np.ptp(colours[0], axis=0).max()


def test_many_cells_become_an_image_of_their_mean_colours():
    grid = attention_grid_transformer(4, 2, 3)
    part = enumerate_regions(grid, Box([0, 0], [1, 1]))
    ax = plot(part)
    (image,) = ax.images
    pixels = np.asarray(image.get_array())
    assert pixels.shape == (900, 900, 3)
    signatures = part.signatures[part.locate([[0.13, 0.07]])]
    n_groups = [layer.n_groups for layer in grid.network.layers]
    expected = palette.cell_colours(part.signatures, n_groups)
    here = (part.signatures == signatures).all(axis=1).argmax()
    np.testing.assert_allclose(pixels[int(900 * 0.93), int(900 * 0.13)], expected[here], atol=0.02)
    ax.figure.canvas.draw()


def test_pictures_are_drawn_on_dark_paper_too():
    part = enumerate_regions(a_small_transformer(), Box([-2, -2], [2, 2]))
    with house_style("dark"):
        ax = plot(part, color="cell", walls="units")
        ax.figure.canvas.draw()
    fills = simulate_vision(ax.collections[0].get_facecolors()[:, :3])["normal"]
    assert fills[:, 0].max() < 0.75
    assert ax.get_xlabel() == "$x_1$"
    with pytest.raises(ArgumentError, match="`theme` must be one of light, dark"), house_style("x"):
        pass


@pytest.mark.parametrize("domain", [Box([-2, -2], [2, 2]), WholeSpace(2)], ids=["box", "plane"])
def test_a_partition_of_the_split_tree_is_drawn_too(domain):
    parallel = ReluNetwork([np.ones((2, 2)), np.ones((2, 1))], [[0.0, 1.0], None])
    part = enumerate_regions(parallel, domain, exact=True)
    cells = polygons(plot(part, box=Box([-2, -2], [2, 2])))
    assert len(cells) == 3
    assert sum(area(cell) for cell in cells) == pytest.approx(16.0)
    many = polygons(plot(enumerate_regions(a_small_transformer(), domain, exact=True)))
    assert len(many) == enumerate_regions(a_small_transformer(), domain).n_cells


@pytest.mark.parametrize("dim", [2, 3])
def test_a_search_that_found_nothing_cannot_be_drawn(dim):
    cut = ReluNetwork([np.eye(dim), np.ones((dim, 1))])
    with pytest.raises(ArgumentError, match="`obj` must have at least one cell"):
        plot(enumerate_regions(cut, Box([-1] * dim, [1] * dim), max_cells=0))


def test_every_face_of_a_solid_is_drawn_with_all_its_edges():
    """Faces with three and with four corners: all paths are closed by points that are drawn."""
    triangle = [[0, 0], [1, 0], [0, 1]]
    prism = Polytope.from_points([[*corner, z] for corner in triangle for z in (0, 1)])
    ax = plot(prism)
    ax.figure.canvas.draw()
    paths = [path.vertices for path in ax.collections[0].get_paths()]
    assert len(paths) >= 2
    for corners in paths:
        assert np.isfinite(corners).all()
        np.testing.assert_allclose(corners[0], corners[-1])
        np.testing.assert_allclose(corners[-2], corners[0], atol=1e-12)
