"""Points and their cells, against the inequalities of all cells in integers."""

import pickle
from bisect import bisect_left, bisect_right
from fractions import Fraction

import numpy as np
import pytest

from hardmax.errors import NonFiniteError
from hardmax.exact.dyadic import homogeneous_points
from hardmax.exact.strict_inequalities import is_strictly_positive
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.networks import ReluNetwork
from hardmax.regions._location import signature_index
from hardmax.regions._location.signature_index import SignatureIndex
from hardmax.regions.engines import enumerate_regions
from tests.region_models import (
    box_and_space,
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)


def by_definition(part, points):
    """Look at all inequalities of all cells."""
    found = np.full(len(points), -1)
    homogeneous = homogeneous_points(points)
    for i in range(part.n_cells):
        rows = np.array(list(part.rows(i).walls), dtype=object).reshape(-1, part.domain.dim + 1)
        inside = np.asarray((homogeneous @ rows.T > 0).all(axis=1), dtype=bool)
        assert (found[inside] == -1).all()
        found[inside] = i
    return found


def rounded_vertices(part):
    """All vertices, rounded: some on several walls, most next to them."""
    corners = [part.polytope(i).vertices for i in range(part.n_cells)]
    return np.unique(np.concatenate(corners), axis=0)


def adversarial(part, seed=0):
    """On walls, next to them, on a grid, outside, far out and next to the origin."""
    rng = np.random.default_rng(seed)
    dim = part.domain.dim
    vertices = rounded_vertices(part)
    vertices = vertices[rng.permutation(len(vertices))[:40]]
    middles = (vertices + vertices[rng.permutation(len(vertices))]) / 2
    return np.concatenate(
        [
            vertices,
            np.nextafter(vertices, np.inf),
            np.nextafter(vertices, rng.choice([-np.inf, np.inf], vertices.shape)),
            middles,
            rng.integers(-8, 9, (40, dim)) / 4,
            rng.normal(size=(40, dim)) * 2,
            rng.normal(size=(4, dim)) * 1e30,
            rng.normal(size=(4, dim)) * 1e300,
            rng.normal(size=(4, dim)) * 1e-300,
            np.zeros((1, dim)),
        ]
    )


def models(dim):
    yield integer_relu(dim, [dim, 4, 3])
    yield integer_relu(dim + 1, [dim, 3, 3], zero_bias=True)
    yield repeated_units(dim)
    yield integer_maxout(1, dim, [[3, 3], [2]])
    yield integer_transformer(0, dim, 3, 2)
    yield integer_transformer(1, dim, 3, 2, repeat=True)
    yield gaussian_relu(dim, [dim, 5, 4])


@pytest.mark.parametrize("kind", range(7))
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_are_where_the_inequalities_say(dim, kind):
    model = list(models(dim))[kind]
    for domain in box_and_space(dim):
        part = enumerate_regions(model, domain)
        points = adversarial(part)
        found = part.locate(points)
        np.testing.assert_array_equal(found, by_definition(part, points))
        # One at a time, in another order, and from a copy read back.
        assert [int(part.locate(x)) for x in points[::40]] == found[::40].tolist()
        copy = pickle.loads(pickle.dumps(part))
        np.testing.assert_array_equal(copy.locate(points[::-1])[::-1], found)


def test_nearest_floats_to_walls_of_a_deeper_network():
    """Decisions with bounds a million times too small would be wrong here."""
    part = enumerate_regions(gaussian_relu(3, [2, 6, 6, 6]), Box([-2, -2], [2, 2]))
    rng = np.random.default_rng(0)
    points = []
    for i in range(0, part.n_cells, 5):
        corners = part.polytope(i).vertices
        weights = rng.random((3, len(corners), 1))
        points.append(
            (weights * corners + (1 - weights) * np.roll(corners, 1, axis=0)).reshape(-1, 2)
        )
    close = np.concatenate(points)[:150]
    np.testing.assert_array_equal(part.locate(close), by_definition(part, close))


@pytest.mark.parametrize(
    "domain",
    [
        Slice([0.5, 0.1, 0.0], [[1.0, 0.3, 0.0], [0.1, 1.0, 1.0]], Box([-3, -3], [3, 3])),
        Slice([0.5, 0.1, 0.0], [[1.0, 0.3, 0.0], [0.1, 1.0, 1.0]], WholeSpace(2)),
        Slice([0, 0, 0], [[1, 0, 0], [0, 1, 1]], Polytope([[1, 1], [-1, 0], [0, -1]], [2, 1, 1])),
        Segment([0.1, -3.0, 0.7], [3.0, 2.9, -1e-3]),
        Ray([0.1, -3.0, 0.7], [1.0, 2.0, -1.0]),
        Line([0.0, 0.0, 0.0], [1.0, 1.0, -1.0]),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_points_of_slices_are_located_in_coordinates(domain):
    for model in (gaussian_relu(8, [3, 6, 4]), integer_relu(2, [3, 4, 3]), repeated_units(3)):
        part = enumerate_regions(model, domain)
        points = adversarial(part)
        np.testing.assert_array_equal(part.locate(points), by_definition(part, points))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n_cells", [None, 0, 1, 7])
def test_points_on_lines_lie_between_breakpoints(n_cells, exact):
    for model in (gaussian_relu(5, [3, 16, 16]), integer_transformer(2, 3, 6, 3, 2)):
        segment = Segment([-3.1, 2.0, 0.1], [2.7, -1.0, 0.3])
        part = enumerate_regions(model, segment, max_cells=n_cells, exact=exact)
        whole = enumerate_regions(model, segment)
        known = {tuple(name): i for i, name in enumerate(part.signatures.tolist())}
        names = [tuple(name) for name in whole.signatures.tolist()]
        points, wanted = next_to(whole.breakpoints.tolist(), Fraction(0), Fraction(1))
        cells = [known.get(names[i], -1) if i >= 0 else -1 for i in wanted]
        # Many points of a cell make it worth looking into; then again, and a single one.
        for _ in range(2):
            assert part.locate(np.tile(points, (3, 1))).tolist() == cells * 3
        assert part.locate(points[5]) == cells[5]
        fresh = pickle.loads(pickle.dumps(part))
        assert fresh.locate(points).tolist() == cells


def next_to(breakpoints, first, last):
    """Points on, next to and between breakpoints, and the cells they are in."""
    ends = [first, *breakpoints, last]
    near = np.array([float(end) for end in ends])
    points = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    points = np.concatenate([points, (near[1:] + near[:-1]) / 2, [-1e300, 5e-324, 1e300]])
    wanted = []
    for t in map(Fraction, points.tolist()):
        cell = bisect_left(ends, t) - 1
        is_inside = cell == bisect_right(ends, t) - 1 and cell < len(ends) - 1
        wanted.append(cell if is_inside else -1)
    return points[:, np.newaxis], wanted


def test_lines_that_were_searched_in_strips():
    tents = [
        np.ones((1, 2)),
        *[np.array([[2.0, 2.0], [-4.0, -4.0]])] * 6,
        np.array([[2.0], [-4.0]]),
    ]
    model = ReluNetwork(tents, [[0.0, -0.5]] * 7 + [[0.0]])
    part = enumerate_regions(model, Segment([0.0], [1.0]))
    assert part.n_cells == 128
    points, wanted = next_to(part.breakpoints.tolist(), Fraction(0), Fraction(1))
    assert part.locate(points).tolist() == wanted


def test_breakpoints_that_are_floats_are_in_no_cell():
    relu = ReluNetwork([[[1.0, 1.0, 1.0]], [[1.0], [1.0], [1.0]]], [[0.0, -0.5, -0.5], [0.0]])
    for domain in (Box([-1], [1]), WholeSpace(1)):
        part = enumerate_regions(relu, domain)
        points = [[-0.25], [0.0], [5e-324], [-5e-324], [0.25], [0.5], [0.75], [1e308], [-1e308]]
        far = [part.n_cells - 1, 0] if isinstance(domain, WholeSpace) else [-1, -1]
        assert part.locate(points).tolist() == [0, -1, 1, 0, 1, -1, 2, *far]


def test_a_stopped_search_locates_what_it_found():
    model = gaussian_relu(4, [2, 8, 8])
    domain = Box([-2, -2], [2, 2])
    whole = enumerate_regions(model, domain)
    part = enumerate_regions(model, domain, max_cells=whole.n_cells // 2)
    points = np.random.default_rng(0).uniform(-2, 2, (300, 2))
    found, names = part.locate(points), whole.signatures[whole.locate(points)]
    known = {tuple(name): i for i, name in enumerate(part.signatures.tolist())}
    assert found.tolist() == [known.get(tuple(name), -1) for name in names.tolist()]
    assert (found == -1).any()
    assert (found >= 0).any()


def test_wide_input_spaces_and_no_points():
    part = enumerate_regions(integer_relu(0, [4, 3, 2]), Box([-1] * 4, [2] * 4))
    points = np.random.default_rng(0).integers(-4, 9, (60, 4)) / 4
    np.testing.assert_array_equal(part.locate(points), by_definition(part, points))
    assert part.locate(np.empty((0, 4))).shape == (0,)
    single = enumerate_regions(integer_relu(0, [2]), Box([-1, -1], [1, 1]))
    assert single.locate([[0.0, 0.0], [1.0, 0.0]]).tolist() == [0, -1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_must_be_finite(bad):
    for domain in (WholeSpace(2), Segment([0, 0], [1, 1])):
        part = enumerate_regions(integer_relu(4, [2, 3]), domain)
        point = [bad] * part.domain.dim
        with pytest.raises(NonFiniteError, match="`points` must not hold"):
            part.locate([point])


def test_signatures_are_told_apart_where_hashes_are_not(monkeypatch):
    names = np.array([[0, 1], [1, 0], [1, 1], [2, 0]], dtype=np.uint8)
    wanted = np.array([[2, 0], [0, 0], [1, 1], [0, 1], [0, 2]])
    assert SignatureIndex.of(names).find(wanted).tolist() == [3, -1, 2, 0, -1]
    same = lambda rows: np.zeros(len(rows), dtype=np.uint64)  # noqa: E731
    monkeypatch.setattr(signature_index, "hashed_signatures", same)
    assert SignatureIndex.of(names).find(wanted).tolist() == [3, -1, 2, 0, -1]
    assert SignatureIndex.of(names[:0]).find(wanted).tolist() == [-1] * 5


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1.0, 1e300])
def test_strict_inequalities_are_decided_by_the_last_bit(scale):
    rng = np.random.default_rng(0)
    rows = [tuple(row) for row in rng.integers(-(10**9), 10**9, (30, 3)).tolist()]
    rows[0] = (3**200, -(7**150), 1)
    for row in rows:
        x = rng.normal(size=40) * scale
        y = np.array([float((-row[0] * Fraction(a) - row[2]) / row[1]) for a in x.tolist()])
        points = np.stack([x, y], axis=1)
        values = [row[0] * Fraction(a) + row[1] * Fraction(b) + row[2] for a, b in points.tolist()]
        assert is_strictly_positive([row], points).tolist() == [value > 0 for value in values]
