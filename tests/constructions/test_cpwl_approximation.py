"""Continuous functions to transformers."""

import math
import re

import numpy as np
import pytest

from hardmax.constructions.compilers.functions.approximation import (
    BisectionMesh,
    Probes,
    _refuse_jumps,
    adaptive_mesh,
    approximate,
    barycentric_lattice,
    checked_function,
    enclosing_radius,
    estimate_errors,
    measure_error,
)
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.errors import ArgumentError, DiscontinuityError, DtypeError
from hardmax.geometry.domains import Box, WholeSpace


def waves(x):
    """Smooth, with second derivatives below 9 in every direction."""
    return np.sin(3.0 * x[:, 0]) * np.prod(np.cos(x[:, 1:]), axis=1)


def unit_box(dim):
    return Box([0.0] * dim, [1.5] * dim)


def interpolation_error(f, dim, n):
    sampled = checked_function(f, dim)
    vertices, simplices = adaptive_mesh(unit_box(dim), n, lambda c: estimate_errors(sampled, c))
    return measure_error(sampled, vertices[simplices])[0], len(simplices)


@pytest.mark.parametrize(
    ("dim", "sizes"), [(1, (8, 32, 128)), (2, (32, 128, 512)), (3, (48, 384, 1500))]
)
def test_the_error_of_a_smooth_function_falls_with_the_power_two_over_dim(dim, sizes):
    errors, counts = zip(*(interpolation_error(waves, dim, n) for n in sizes), strict=True)
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -2.6 / dim < slope < -1.6 / dim


def test_refinement_goes_where_the_function_bends():
    """A root at 0: far fewer pieces than a uniform mesh would need."""

    def root(x):
        return np.sqrt(np.abs(x[:, 0]))

    error, n = interpolation_error(root, 1, 40)
    # On a uniform mesh of step h the error at the root is sqrt(h) / 4.
    assert error < np.sqrt(1.5 / n) / 4 / 10


@pytest.mark.parametrize(("dim", "n"), [(1, 20), (2, 30), (3, 30)])
@pytest.mark.parametrize("epsilon", [None, 1e-2])
def test_the_transformer_stays_within_the_certified_error(dim, n, epsilon):
    result = approximate(waves, unit_box(dim), n, epsilon=epsilon, second_derivative=9.0)
    assert result.n_pieces <= n
    assert result.certified_error is not None
    points = np.random.default_rng(dim).uniform(0, 1.5, (300, dim))
    errors = np.abs(result(points).ravel() - waves(points))
    assert errors.max() <= result.measured_error + result.compiled.certified_error
    assert errors.max() <= result.certified_error
    assert result.measured_error <= result.certified_error
    at_worst = abs(float(result(result.worst_point)[0]) - waves(result.worst_point[None])[0])
    assert at_worst >= result.measured_error - result.compiled.certified_error


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_bounds_are_attained_by_the_functions_they_are_made_for(dim):
    """|x - c|^2 / 2 has second derivative 1: the error is half the squared radius of a simplex."""

    def parabola(x):
        return 0.5 * ((x - 0.3) ** 2).sum(axis=1)

    result = approximate(parabola, unit_box(dim), 24, second_derivative=1.0)
    # Jung's bound is attained by regular simplices; those of the mesh are not.
    assert 0.3 * result.certified_error < result.measured_error <= result.certified_error
    lipschitz = approximate(parabola, unit_box(dim), 24, lipschitz=1.2 * np.sqrt(dim))
    assert lipschitz.measured_error <= lipschitz.certified_error
    both = approximate(
        parabola, unit_box(dim), 24, lipschitz=1.2 * np.sqrt(dim), second_derivative=1.0
    )
    assert both.certified_error == min(result.certified_error, lipschitz.certified_error)


def test_the_measured_error_is_not_below_what_dense_samples_find():
    bump = approximate(lambda x: np.exp(-(x**2).sum(axis=1)), Box([-1] * 3, [1] * 3), 48)
    mesh = bump.interpolant
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=3000)
    for simplex in mesh.simplices:
        exact = np.exp(-((weights @ mesh.vertices[simplex]) ** 2).sum(axis=1))
        found = np.abs(exact - weights @ mesh.values[simplex][:, 0]).max()
        assert found <= bump.measured_error


@pytest.mark.parametrize(("dim", "width"), [(1, 2e-3), (2, 0.05), (3, 0.15)])
def test_a_narrow_peak_is_found_and_refined_though_all_else_is_flat(dim, width):
    """At the corners, and on every coarse lattice, this function is 0."""
    middle = np.array([0.123, 0.377, 0.621])[:dim]

    def peak(x):
        return np.maximum(0.0, 1.0 - np.abs(x - middle).max(axis=1) / width)

    box = Box([0.0] * dim, [1.0] * dim)
    coarse = approximate(peak, box, 6)
    assert coarse.measured_error > 0.5
    assert peak(coarse.worst_point[None])[0] > 0.0
    fine = approximate(peak, box, 150)
    assert fine.n_pieces > 30
    corners = fine.interpolant.positions if dim == 1 else fine.interpolant.vertices
    assert peak(corners.reshape(-1, dim)).max() > 0.5


def test_the_measured_error_sees_what_lies_between_the_points_of_a_lattice():
    sampled = checked_function(lambda x: np.maximum(0.0, 1.0 - 900.0 * np.abs(x[:, 0] - 0.14)), 1)
    whole = np.array([[[0.0], [1.0]]])
    assert measure_error(sampled, whole)[0] == 0.0
    error, where = measure_error(sampled, whole, Probes.of(sampled, Box([0.0], [1.0])))
    assert error > 0.999
    np.testing.assert_allclose(where, [0.14], atol=1e-5)


def test_probes_see_what_the_simplices_around_them_get_wrong():
    """Two triangles of a square of sides 2 and 4, and a function that is 1 at one probe only."""
    box = Box([0.0, 10.0], [2.0, 14.0])
    flat = Probes.of(lambda x: np.zeros((len(x), 1)), box)
    spots = box.low + flat.places * (box.high - box.low)
    values = np.zeros((len(spots), 2))
    values[17, 1] = 1.0
    corners = np.array([[[0.0, 10], [2, 10], [0, 14]], [[2.0, 14], [2, 10], [0, 14]]])
    errors, where = Probes(box, flat.places, values).errors(corners, np.zeros((2, 3, 2)))
    own = 0 if flat.places[17].sum() < 1.0 else 1
    assert errors.tolist() == [float(own == 0), float(own == 1)]
    np.testing.assert_allclose(where[own] @ corners[own], spots[17])
    np.testing.assert_allclose(where.sum(axis=1), 1.0)


def test_probes_are_in_the_box_and_leave_no_large_gap():
    for dim, reach in ((1, 5e-4), (2, 0.03), (3, 0.12)):
        probes = Probes.of(lambda x: x, Box([-3.0] * dim, [5.0] * dim))
        assert ((probes.values >= -3.0) & (probes.values <= 5.0)).all()
        targets = np.random.default_rng(0).uniform(size=(200, dim))
        gaps = np.abs(targets[:, None] - probes.places).max(axis=2).min(axis=1)
        assert gaps.max() < reach


def test_without_constants_nothing_is_certified():
    result = approximate(waves, unit_box(1), 4)
    assert result.certified_error is None
    assert result.measured_error > 0.0


def test_vector_valued_functions_are_approximated_together():
    def both(x):
        return np.column_stack([np.sin(x[:, 0]), x[:, 0] * x[:, 1], np.ones(len(x))])

    result = approximate(both, unit_box(2), 60)
    points = np.random.default_rng(0).uniform(0, 1.5, (100, 2))
    assert np.abs(result(points) - both(points)).max() <= result.measured_error + 1e-9


def test_a_piecewise_linear_function_on_the_mesh_is_exact_and_refinement_stops():
    result = approximate(lambda x: np.abs(x[:, 0] - 0.75), unit_box(1), 100)
    assert result.n_pieces == 2
    assert result.measured_error <= 1e-15


@pytest.mark.parametrize(("dim", "count"), [(1, 1), (2, 2), (3, 6)])
def test_meshes_fill_the_box_face_to_face(dim, count):
    mesh = BisectionMesh(Box([1.0] * dim, [4.0] * dim))
    assert len(mesh.simplices) == count
    rng = np.random.default_rng(dim)
    for _ in range(20):
        mesh.bisect(mesh.terminal_edge(int(rng.choice(list(mesh.simplices)))))
    vertices, simplices = mesh.arrays()
    # Conformity is decided in integers when the pieces are asked for.
    assert Mesh(vertices, simplices, np.zeros(len(vertices))).pieces.n_cells == len(simplices)
    corners = vertices[simplices]
    volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    np.testing.assert_allclose(volumes.sum(), 3.0**dim * np.prod(range(1, dim + 1)))


def test_triangles_keep_their_shape():
    """Halving longest edges of a square makes isosceles right triangles only."""

    def closeness(corners):
        sizes = np.ptp(corners, axis=1).prod(axis=1)
        return sizes / np.abs(corners - 0.3).max(axis=(1, 2))

    vertices, simplices = adaptive_mesh(Box([0, 0], [1, 1]), 150, closeness)
    corners = vertices[simplices]
    areas = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 2
    sides = corners - np.roll(corners, 1, axis=1)
    np.testing.assert_allclose((sides**2).sum(axis=2).max(axis=1) / areas, 4.0)


def test_bisection_stops_before_floats_run_out():
    vertices, simplices = adaptive_mesh(
        Box([1.0], [1.0 + 2.0**-45]), 500, lambda c: np.ones(len(c))
    )
    assert 1 <= len(simplices) < 500
    assert (np.ptp(vertices[simplices], axis=1) > 0).all()


def test_the_radius_bounds_the_smallest_enclosing_ball():
    triangle = np.array([[[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]]])
    assert enclosing_radius(triangle) == pytest.approx(1 / np.sqrt(3))
    assert enclosing_radius(np.array([[[0.0], [1e-200]]])) == pytest.approx(5e-201)


def test_the_lattice_has_binomially_many_points_that_sum_to_one():
    points = barycentric_lattice(2, 4)
    assert points.shape == (15, 3)
    np.testing.assert_allclose(points.sum(axis=1), 1.0)
    assert len(np.unique(points, axis=0)) == 15


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (3.0, DtypeError, "`f` must be a function"),
        (lambda x: "a", DtypeError, "`f` must return real numbers"),
        (lambda x: x[:, 0] * 1j, DtypeError, "`f` must return real numbers"),
        (lambda x: 1.0, ArgumentError, r"`f` must map points of shape \(n_points, 1\)"),
        (lambda x: x[:-1, 0], ArgumentError, "`f` must map points"),
        (lambda x: np.where(x[:, 0] > 1, np.nan, 0.0), ArgumentError, "`f` must be finite .* at"),
    ],
)
def test_functions_that_return_something_else_are_refused(f, error, message):
    with pytest.raises(error, match=message):
        approximate(f, unit_box(1), 8)


JUMPS = {
    "a step": (1, lambda x: x[:, 0] > 0.3, 1.0, 0.3),
    "a step at a corner of the mesh": (1, lambda x: x[:, 0] > 0.5, 1.0, 0.5),
    "a point": (1, lambda x: x[:, 0] == 0.75, 1.0, 0.75),
    "an end": (1, lambda x: x[:, 0] == 0.0, 1.0, 0.0),
    "a narrow window": (1, lambda x: (x[:, 0] > 0.301) & (x[:, 0] < 0.3025), 1.0, None),
    "a small step on a wave": (
        1,
        lambda x: np.sin(9 * x[:, 0]) + 1e-3 * (x[:, 0] > 0.3),
        1e-3,
        0.3,
    ),
    "stairs": (1, lambda x: np.floor(7 * x[:, 0]), 1.0, None),
    "a half-plane": (2, lambda x: x.sum(axis=1) > 1.1, 1.0, None),
    "a disc": (2, lambda x: ((x - 0.43) ** 2).sum(axis=1) < 1e-3, 1.0, None),
    "one of two outputs": (2, lambda x: np.column_stack([x[:, 0], x[:, 1] > 0.4]), 1.0, None),
    "a ball": (3, lambda x: ((x - 0.43) ** 2).sum(axis=1) < 0.04, 1.0, None),
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.parametrize("n_pieces", [12, 60])
def test_a_jump_is_refused_with_its_place_and_size(name, n_pieces):
    dim, f, size, place = JUMPS[name]
    with pytest.raises(DiscontinuityError, match="`f` must be continuous; it jumps by") as refused:
        approximate(lambda x: f(x) * 1.0, Box([0.0] * dim, [1.0] * dim), n_pieces)
    found = float(re.search(r"jumps by (\S+),", str(refused.value))[1])
    assert found == pytest.approx(size, rel=1e-3)
    if place is not None:
        ends = [float(x) for x in re.findall(r"at \[([^\]]+)\]", str(refused.value))]
        assert max(abs(end - place) for end in ends) < 1e-15


CONTINUOUS = {
    "a root": lambda x: np.sqrt(np.abs(x[:, 0] - 0.3)),
    "a tenth root": lambda x: np.abs(x[:, 0] - 0.3) ** 0.1,
    "a steep slope": lambda x: np.tanh(1e9 * (x[:, 0] - 0.3)),
    "a fast wave": lambda x: np.sin(1e6 * x[:, 0]),
    "a kink": lambda x: np.abs(x[:, 0] - 0.3),
    "a wave in float32": lambda x: np.sin(9 * x[:, 0].astype(np.float32)),
    "nothing": lambda x: np.zeros(len(x)),
    "huge": lambda x: 1e300 * np.sin(9 * x[:, 0]),
    "tiny": lambda x: 1e-300 * np.sin(9 * x[:, 0]),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_steep_and_rounded_functions_are_not_taken_for_jumps(name):
    f = checked_function(CONTINUOUS[name], 1)
    box = Box([0.0], [1.0])
    vertices, simplices = adaptive_mesh(box, 30, lambda c: estimate_errors(f, c))
    _refuse_jumps(f, vertices[simplices], Probes.of(f, box))


def test_a_constant_that_does_not_hold_is_refused():
    wave, box = (lambda x: np.sin(9 * x[:, 0])), Box([0.0], [1.0])
    with pytest.raises(ArgumentError, match="`lipschitz` is too small for `f`"):
        approximate(wave, box, 10, lipschitz=0.1)
    with pytest.raises(ArgumentError, match="`second_derivative` is too small for `f`"):
        approximate(wave, box, 10, lipschitz=9.0, second_derivative=1.0)


def test_functions_of_one_number_are_taken_in_one_dimension():
    by_numbers = approximate(math.sin, unit_box(1), 20)
    by_arrays = approximate(lambda x: np.sin(x[:, 0]), unit_box(1), 20)
    assert by_numbers.measured_error == pytest.approx(by_arrays.measured_error, rel=1e-6)
    branching = approximate(lambda x: x if x > 0.75 else 0.75, unit_box(1), 20)
    assert branching.measured_error < 1e-15


@pytest.mark.parametrize("f", [math.hypot, lambda x, y: x + y, lambda x: 1.0 if x > 0 else 0.0])
def test_functions_that_take_no_arrays_are_refused_in_the_plane(f):
    with pytest.raises(
        ArgumentError, match=r"`f` must accept an array of points of shape \(n_points, 2"
    ):
        approximate(f, unit_box(2), 20)


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ArgumentError, match="`n_pieces` must be at least 6"):
        approximate(waves, unit_box(3), 5)
    with pytest.raises(ArgumentError, match="`n_pieces` must be at most"):
        approximate(waves, unit_box(2), 10**6)
    with pytest.raises(ArgumentError, match="`box` must have dimension at most 3"):
        approximate(waves, unit_box(4), 30)
    with pytest.raises(DtypeError, match="`box`"):
        approximate(waves, WholeSpace(1), 30)
    with pytest.raises(ArgumentError, match="`lipschitz`"):
        approximate(waves, unit_box(1), 30, lipschitz=-1.0)
    with pytest.raises(ArgumentError, match="`second_derivative`"):
        approximate(waves, unit_box(1), 30, second_derivative=np.inf)
