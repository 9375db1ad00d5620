"""Functions from values at the vertices of a mesh."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from flint import fmpq
from scipy.spatial import Delaunay

from hardmax.constructions.compilers.functions.approximation import adaptive_mesh
from hardmax.constructions.compilers.functions.convex_differences import (
    bound_pieces,
    collect_fills,
    filled_units,
    maxout_from_pieces,
)
from hardmax.constructions.compilers.functions.exact_pieces import ExactPieces
from hardmax.constructions.compilers.functions.meshes import Mesh, maxout_from_mesh
from hardmax.errors import ArgumentError, DiscontinuityError, HardmaxError, SizeLimitError
from hardmax.geometry.domains import Box
from tests.reference.piecewise_linear import barycentric, mesh_value, within

UNIT = {d: Box([0] * d, [1] * d) for d in (1, 2, 3)}

# The smallest triangulation that is not regular: a triangle twisted in a triangle.
PINWHEEL_POINTS = np.array([[4.0, 0], [0, 4], [0, 0], [2, 1], [1, 2], [1, 1]])
PINWHEEL = [[0, 1, 4], [0, 3, 4], [1, 2, 5], [1, 4, 5], [2, 0, 3], [2, 5, 3], [3, 4, 5]]
UNTWISTED = [[0, 1, 3], [1, 3, 4], [1, 2, 5], [1, 4, 5], [2, 0, 3], [2, 5, 3], [3, 4, 5]]


def random_delaunay(rng, n, dim, *, box=True):
    points = rng.random((n, dim))
    if box:
        points = np.concatenate([np.array(list(product([0.0, 1.0], repeat=dim))), points])
    if dim == 1:
        order = np.argsort(points[:, 0])
        return points, np.column_stack([order[:-1], order[1:]])
    return points, Delaunay(points).simplices


def random_diagonals(rng, size):
    """A grid whose squares are cut one way or the other: regular, with cocircular neighbours."""
    points = np.array(list(product(range(size), repeat=2)), dtype=float)
    simplices = []
    for i, j in product(range(size - 1), repeat=2):
        a, b = i * size + j, i * size + j + 1
        c, d = a + size, b + size
        simplices += [[a, b, c], [b, c, d]] if rng.random() < 0.5 else [[a, b, d], [a, c, d]]
    return points, np.array(simplices)


def adversarial_points(rng, mesh, n=12):
    """Vertices, points on edges and facets, and points near them and inside."""
    found = [mesh.vertices[v] for v in rng.choice(len(mesh.vertices), min(n, len(mesh.vertices)))]
    for _ in range(n):
        corners = mesh.vertices[mesh.simplices[rng.integers(len(mesh.simplices))]]
        for zeros in range(mesh.dim + 1):
            weights = rng.random(mesh.dim + 1)
            weights[:zeros] = 0.0
            found.append(weights @ corners / weights.sum())
    return found


def assert_interpolates(mesh, form, rng):
    checked = 0
    for x in adversarial_points(rng, mesh):
        wanted = mesh_value(
            mesh.vertices.tolist(), mesh.simplices.tolist(), mesh.values.tolist(), x.tolist()
        )
        if wanted is not None:
            assert within(form.network, form.rounding, x.tolist(), wanted)
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize(("dim", "n"), [(1, 6), (2, 2), (2, 25), (3, 3), (3, 12)])
def test_delaunay_meshes_need_no_new_pieces(dim, n):
    rng = np.random.default_rng(n)
    points, simplices = random_delaunay(rng, n, dim)
    mesh = Mesh(points, simplices, rng.normal(size=len(points)))
    form = maxout_from_mesh(mesh, UNIT[dim])
    assert form.method == "lifting"
    assert len(form.network.ranks[0]) == 2
    assert max(form.network.ranks[0]) <= len(simplices)
    assert form.rounding[0] < 1e-11
    assert_interpolates(mesh, form, rng)


@pytest.mark.parametrize("size", [2, 4, 6])
def test_grids_with_any_diagonals_need_no_new_pieces(size):
    """Their neighbours are cocircular, so the squared norm has no kink on the diagonals."""
    rng = np.random.default_rng(size)
    points, simplices = random_diagonals(rng, size)
    mesh = Mesh(points, simplices, rng.normal(size=len(points)))
    form = maxout_from_mesh(mesh, Box([0, 0], [size - 1, size - 1]))
    assert form.method in ("lifting", "convex", "concave")
    assert max(form.network.ranks[0]) <= len(simplices)
    assert_interpolates(mesh, form, rng)


@pytest.mark.parametrize("dim", [2, 3])
def test_adaptive_meshes_are_regular(dim):
    rng = np.random.default_rng(dim)
    centre = rng.random(dim)

    def closeness(corners):
        return np.ptp(corners, axis=1).prod(axis=1) / np.abs(corners - centre).max(axis=(1, 2))

    points, simplices = adaptive_mesh(UNIT[dim], 60, closeness)
    assert factorial(dim) < len(simplices) <= 60
    mesh = Mesh(points, simplices, rng.normal(size=len(points)))
    form = maxout_from_mesh(mesh, UNIT[dim])
    assert form.method == "lifting"
    assert_interpolates(mesh, form, rng)


def test_a_regular_mesh_that_is_not_delaunay_is_lifted_by_a_linear_program():
    rng = np.random.default_rng(5)
    mesh = Mesh(PINWHEEL_POINTS, UNTWISTED, rng.normal(size=6))
    form = maxout_from_mesh(mesh, Box([0, 0], [4, 4]))
    assert form.method == "lifting"
    assert_interpolates(mesh, form, rng)


@pytest.mark.parametrize("seed", range(4))
def test_the_pinwheel_is_not_regular_and_its_kinks_are_filled(seed):
    rng = np.random.default_rng(seed)
    mesh = Mesh(PINWHEEL_POINTS, PINWHEEL, rng.normal(size=(6, 1 + seed % 2)))
    form = maxout_from_mesh(mesh, Box([0, 0], [4, 4]))
    assert form.method == "facet kinks"
    assert_interpolates(mesh, form, rng)


def test_filling_kinks_is_refused_before_the_work_with_the_count():
    mesh = Mesh(PINWHEEL_POINTS, PINWHEEL, np.random.default_rng(0).normal(size=6))
    with pytest.raises(SizeLimitError, match=r"7 cells into up to \d+ pieces.*`max_pieces` = 8"):
        maxout_from_mesh(mesh, Box([0, 0], [4, 4]), max_pieces=8)


def test_the_count_that_is_named_is_enough():
    rng = np.random.default_rng(1)
    mesh = Mesh(PINWHEEL_POINTS, PINWHEEL, rng.normal(size=6))
    with pytest.raises(SizeLimitError) as refused:
        maxout_from_mesh(mesh, Box([0, 0], [4, 4]), max_pieces=1)
    count = int(str(refused.value).split("up to ")[1].split()[0])
    form = maxout_from_mesh(mesh, Box([0, 0], [4, 4]), max_pieces=count)
    assert form.network.ranks[0][0] <= count


@pytest.mark.parametrize(("dim", "n"), [(2, 0), (2, 6), (3, 1)])
def test_kinks_can_be_filled_on_any_mesh(dim, n):
    """Without a lifting, also where one hyperplane carries kinks of different depths."""
    rng = np.random.default_rng(n)
    if n:
        points, simplices = random_delaunay(rng, n, dim)
    else:
        points, simplices = random_diagonals(rng, 4)
        points = points / 3.0
    mesh = Mesh(points, simplices, rng.normal(size=len(points)))
    form = maxout_from_pieces(mesh.pieces, UNIT[dim])
    assert form.method == "facet kinks"
    assert_interpolates(mesh, form, rng)
    used = collect_fills(mesh.pieces, mesh.pieces.kinks()[:, 0])
    bound = bound_pieces(mesh.pieces, used)
    assert form.network.ranks[0][0] <= bound
    assert len(form.network.ranks[0]) == 1 + len(used)


def test_the_bound_on_pieces_is_attained_by_lines_that_cross_in_one_cell():
    """Three lines in general position cut one cell into seven pieces."""
    one = np.array([[[fmpq(0)] * 3]], dtype=object)
    corners = np.array([[x, y, 1] for x in (-9, 9) for y in (-9, 9)], dtype=object)
    sides = [(1, 0, 9), (-1, 0, 9), (0, 1, 9), (0, -1, 9)]
    pieces = ExactPieces(one, (), [corners], [sides])
    lines = {(1, 0, 0): fmpq(1), (0, 1, 0): fmpq(1), (1, 1, -1): fmpq(1), (1, 0, -20): fmpq(3)}
    assert bound_pieces(pieces, lines) == 7
    assert len(filled_units(pieces, 0, lines)[0]) == 7


def test_convex_and_concave_values_need_one_maximum():
    rng = np.random.default_rng(3)
    points, simplices = random_delaunay(rng, 15, 2)
    heights = (points**2).sum(axis=1)
    for sign, method in ((1.0, "convex"), (-1.0, "concave")):
        mesh = Mesh(points, simplices, sign * heights)
        form = maxout_from_mesh(mesh, UNIT[2])
        # Rounded squares need not be exactly convex on nearly cocircular neighbours.
        assert form.method in (method, "lifting")
        assert_interpolates(mesh, form, rng)
    affine = maxout_from_mesh(Mesh(points, simplices, np.ones(len(points))), UNIT[2])
    assert affine.network.ranks == [[1]]


def test_outputs_share_one_lifting():
    rng = np.random.default_rng(4)
    points, simplices = random_delaunay(rng, 10, 2)
    mesh = Mesh(points, simplices, rng.normal(size=(len(points), 3)))
    form = maxout_from_mesh(mesh, UNIT[2])
    assert len(form.network.ranks[0]) == 4
    assert_interpolates(mesh, form, rng)


def test_scales_from_1e_minus_150_to_1e150_keep_the_bound():
    rng = np.random.default_rng(6)
    points, simplices = random_delaunay(rng, 8, 2)
    for scale, height in ((1e-150, 1e100), (1e150, 1e-100), (1e150, 1e150)):
        mesh = Mesh(points * scale, simplices, rng.normal(size=len(points)) * height)
        form = maxout_from_mesh(mesh, Box([0, 0], [scale, scale]))
        assert form.rounding[0] < 1e-10 * height
        assert_interpolates(mesh, form, rng)


def test_far_from_the_origin_the_bound_still_holds():
    rng = np.random.default_rng(7)
    points, simplices = random_delaunay(rng, 8, 2)
    mesh = Mesh(points + 1e6, simplices, rng.normal(size=len(points)))
    form = maxout_from_mesh(mesh, Box([1e6, 1e6], [1e6 + 1, 1e6 + 1]))
    assert_interpolates(mesh, form, rng)


def test_a_vertex_may_occur_twice_with_equal_values():
    twice = Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0.0, 1.0, 1.0, 0.0])
    form = maxout_from_mesh(twice, Box([0], [2]))
    assert form.network([[0.5], [1.0], [1.5]]).ravel().tolist() == [0.5, 1.0, 0.5]


TRIANGLE = [[0, 0], [2, 0], [0, 2]]


@pytest.mark.parametrize(
    ("vertices", "simplices", "values", "message"),
    [
        # A vertex in the middle of an edge of the neighbour.
        (
            [*TRIANGLE, [2, 2], [1, 1]],
            [[0, 1, 2], [1, 4, 3], [4, 2, 3]],
            [0, 0, 0, 0, 1],
            r"do not meet face to face at \(1.0, 1.0\), where the function jumps "
            r"between 0.0 and 1.0. Split simplices\[0\] at vertices\[4\]\.",
        ),
        # The same without a jump.
        (
            [*TRIANGLE, [2, 2], [1, 1]],
            [[0, 1, 2], [1, 4, 3], [4, 2, 3]],
            [0, 0, 0, 0, 0],
            r"do not meet face to face at \(1.0, 1.0\), where both give 0.0"
            r"\. Split simplices\[0\] at vertices\[4\]\.",
        ),
        # Two triangles on one side of their common edge.
        ([*TRIANGLE, [1, 1]], [[0, 1, 2], [0, 1, 3]], [0, 0, 1, 5], "overlap at .* jumps between"),
        # One triangle twice.
        (TRIANGLE, [[0, 1, 2], [2, 0, 1]], [0, 0, 1], "overlap at .* both give"),
        # Two triangulations of a square at once: every edge has its two triangles.
        (
            [[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5], [0.5, 0.25]],
            [
                [0, 1, 4],
                [0, 2, 4],
                [3, 1, 4],
                [3, 2, 4],
                [0, 1, 5],
                [0, 2, 5],
                [3, 1, 5],
                [3, 2, 5],
            ],
            [0, 0, 0, 0, 1, 1],
            "overlap at .* jumps between",
        ),
        # The same with different edges on the boundary: every single facet is in order.
        (
            [[0, 0], [2, 0], [2, 2], [0, 2], [1, 1], [1, 0], [2, 1], [1, 2], [0, 1], [1, 0.5]],
            [
                *([k, (k + 1) % 4, 4] for k in range(4)),
                *([k, 5 + k, 9] for k in range(4)),
                *([5 + k, (k + 1) % 4, 9] for k in range(4)),
            ],
            [0, 0, 0, 0, 3, 0, 0, 0, 0, 3],
            "overlap at .* jumps between",
        ),
        # Disjoint vertices, overlapping interiors.
        (
            [*TRIANGLE, [1, -1], [1, 3], [3, 1]],
            [[0, 1, 2], [3, 4, 5]],
            [0, 0, 0, 1, 1, 1],
            "jumps between 0.0 and 1.0",
        ),
        # A dent.
        (
            [*TRIANGLE, [0.5, 0.5]],
            [[0, 1, 3], [0, 2, 3]],
            [0, 0, 0, 0],
            r"must fill a convex set, but there is no simplex beyond the facet",
        ),
        ([*TRIANGLE, [1, 1]], [[1, 3, 2]], [0, 0, 0, 0], r"simplices\[0\] .* is flat"),
        (TRIANGLE, [[0, 0, 1]], [0, 0, 0], "is flat"),
        # A seam with different values.
        (
            [*TRIANGLE, [2, 0], [0, 2], [2, 2]],
            [[0, 1, 2], [3, 4, 5]],
            [0, 0, 0, 0, 7, 0],
            r"at \(0.0, 2.0\) .* between 0.0 \(vertices\[2\]\) and 7.0 \(vertices\[4\]\)",
        ),
    ],
)
def test_meshes_of_no_continuous_function_are_refused_with_the_place(
    vertices, simplices, values, message
):
    mesh = Mesh(vertices, simplices, values)
    with pytest.raises(ArgumentError, match=message) as caught:
        maxout_from_mesh(mesh, Box([0, 0], [1, 1]))
    assert isinstance(caught.value, DiscontinuityError) == ("jumps" in str(caught.value))


def test_a_hole_is_refused_with_its_place():
    points = np.array(list(product(range(4), repeat=2)), dtype=float)
    cut = [(4 * i + j) for i, j in product(range(3), repeat=2) if (i, j) != (1, 1)]
    simplices = [s for a in cut for s in ([a, a + 1, a + 4], [a + 1, a + 4, a + 5])]
    with pytest.raises(ArgumentError, match=r"no simplex .* at \(1.0, 1.5\)"):
        maxout_from_mesh(Mesh(points, simplices, np.arange(16.0)), Box([0, 0], [3, 3]))


def test_a_jump_of_one_unit_in_the_last_place_is_seen():
    above = np.nextafter(1.0, 2.0)
    with pytest.raises(DiscontinuityError, match=r"jumps between 1.0 .* and 1.0000000000000002"):
        maxout_from_mesh(
            Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0.0, 1.0, above, 2.0]),
            Box([0], [2]),
        )
    # The middle of an edge, one unit off: the triangles overlap or leave a gap.
    mesh = Mesh([*TRIANGLE, [2, 2], [1, above]], [[0, 1, 2], [1, 4, 3], [4, 2, 3]], [0, 0, 0, 0, 1])
    with pytest.raises(ArgumentError, match="`simplices` must fill a convex set"):
        maxout_from_mesh(mesh, Box([0, 0], [1, 1]))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((np.zeros((0, 2)), [[0, 1, 2]], []), "vertices"),
        ((TRIANGLE, np.zeros((0, 3), int), [0, 0, 0]), "simplices"),
        ((TRIANGLE, [[0, 1]], [0, 0, 0]), "simplices"),
        ((TRIANGLE, [[0.0, 1.0, 2.0]], [0, 0, 0]), "simplices"),
        ((TRIANGLE, [[0, 1, 3]], [0, 0, 0]), "simplices"),
        ((TRIANGLE, [[0, 1, -1]], [0, 0, 0]), "simplices"),
        ((TRIANGLE, [[0, 1, 2]], [0, 0]), "values"),
        ((TRIANGLE, [[0, 1, 2]], [0, 0, np.nan]), "values"),
        (([[0, 0], [np.inf, 0], [0, 1]], [[0, 1, 2]], [0, 0, 0]), "vertices"),
    ],
)
def test_bad_meshes_are_refused_by_name(arguments, word):
    with pytest.raises(HardmaxError, match=f"`{word}`"):
        Mesh(*arguments)


def test_bad_boxes_and_limits_are_refused_by_name():
    mesh = Mesh(TRIANGLE, [[0, 1, 2]], [0, 0, 1])
    with pytest.raises(ArgumentError, match="`box` must meet the mesh"):
        maxout_from_mesh(mesh, Box([5, 5], [6, 6]))
    with pytest.raises(HardmaxError, match="`box`"):
        maxout_from_mesh(mesh, Box([0], [1]))
    with pytest.raises(ArgumentError, match="`max_pieces`"):
        maxout_from_mesh(mesh, Box([0, 0], [1, 1]), max_pieces=0)
    with pytest.raises(ArgumentError, match="slope exceeds the largest float64"):
        maxout_from_mesh(Mesh([[0.0], [1e-300]], [[0, 1]], [0.0, 1e200]), Box([0], [1e-300]))


def test_the_reference_solves_for_barycentric_coordinates():
    assert barycentric([[0, 0], [1, 0], [0, 1]], [0.25, 0.5]) == [0.25, 0.25, 0.5]
