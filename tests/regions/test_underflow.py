"""Where float64 ends: numbers too small to be kept are errors like any other, never zeros."""

from ctypes import c_void_p
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.geometry.domains import Box
from hardmax.models._arithmetic.normed_maps import NormedMap
from hardmax.models.argmax import AffineMap
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines.packed_layers import PackedMaps
from hardmax.regions._search.searches import N_EDGE
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.verify.checking import verify_certificate
from tests.extreme_models import LEAST, exact_memberships, model_and_domain, numbers
from tests.sweeps import seeds


def units(*rows):
    """A network with one hidden layer, its units given as rows (slopes, offset)."""
    table = np.array(rows)
    return ReluNetwork([table[:, :-1].T, np.ones((len(table), 1))], [table[:, -1], [0.0]])


def names(part):
    return sorted(map(tuple, part.signatures.tolist()))


def pairs(part):
    """The neighbours, by their signatures."""
    signatures = [tuple(row) for row in part.signatures.tolist()]
    return sorted(tuple(sorted((signatures[a], signatures[b]))) for a, b in part.neighbours.pairs)


def check(model, domain):
    """Compare everything about the cells with those found in integers alone."""
    truth = enumerate_regions(model, domain, exact=True)
    part = enumerate_regions(model, domain)
    assert names(part) == names(truth)
    assert enumerate_regions(model, domain, count_only=True).n_cells == truth.n_cells
    assert part.n_affine_maps == truth.n_affine_maps
    assert pairs(part) == pairs(truth)
    assert part.n_regions == truth.n_regions
    return part


WALLS = {
    "a wall 1e-400 from the origin": (7, [[0, 1e200, 1e-200], [1, 1, 0], [1, 0, 0]]),
    "a wall 1e-330 from the origin": (7, [[0, 1e100, 1e-230], [1, 1, 0], [1, 0, 0]]),
    "a wall 1e-320 from the origin": (7, [[0, 1e100, 1e-220], [1, 1, 0], [1, 0, 0]]),
    "walls that are the least number apart": (3, [[1, 0, 0, LEAST], [1, 0, 0, 0]]),
    "walls at the least angle": (4, [[1, LEAST, 0, 0], [1, 0, 0, 0]]),
    "large walls at the least angle": (4, [[1e300, LEAST, 0, 0], [1, 0, 0, 0]]),
    "four dimensions": (4, [[1e200, 0, 0, LEAST, 0], [1, 0, 0, 0, 0]]),
}


@pytest.mark.parametrize("name", WALLS)
def test_walls_that_floats_cannot_part_are_parted(name):
    count, rows = WALLS[name]
    dim = len(rows[0]) - 1
    model = units(*rows)
    part = check(model, Box([-3.0] * dim, [3.0] * dim))
    assert part.n_cells == count
    assert verify_certificate(model, part.certificate()).ok


@pytest.mark.parametrize("seed", seeds(4))
def test_networks_of_the_least_numbers_are_searched(seed):
    rng = np.random.default_rng(seed)
    shapes = (3, 5), (5, 2), (2, 1)
    weights = [LEAST * rng.choice([-1.0, 0.0, 1.0], shape) for shape in shapes]
    biases = [LEAST * rng.choice([-1.0, 0.0, 1.0], n) for _, n in shapes]
    check(ReluNetwork(weights, biases), Box([-3.0] * 3, [3.0] * 3))


@pytest.mark.parametrize("seed", seeds(64))
def test_designed_coincidences_at_every_magnitude(seed):
    model, domain = model_and_domain(seed)
    part = check(model, domain)
    dim = part.domain.dim
    if seed % 4 == 0:
        assert verify_certificate(model, part.certificate()).ok
    if seed % 4 == 1:
        rng = np.random.default_rng(seed)
        some = [0.0, LEAST, -LEAST, 1e-200, -1e-200, 1e-100, 0.5, -1.0, 1e100]
        points = np.concatenate([part.witnesses[:4], rng.choice(some, (4, dim))])
        points = points[np.isfinite(points).all(axis=1)]
        assert part.locate(points).tolist() == exact_memberships(part, points)
    if isinstance(domain, Box):
        assert sample_regions(model, domain, 50, seed).distinct <= part.n_cells


def test_norms_of_small_numbers_are_no_smaller_than_they_are():
    for size in (1.0, 1e-100, 1e-160, 1e-200, LEAST):
        bias = size * np.array([3.0, -4.0])
        normed = NormedMap.of(size * np.array([[3.0, 0.0], [4.0, 0.0]]), bias)
        for norm in (normed.bias_norm, normed.omega[0], normed.sigma, normed.frobenius):
            assert Fraction(float(norm)) ** 2 >= sum(Fraction(x) ** 2 for x in bias)


def test_a_bias_taken_a_small_part_of_a_time_is_rounded():
    # A point far out on a ray: the weight of the bias is known to few bits.
    for weight in (0.0, 2.0**-1060, 2.0**-1000, 1.0):
        end, weights, bias = np.zeros(1), np.full(2, weight), 1 / 3
        rows, scales = np.empty((2, 1)), np.zeros((2, 3))
        packed = PackedMaps([AffineMap(np.array([[1.0]]), np.array([bias]))])
        ends = (c_void_p * 2)(address(end), address(end))
        core().hm_line_enter(packed.records, ends, *map(address, (weights, rows, scales)))
        error = abs(Fraction(rows[0, 0]) - Fraction(weight) * Fraction(bias))
        assert error <= Fraction(scales[0, 2]) * Fraction(bias)
        assert (scales[0, 2] == 0.0) == (weight == 0.0)


def lines(rng, palette):
    """Two lines that cross, as edges of a polygon, and where they do."""
    edges = np.zeros((2, N_EDGE))
    edges[:, :3] = numbers(rng, palette, 2, 3)
    (a, b, c), (p, q, r) = [[Fraction(x) for x in row[:3]] for row in edges]
    weight = a * q - b * p
    if weight == 0:
        return None
    return edges, ((b * r - c * q) / weight, (c * p - a * r) / weight)


def crossing(edges):
    """Where the core says that two lines meet: `x, y`, radius, `dx, dy`, radius."""
    vertex = np.empty(6)
    core().hm_test_meet(address(edges[0]), address(edges[1]), address(vertex))
    return vertex


def test_radii_of_vertices_hold_at_every_magnitude():
    rng = np.random.default_rng(0)
    n_known = 0
    for _ in range(3000):
        palette = np.array([1.0, *10.0 ** rng.uniform(-320.0, 300.0, 2)])
        made = lines(rng, palette)
        if made is None:
            continue
        edges, true = made
        vertex = crossing(edges)
        rho = vertex[2]
        if not rho < np.inf:
            continue
        n_known += 1
        for got, x in zip(vertex[:2], true, strict=True):
            assert abs(Fraction(got) - x) <= Fraction(rho)
        assert rho != 0.0 or true == (0, 0)
        form = numbers(rng, palette, 3)
        sign = core().hm_test_filtered_sign(address(form), address(vertex))
        a, b, c = form.tolist()
        value = Fraction(a) * true[0] + Fraction(b) * true[1] + Fraction(c)
        assert sign == 0 or sign * value > 0
    assert n_known > 1000


def test_radii_of_directions_hold_at_every_magnitude():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        made = lines(rng, np.array([1.0, *10.0 ** rng.uniform(-320.0, 300.0, 2)]))
        if made is None:
            continue
        edges, _ = made
        # A side of the plane, at infinity.
        edges[0, :4] = 1.0, 0.0, 0.0, 1.0
        b, q = Fraction(edges[1, 0]), Fraction(edges[1, 1])
        if q == 0:
            continue
        dx, dy, rho = crossing(edges)[3:]
        if rho < np.inf:
            assert max(abs(Fraction(dx) + 1), abs(Fraction(dy) - b / q)) <= Fraction(rho)


def facet_of(form):
    """A form in three dimensions as the core scales it: `SpaceCell.facets` has the numbers."""
    facet = np.empty(8)
    core().hm_test_facet(address(form), address(facet))
    return facet


def test_a_scaled_form_has_a_radius_for_what_scaling_lost():
    rng = np.random.default_rng(2)
    n_lost = 0
    for _ in range(2000):
        palette = np.array([1.0, *10.0 ** rng.uniform(-320.0, 300.0, 2)])
        row = numbers(rng, palette, 4)
        *slopes, offset, _, slope_radius, radius, _ = facet_of(row)
        k = int(np.abs(row[:3]).argmax())
        if row[k] == 0.0 or slopes[k] == row[k]:
            continue
        factor = Fraction(slopes[k]) / Fraction(row[k])
        for x, before in zip(slopes, row[:3], strict=True):
            assert abs(Fraction(x) - Fraction(before) * factor) <= Fraction(slope_radius)
        n_lost += radius > 0.0
        if radius < np.inf:
            assert abs(Fraction(offset) - Fraction(row[3]) * factor) <= Fraction(radius)
    assert n_lost > 100


def test_radii_of_vertices_in_space_hold_at_every_magnitude():
    rng = np.random.default_rng(3)
    n_known = 0
    for _ in range(2000):
        palette = np.array([1.0, *10.0 ** rng.uniform(-320.0, 300.0, 2)])
        rows = np.array([numbers(rng, palette, 4) for _ in range(3)])
        facets = np.array([facet_of(row) for row in rows])
        vertex = np.empty(8)
        core().hm_test_meet_facets(address(facets), 1.0, address(vertex))
        if not vertex[3] < np.inf:
            continue
        n_known += 1
        matrix = fmpq_mat(3, 3, [fmpq(*x.as_integer_ratio()) for x in rows[:, :3].ravel().tolist()])
        offsets = fmpq_mat(3, 1, [fmpq(*(-x).as_integer_ratio()) for x in rows[:, 3].tolist()])
        for got, x in zip(vertex[:3], matrix.solve(offsets).entries(), strict=True):
            assert abs(Fraction(got) - Fraction(int(x.p), int(x.q))) <= Fraction(vertex[3])
    assert n_known > 500
