"""Extreme points and active forms: against elimination, degenerate, every proof checked."""

import dataclasses
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from hardmax.errors import DtypeError, EmptyInputError, NonFiniteError, ShapeMismatchError
from hardmax.exact.forms import AffineForms
from hardmax.geometry._hulls import vertex_search
from hardmax.geometry._hulls.affine_coordinates import (
    AffineCoordinates,
    _round_coordinates,
    affine_coordinates,
)
from hardmax.geometry._hulls.nearest_points import UNDECIDED
from hardmax.geometry._hulls.vertex_search import VertexProofs, _accept_winners, _prove_inside
from hardmax.geometry.cones import positive_dependence
from hardmax.geometry.extreme_points import (
    active_forms,
    certify_extreme_points,
    extreme_points,
    verify_extreme_points,
)
from tests.reference.convexity import active_mask, extreme_mask
from tests.strategies import WILD, matrices
from tests.sweeps import examples

N_POINTS = st.integers(1, 7)
DIMS = st.integers(0, 3)


def decided(points):
    """The mask, after both entry points agree and the proofs verify."""
    mask = extreme_points(points)
    certificates = certify_extreme_points(points)
    assert certificates.is_extreme.tolist() == mask.tolist()
    assert certificates.verify(points)
    return mask


@given(matrices(N_POINTS, DIMS))
def test_the_mask_matches_elimination(points):
    assert decided(points).tolist() == extreme_mask(points)


@examples(30)
@given(matrices(st.integers(1, 5), DIMS, WILD))
def test_scales_from_subnormal_to_huge_match_elimination(points):
    assert decided(points).tolist() == extreme_mask(points)


@given(matrices(st.integers(1, 6), st.integers(0, 3)))
def test_active_forms_match_elimination(lifted):
    slopes, offsets = lifted[:, 1:], lifted[:, :1].sum(axis=1)
    assert active_forms(AffineForms(slopes, offsets)).tolist() == active_mask(slopes, offsets)


@examples(30)
@given(matrices(st.integers(1, 5), st.integers(1, 3), WILD))
def test_active_forms_match_elimination_at_all_scales(lifted):
    slopes, offsets = lifted[:, 1:], lifted[:, 0]
    assert active_forms(AffineForms(slopes, offsets)).tolist() == active_mask(slopes, offsets)


@given(matrices(st.integers(1, 12), st.integers(0, 5)))
def test_without_offsets_the_active_forms_are_the_extreme_slopes(slopes):
    forms = AffineForms(slopes, np.zeros(len(slopes)))
    assert active_forms(forms).tolist() == extreme_points(slopes).tolist()


@given(matrices(st.integers(2, 12), st.integers(1, 4)), st.lists(st.integers(-3, 3), min_size=5))
def test_a_common_affine_form_changes_no_winner(lifted, common):
    slopes, offsets = lifted[:, 1:], lifted[:, 0]
    slope = np.array(common[: slopes.shape[1]], dtype=float)
    before = active_forms(AffineForms(slopes, offsets))
    after = active_forms(AffineForms(slopes + slope, offsets + common[-1]))
    assert before.tolist() == after.tolist()


@given(matrices(st.integers(1, 14), st.integers(1, 5)), st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points, random):
    points = np.unique(points, axis=0)
    order = list(range(len(points)))
    random.shuffle(order)
    assert extreme_points(points)[order].tolist() == extreme_points(points[order]).tolist()


@given(matrices(st.integers(2, 12), st.integers(2, 4)), st.integers(-5, 5), st.integers(-60, 60))
def test_shears_and_powers_of_two_change_nothing(points, shear, power):
    moved = points.copy()
    moved[:, 0] += shear * points[:, 1]
    moved[:, 1] = np.ldexp(moved[:, 1], power)
    assert decided(moved).tolist() == extreme_points(points).tolist()


@given(matrices(st.integers(2, 10), st.integers(1, 4)))
def test_midpoints_and_repeats_are_never_extreme(points):
    """Every midpoint of two of the points is added, exactly, and every point once more."""
    pairs = [(a + b) / 2 for a, b in product(points, points) if (a != b).any()]
    more = np.concatenate([points, *(pair[None] for pair in pairs[:20]), points])
    mask = decided(more)
    assert mask[: len(points)].tolist() == extreme_points(points).tolist()
    assert not mask[len(points) :].any()


@given(matrices(st.integers(1, 12), st.integers(1, 4)))
def test_every_path_of_the_search_gives_the_same_mask(points):
    """Cheap directions, the compiled search and exact cones, each one alone."""
    usual = decided(points).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vertex_search, "_iter_central_directions", lambda *_: iter(()))
        assert decided(points).tolist() == usual
        patch.setattr(vertex_search.CandidateSearch, "find", _never_decides)
        assert decided(points).tolist() == usual


def _never_decides(search, targets):
    n, dim = targets.size, search.dim
    return np.full(n, UNDECIDED), [[] for _ in range(n)], np.zeros((n, dim))


@pytest.mark.parametrize(("n_points", "dim"), [(30, 2), (257, 2), (300, 3), (120, 4), (60, 5)])
def test_generic_points_agree_with_qhull(n_points, dim):
    points = np.random.default_rng([n_points, dim]).normal(size=(n_points, dim))
    expected = np.isin(np.arange(n_points), ConvexHull(points).vertices)
    assert decided(points).tolist() == expected.tolist()


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_a_lattice_box_has_its_corners(dim):
    points = np.array(list(product(range(4), repeat=dim)), dtype=float)
    corners = np.isin(points, [0.0, 3.0]).all(axis=1)
    assert decided(points).tolist() == corners.tolist()


@pytest.mark.parametrize("dim", [2, 5, 8])
def test_a_cross_polytope_hides_its_centre_and_edges(dim):
    tips = np.concatenate([np.eye(dim), -np.eye(dim)])
    edges = [(a + b) / 2 for a, b in combinations(tips, 2)]
    mask = decided(np.concatenate([np.array(edges), tips]))
    assert mask.tolist() == [False] * len(edges) + [True] * (2 * dim)


def test_every_point_of_the_moment_curve_is_extreme():
    """Cyclic polytopes: as thin as integers allow."""
    t = np.arange(-12, 13, dtype=float)
    points = np.stack([t, t**2, t**3, t**4, t**5, t**6], axis=1)
    assert decided(points).all()
    inside = np.concatenate([points, (points[:-1] + points[1:]) / 2])
    assert decided(inside)[:25].sum() == 25


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_one_unit_in_the_last_place_decides(step):
    """A point on the edge of a triangle, moved by the smallest amount there is."""
    height = 0.5
    for _ in range(abs(step)):
        height = np.nextafter(height, step * np.inf)
    points = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.5, height]])
    assert decided(points).tolist() == [True, True, True, step > 0]


@pytest.mark.parametrize("dim", [3, 6])
@pytest.mark.parametrize("power", [-20, -44, -50])
@pytest.mark.parametrize("side", [-1, 0, 1])
def test_a_point_next_to_a_facet_is_decided(dim, power, side):
    """Weights 1/dim on one facet of a simplex, off it by a tiny power of two."""
    simplex = np.concatenate([np.eye(dim), np.zeros((1, dim))]) * 3 * 2.0 * dim
    point = np.full(dim, 6.0)
    point[0] += side * np.ldexp(1.0, power)
    mask = decided(np.concatenate([simplex, point[None]]))
    assert mask.tolist() == [True] * (dim + 1) + [side > 0]


@pytest.mark.parametrize("dim", [3, 6, 16])
@pytest.mark.parametrize("smallest", [-8, -30, -250])
def test_badly_scaled_axes_change_nothing(dim, smallest):
    """Powers of two scale exactly, so the mask must be the same to the last point."""
    rng = np.random.default_rng(dim)
    points = rng.normal(size=(150, dim))
    points[75:] *= 0.3
    scales = np.exp2(np.rint(np.linspace(0, np.log2(10.0) * smallest, dim)))
    assert decided(points * scales).tolist() == extreme_points(points).tolist()


def test_rotated_badly_scaled_axes_are_certified():
    """A pancake of thickness 1e-10 in general position: rounding makes it another set, exactly."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    points = (rng.normal(size=(120, 6)) * np.logspace(0, -10, 6)) @ rotation
    assert decided(points).sum() > 6


def test_keys_of_low_rank_are_certified():
    """Rank 3 up to rounding: the rounding errors are part of the points."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 6))
    assert decided(points).sum() > 4


def test_clusters_a_hair_apart_are_certified():
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(6, 4))
    points = centres[rng.integers(0, 6, 120)] + 1e-8 * rng.normal(size=(120, 4))
    assert decided(points).sum() > 10


@pytest.mark.parametrize("n_points", [254, 255, 256, 257, 512, 513])
def test_no_point_is_lost_at_the_edge_of_a_block(n_points):
    """Half on a circle of integers, scaled; half strictly inside."""
    angles = np.arange(n_points) * 2 * np.pi / n_points
    outside = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points = np.concatenate([outside, outside * 0.9])
    assert decided(points).tolist() == [True] * n_points + [False] * n_points


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_flat_sets_live_in_their_own_dimension(dim):
    rng = np.random.default_rng(dim)
    flat = rng.integers(-4, 5, size=(40, 2)).astype(float)
    embedding = rng.integers(-3, 4, size=(2, dim + 3)).astype(float)
    assert np.linalg.matrix_rank(embedding) == 2
    points = flat @ embedding + rng.integers(-9, 9, size=dim + 3)
    assert decided(points).tolist() == extreme_points(flat).tolist()


@pytest.mark.parametrize(
    ("points", "mask"),
    [
        ([[5.0]], [True]),
        ([[]], [True]),
        ([[], []], [True, False]),
        ([[1.0, 2.0]] * 3, [True, False, False]),
        ([[0.0], [-0.0], [1.0]], [True, False, True]),
        ([[0.0], [1.0], [2.0], [2.0]], [True, False, True, False]),
        ([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [True, False, True]),
        ([[5e-324], [0.0], [-5e-324]], [True, False, True]),
        ([[1e308], [-1e308], [0.0]], [True, True, False]),
    ],
)
def test_degenerate_sets_have_the_defined_answer(points, mask):
    assert decided(points).tolist() == mask


def test_a_large_common_offset_is_harmless():
    points = np.random.default_rng(4).integers(-50, 50, size=(60, 3)).astype(float)
    assert decided(points + 2.0**40).tolist() == extreme_points(points).tolist()


def test_collinear_and_repeated_forms():
    slopes = np.array([[0.0], [1.0], [2.0], [3.0], [1.0]])
    concave = active_forms(AffineForms(slopes, [0.0, 0.0, -1.0, -3.0, 0.0]))
    assert concave.tolist() == [True, True, True, True, False]
    convex = active_forms(AffineForms(slopes, [0.0, 0.0, 1.0, 3.0, 0.0]))
    assert convex.tolist() == [True, False, False, True, False]
    assert active_forms(AffineForms(slopes[:1], [7.0])).tolist() == [True]
    parallel = AffineForms([[1.0, 1.0]] * 3, [0.0, 2.0, 1.0])
    assert active_forms(parallel).tolist() == [False, True, False]
    constants = AffineForms(np.zeros((3, 0)), [0.0, 2.0, 2.0])
    assert active_forms(constants).tolist() == [False, True, False]


@pytest.mark.parametrize(("n_forms", "dim"), [(400, 2), (300, 5)])
def test_the_lift_of_a_voronoi_diagram_hides_no_site(n_forms, dim):
    sites = np.random.default_rng(dim).integers(-500, 500, size=(n_forms, dim)).astype(float)
    sites = np.unique(sites, axis=0)
    forms = AffineForms(2.0 * sites, -(sites * sites).sum(axis=1))
    assert active_forms(forms).all()


def test_active_forms_are_those_that_win_somewhere():
    """A dense grid can only find winners, and in one dimension finds all wide ones."""
    rng = np.random.default_rng(5)
    forms = AffineForms(rng.integers(-9, 10, (30, 2)), rng.integers(-20, 21, 30))
    x = np.stack(np.meshgrid(*[np.linspace(-40, 40, 300) + 0.01] * 2), axis=-1).reshape(-1, 2)
    scores = forms(x)
    ordered = np.sort(scores, axis=1)
    alone = scores.argmax(axis=1)[ordered[:, -1] > ordered[:, -2] + 1e-9]
    assert set(alone.tolist()) <= set(np.flatnonzero(active_forms(forms)).tolist())
    assert len(set(alone.tolist())) >= active_forms(forms).sum() - 2


def test_a_win_within_rounding_error_is_not_believed():
    """Two columns round up on the losing point and down on the winning one."""
    big = 2**60
    points = np.array([[big + 129, big + 129], [big + 383, big + 127], [-big, -big]], dtype=object)
    exact = points.sum(axis=1)
    rounded, rays, exponents = _round_coordinates(points, np.empty((0, 2), dtype=object))
    scores = rounded.sum(axis=1)
    assert exact[1] > exact[0]
    assert scores[0] > scores[1]
    coordinates = AffineCoordinates(
        points, np.empty((0, 2), dtype=object), np.eye(2, dtype=object), exponents, rounded, rays,
        np.eye(2),
    )  # fmt: skip
    proofs = VertexProofs(np.zeros(3, dtype=bool))
    _accept_winners(coordinates, np.array([0]), np.array([[1.0, 1.0]]), proofs)
    assert not proofs.is_vertex.any()
    _accept_winners(coordinates, np.array([2]), np.array([[-1.0, -1.0]]), proofs)
    assert proofs.is_vertex.tolist() == [False, False, True]


def test_a_win_in_a_direction_the_ray_forbids_is_not_believed():
    up = np.array([[0, 1]], dtype=object)
    points = np.array([[0, -4], [3, 4], [-3, 4]], dtype=object)
    coordinates = affine_coordinates(points, up)
    for direction, winner in (([0.0, -1.0], None), ([1.0, 0.0], None), ([1.0, 1.0], 1)):
        proofs = VertexProofs(np.zeros(3, dtype=bool))
        _accept_winners(coordinates, np.array([0]), np.array([direction]), proofs)
        expected = [] if winner is None else [winner]
        assert np.flatnonzero(proofs.is_vertex).tolist() == expected


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_inclusion_by_approximate_inverse_is_never_wrong(dim):
    """Points within a few units of a facet, 60 bits from the origin of the scale."""
    rng = np.random.default_rng(dim)
    n_proven = 0
    for trial in range(150):
        corners = rng.integers(-(2**60), 2**60, size=(dim + 1, dim)).astype(object)
        weights = rng.integers(1, 100, size=dim + 1).astype(object)
        weights[0] = 0 if trial % 3 else 1
        inner = weights @ corners // int(weights.sum()) + rng.integers(-3, 4, size=dim)
        points = np.concatenate([corners, inner[None]])
        rounded, rays, exponents = _round_coordinates(points, np.empty((0, dim), dtype=object))
        coordinates = AffineCoordinates(
            points, np.empty((0, dim), dtype=object), np.eye(dim, dtype=object), exponents,
            rounded, rays, np.eye(dim),
        )  # fmt: skip
        support = np.arange(dim + 1)[None]
        proven = _prove_inside(coordinates, np.array([dim + 1]), support)[0]
        n_proven += proven
        if proven:
            assert positive_dependence(inner - corners) is not None
    # A third of the points lie well inside, and those are proven.
    assert n_proven >= 45


def test_many_keys_in_the_dimension_of_a_head():
    rng = np.random.default_rng(6)
    keys = rng.normal(size=(400, 64)) / np.arange(1, 65)
    weights = rng.dirichlet(np.ones(400), size=30)
    points = np.concatenate([keys, weights @ keys])
    assert decided(points).tolist() == [True] * 400 + [False] * 30


def _forgeries():
    """Ways to spoil the proofs of a square with its centre and a repeat."""
    yield lambda c: {"is_extreme": ~c.is_extreme}
    yield lambda c: {"is_extreme": c.is_extreme[:-1]}
    yield lambda c: {"first": np.arange(6)}
    yield lambda c: {"directions": -c.directions}
    yield lambda c: {"directions": c.directions * 0}
    yield lambda c: {"directions": c.directions[:-1]}
    yield lambda c: {"supports": ()}
    yield lambda c: {"supports": (np.array([4]),), "weights": ((1,),)}
    yield lambda c: {"supports": (np.array([0, 1]),), "weights": ((1, 1),)}
    yield lambda c: {"supports": (np.array([], np.int64),), "weights": ((),)}
    yield lambda c: {"weights": (tuple(-w for w in c.weights[0]),)}
    yield lambda c: {"weights": (tuple(float(w) for w in c.weights[0]),)}


@pytest.mark.parametrize("spoil", list(_forgeries()))
def test_the_verifier_refuses_a_forged_proof(spoil):
    points = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1], [2, 0]]
    certificates = certify_extreme_points(points)
    assert verify_extreme_points(points, certificates)
    forged = dataclasses.replace(certificates, **spoil(certificates))
    assert not verify_extreme_points(points, forged)


def test_certificates_are_read_only():
    certificates = certify_extreme_points([[0, 0], [2, 0], [1, 0]])
    with pytest.raises(ValueError, match="read-only"):
        certificates.is_extreme[0] = False
    with pytest.raises(ValueError, match="read-only"):
        certificates.supports[0][0] = 2


@pytest.mark.parametrize("function", [extreme_points, certify_extreme_points])
def test_bad_points_are_refused_by_name(function):
    with pytest.raises(EmptyInputError, match="`points` must have n_points >= 1"):
        function(np.empty((0, 3)))
    with pytest.raises(ShapeMismatchError, match="`points` must have shape"):
        function([1.0, 2.0])
    with pytest.raises(NonFiniteError, match="`points` must not hold NaN"):
        function([[np.nan]])
    with pytest.raises(NonFiniteError, match="`points` must not hold inf"):
        function([[np.inf]])
    with pytest.raises(DtypeError, match="`points` must hold real numbers"):
        function([["a"]])
