import numpy as np
import pytest

from hardmax.errors import ArgumentError, DtypeError, Interrupted
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.networks import ReluNetwork
from hardmax.regions._tree import split_tree
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from tests.reference import regions as reference
from tests.region_models import (
    box_and_space,
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    reference_cells,
    repeated_units,
)
from tests.sweeps import seeds

DEGENERATE = {
    "integer": lambda d: integer_relu(d, [d, 3, 2]),
    "zero bias": lambda d: integer_relu(10 + d, [d, 3, 2], zero_bias=True),
    "repeated units": repeated_units,
    "maxout": lambda d: integer_maxout(d, d, [[3, 1, 2], [2]]),
    "heads": lambda d: integer_transformer(12, d, 3, 1 if d == 3 else 2, 1, 1 if d == 3 else 2),
    "repeated keys": lambda d: integer_transformer(d, d, 4, 2, 1, 1, repeat=True),
    "two blocks": lambda d: integer_transformer(4, d, 2, 1, 2, 1),
}


def names(partition):
    return {tuple(signature) for signature in partition.signatures.tolist()}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", DEGENERATE)
def test_all_engines_agree_with_the_definition_on_degenerate_models(kind, dim, exact):
    model = DEGENERATE[kind](dim)
    for domain in box_and_space(dim):
        found = reference_cells(model, domain)
        partition = enumerate_regions(model, domain, exact=exact)
        assert partition.is_complete
        assert partition.n_cells == len(found)
        assert names(partition) == {signature for signature, _, _ in found}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_three_counts_are_those_of_the_definition(seed, exact):
    models = integer_transformer(seed, 1, 3, 2, 2), integer_transformer(12 + seed, 2, 3, 2, 1, 1)
    for dim, model in enumerate(models, 1):
        for domain in box_and_space(dim):
            wanted = reference.counts(reference_cells(model, domain))
            part = enumerate_regions(model, domain, exact=exact)
            assert (part.n_cells, part.n_regions, part.n_affine_maps) == wanted


def test_the_three_counts_differ():
    # Two outer keys share a value, so two far cells have one map; two middle cells merge.
    model = integer_transformer(14, 2, 3, 2)
    part = enumerate_regions(model, WholeSpace(2))
    assert part.n_cells > part.n_regions > part.n_affine_maps


@pytest.mark.parametrize(
    ("seed", "dims", "in_box", "in_space"),
    [(65, [2, 16, 16], 421, 465), (66, [2, 32, 32, 32], 3949, 4729)],
)
def test_planar_counts_of_an_independent_program(seed, dims, in_box, in_space):
    model = gaussian_relu(seed, dims)
    assert enumerate_regions(model, Box([-5, -5], [5, 5])).n_cells == in_box
    assert enumerate_regions(model, WholeSpace(2), count_only=True).n_cells == in_space


def test_counts_of_an_independent_program_in_two_and_three_dimensions_by_the_split_tree():
    model = gaussian_relu(65, [2, 16, 16])
    assert enumerate_regions(model, Box([-5, -5], [5, 5]), exact=True).n_cells == 421
    assert enumerate_regions(model, WholeSpace(2), exact=True).n_cells == 465
    model = gaussian_relu(67, [3, 12, 12])
    assert enumerate_regions(model, Box([-5] * 3, [5] * 3)).n_cells == 1990
    assert enumerate_regions(model, WholeSpace(3)).n_cells == 2394


@pytest.mark.parametrize("exact", [False, True])
def test_slices_segments_rays_lines_and_polytopes_agree_with_the_definition(exact):
    model = integer_relu(5, [3, 4, 2])
    origin, u, v = [0.5, -1.0, 0.25], [1.0, 0.0, 2.0], [0.0, 1.0, 1.0]
    domains = [
        Slice(origin, [u, v]),
        Slice(origin, [u, v], Box([-1, -2], [2, 1])),
        Slice(origin, [u, v], Polytope([[1, 1], [-1, 0], [0, -1]], [1, 1, 1])),
        Slice(origin, [u], WholeSpace(1)),
        Segment([0.1, -3.0, 0.7], [3.0, 2.9, -1e-3]),
        Ray(origin, u),
        Line(origin, v),
        Polytope([[1, 1, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]], [3, 1, 1, 1]),
    ]
    for domain in domains:
        wanted = {signature for signature, _, _ in reference_cells(model, domain)}
        assert names(enumerate_regions(model, domain, exact=exact)) == wanted


@pytest.mark.parametrize("seed", seeds(12))
def test_forms_that_coincide_only_on_a_slice_make_no_wall_there(seed):
    rng = np.random.default_rng(seed)
    models = (
        integer_relu(seed, [3, 3, 2], zero_bias=bool(seed % 2)),
        integer_transformer(seed, 3, 3, 2, 1, 1, repeat=bool(seed % 2)),
    )
    origin = rng.integers(-2, 3, 3) / 2
    # Directions with entries in -1..1 make units and keys coincide that differ in space.
    directions = np.array([[1.0, rng.integers(-1, 2), 0.0], [0.0, 0.0, 1.0]])[: 1 + seed % 2]
    for model in models:
        domain = Slice(origin, directions)
        found = reference_cells(model, domain)
        for exact in (False, True):
            part = enumerate_regions(model, domain, exact=exact)
            assert names(part) == {signature for signature, _, _ in found}
            if len(found) < 12:
                counts = part.n_cells, part.n_regions, part.n_affine_maps
                assert counts == reference.counts(found)


@pytest.mark.parametrize("seed", seeds(6))
def test_weights_of_all_scales_are_right(seed):
    rng = np.random.default_rng(seed)

    def wild(*shape):
        return rng.integers(-3, 4, shape) * 10.0 ** rng.choice([-300, -20, 0, 0, 1, 300], shape) / 3

    dim = 1 + seed % 3
    model = ReluNetwork([wild(dim, 3), wild(3, 2), np.ones((2, 1))], [wild(3), wild(2), None])
    for domain in (Box([-1e-3] * dim, [1e5] * dim), WholeSpace(dim)):
        wanted = {signature for signature, _, _ in reference_cells(model, domain)}
        for exact in (False, True):
            assert names(enumerate_regions(model, domain, exact=exact)) == wanted


def test_the_chart_of_a_slice_does_not_change_the_count():
    model = gaussian_relu(3, [4, 8, 8])
    rng = np.random.default_rng(0)
    origin, directions = rng.normal(size=4), rng.normal(size=(2, 4))
    turned = np.array([[1.0, 2.0], [-1.0, 1.0]]) @ np.round(directions, 3)
    counts = {
        enumerate_regions(model, Slice(origin, chart)).n_cells
        for chart in (np.round(directions, 3), turned, turned[::-1])
    }
    # Rounding the product moves the plane by 1e-16 only; the model is generic.
    assert len(counts) == 1


def test_a_model_without_groups_has_one_cell():
    model = integer_relu(0, [2])
    part = enumerate_regions(model, WholeSpace(2))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (1, 1, 1)
    assert enumerate_regions(model, WholeSpace(2), exact=True).n_cells == 1


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_limit_leaves_a_lower_bound_that_says_so(dim, exact):
    model = gaussian_relu(1, [dim, 6])
    domain = WholeSpace(dim)
    total = enumerate_regions(model, domain, exact=exact).n_cells
    part = enumerate_regions(model, domain, exact=exact, max_cells=total - 1)
    assert (part.n_found, part.is_complete) == (total - 1, False)
    assert part.n_cells == AtLeast(total - 1)
    assert "at least" in repr(part)
    assert names(part) <= names(enumerate_regions(model, domain))
    whole = enumerate_regions(model, domain, exact=exact, max_cells=total)
    assert (whole.n_cells, whole.is_complete) == (total, True)
    assert "at least" not in repr(whole)


def test_no_time_leaves_a_lower_bound():
    part = enumerate_regions(gaussian_relu(1, [3, 6, 6]), WholeSpace(3), exact=True, max_seconds=0)
    assert not part.is_complete
    assert part.n_found < enumerate_regions(gaussian_relu(1, [3, 6, 6]), WholeSpace(3)).n_cells


def test_an_interrupt_leaves_what_was_found(monkeypatch):
    leaves = split_tree.SplitTree.leaves

    def interrupted(self):
        for k, leaf in enumerate(leaves(self)):
            if k == 5:
                raise KeyboardInterrupt
            yield leaf

    monkeypatch.setattr(split_tree.SplitTree, "leaves", interrupted)
    with pytest.raises(Interrupted) as stop:
        enumerate_regions(gaussian_relu(1, [3, 6]), WholeSpace(3), exact=True)
    part = stop.value.partial
    assert (part.n_found, part.is_complete, len(part.signatures)) == (5, False, 5)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_counting_only_stores_nothing_and_counts_the_same(dim):
    model = gaussian_relu(2, [dim, 5, 4])
    part = enumerate_regions(model, WholeSpace(dim), count_only=True)
    assert part.n_cells == enumerate_regions(model, WholeSpace(dim)).n_cells
    with pytest.raises(ArgumentError, match="counted but not stored"):
        part.signatures


def test_what_is_no_model_or_no_domain_is_refused():
    model = gaussian_relu(1, [2, 3])
    with pytest.raises(DtypeError, match="`model` must be a model"):
        enumerate_regions(3, WholeSpace(2))
    with pytest.raises(DtypeError, match="`domain` must be a Box"):
        enumerate_regions(model, [[0, 0], [1, 1]])
    with pytest.raises(ArgumentError, match="`domain` must lie in the input space"):
        enumerate_regions(model, WholeSpace(3))
    with pytest.raises(ArgumentError, match="`domain` must have nonempty interior"):
        enumerate_regions(model, Polytope([[1, 0], [-1, 0]], [0, 0]))
    with pytest.raises(ArgumentError, match="`domain` must have nonempty interior"):
        enumerate_regions(model, Polytope([[0, 0]], [-1]))
    with pytest.raises(ArgumentError, match="`max_cells` must be at least 0"):
        enumerate_regions(model, WholeSpace(2), max_cells=-1)
    with pytest.raises(ArgumentError, match="`max_seconds` must be at least 0"):
        enumerate_regions(model, WholeSpace(2), max_seconds=-1.0)


def test_trivial_rows_of_a_polytope_change_nothing():
    model = gaussian_relu(1, [2, 3])
    plain = Polytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [1, 1, 1, 1])
    padded = Polytope([[0, 0], [1, 0], [1, 0], [-2, 0], [0, 1], [0, -1]], [5, 1, 1, 2, 1, 1])
    assert names(enumerate_regions(model, plain)) == names(enumerate_regions(model, padded))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("weight", [1e300, -1e308])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_products_beyond_the_floats_decide_nothing(dim, weight, bias):
    # Infinity less infinity is no number, and a number without a sign.
    weights = np.zeros((dim, 1))
    weights[:2, 0] = weight, -weight
    model = ReluNetwork([weights, [[1.0]]], [[bias], [0.0]])
    box = Box([1e10] * dim, [2e10] * dim)
    for count_only in (False, True):
        assert enumerate_regions(model, box, count_only=count_only).n_cells == 2
