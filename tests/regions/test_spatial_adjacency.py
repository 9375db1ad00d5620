"""Neighbours from the facets of the spatial engine against those from exact polytopes."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._neighbours import facets as facets_module
from hardmax.regions._neighbours import overlapping_facets
from hardmax.regions._neighbours import space as spatial_adjacency
from hardmax.regions._neighbours.adjacency import neighbouring_cells
from hardmax.regions._neighbours.facets import OPEN, CoreFacets
from hardmax.regions._neighbours.plane import Regions
from hardmax.regions._search.rounded_forms import scale_ratio
from hardmax.regions.engines import enumerate_regions
from tests.region_models import (
    box_and_space,
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.sweeps import examples

HALF = Polytope([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], [0.0, 0.0])


def check(model, domain):
    """Compare pairs and walls with the general method; return the partition."""
    part = enumerate_regions(model, domain)
    assert part.cells.facets is not None
    cells = ((i, part.rows(i)) for i in range(part.n_cells))
    truth = neighbouring_cells(cells, part.domain.dim)
    assert part.neighbours.pairs.tolist() == truth.pairs.tolist()
    assert part.neighbours.walls == truth.walls
    return part


@pytest.fixture
def never_loose(monkeypatch):
    """Refuse to fall back: every facet has to be matched by its key."""

    def refused(*arguments):
        raise AssertionError("a facet was not matched")

    monkeypatch.setattr(CoreFacets, "is_settled", False)
    monkeypatch.setattr(spatial_adjacency, "overlapping_facets", refused)


@pytest.mark.usefixtures("never_loose")
@pytest.mark.parametrize("seed", range(3))
def test_units_alone_are_always_matched(seed):
    for domain in box_and_space(3):
        check(gaussian_relu(seed, [3, 4, 4]), domain)
        check(integer_relu(seed, [3, 4, 3, 2]), domain)
        check(integer_relu(seed, [3, 3, 3, 2], zero_bias=True), domain)
    check(gaussian_relu(seed, [4, 3, 3]), Box([-2] * 4, [2] * 4))


@pytest.mark.usefixtures("never_loose")
def test_walls_of_repeated_units_and_of_two_layers_coincide():
    for domain in box_and_space(3):
        part = check(repeated_units(3), domain)
        assert max(map(len, part.neighbours.walls)) >= 3
    # The second layer vanishes exactly where the first does, and once more where x + y = z.
    first = np.array([[1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 1.0]])
    second = np.array([[1.0, 2.0], [-1.0, 3.0], [0.0, 0.0]])
    part = check(ReluNetwork([first, second, np.ones((2, 1))]), Box([-1] * 3, [1] * 3))
    assert {walls for walls in part.neighbours.walls if len(walls) > 1}


@pytest.mark.usefixtures("never_loose")
def test_units_that_are_zero_on_a_whole_cell_match_what_they_are_beyond():
    # Without biases, all units of the second layer are zero where no unit of the first is on.
    rng = np.random.default_rng(0)
    weights = [-np.eye(3), rng.normal(size=(3, 4)), np.ones((4, 1))]
    part = check(ReluNetwork(weights), Box([-1] * 3, [1] * 3))
    off = part.locate([0.5, 0.5, 0.5])
    beyond = [j for pair in part.neighbours.pairs.tolist() if off in pair for j in pair if j != off]
    changes = part.signatures[beyond] != part.signatures[off]
    assert len(beyond) == 3
    assert changes.sum(axis=1).max() > 1


@pytest.mark.usefixtures("never_loose")
def test_one_layer_of_heads_or_of_maxout_units_is_matched():
    rng = np.random.default_rng(1)
    head = AttentionHead(np.eye(3), rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), np.eye(3))
    other = AttentionHead(np.eye(3), rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), np.eye(3))
    check(HardTransformer([Block([head, other], None)]), Box([-1] * 3, [1] * 3))
    first = [rng.normal(size=(rank, 3)) for rank in (2, 3)]
    second = [rng.normal(size=(rank, 2)) for rank in (3, 2)]
    check(MaxoutNetwork([first, second, np.ones((2, 1))]), Box([-1] * 3, [1] * 3))


def test_cells_touch_across_t_junctions():
    # A head moves the half-space x > 0 up by 1, then a unit asks whether y > 0.
    head = AttentionHead(
        np.array([[1.0], [0.0], [0.0]]), [[-1.0], [1.0]], [[0, 0, 0], [0, 1.0, 0]], np.eye(3)
    )
    ffn = FeedForward([[0.0], [1.0], [0.0]], [0.0], np.zeros((1, 3)), np.zeros(3))
    part = check(HardTransformer([Block([head], ffn)]), Box([-3] * 3, [3] * 3))
    assert len(part.neighbours) == 5
    changes = (
        part.signatures[part.neighbours.pairs[:, 0]]
        != (part.signatures[part.neighbours.pairs[:, 1]])
    )
    assert changes.sum(axis=1).max() == 2


@pytest.mark.parametrize("seed", range(4))
def test_transformers_and_maxout_networks_match_the_general_method(seed):
    for domain in box_and_space(3):
        check(integer_transformer(seed, 3, 3, 1, 1, 2, repeat=bool(seed % 2)), domain)
        check(integer_maxout(seed, 3, [[2, 3], [2]]), domain)
    check(integer_transformer(seed, 4, 3, 1, 1, 1), Box([-1] * 4, [1] * 4))


def test_slices_and_unbounded_polytopes():
    directions = np.array([[1.0, 0, 0, 1], [0, 1.0, 0, 0], [0, 0, 1.0, 1]])
    piece = Slice([0.5, 0.0, 0.0, -0.5], directions, Box([-1] * 3, [1] * 3))
    check(integer_relu(4, [4, 4, 3]), piece)
    check(integer_relu(5, [3, 4, 3]), Slice(np.zeros(3), np.eye(3), HALF))


def test_degenerate_facets_in_four_dimensions_are_told_from_lower_faces():
    # Cells of a braid arrangement: forms touch them in faces of every dimension.
    pairs = [(i, j) for i in range(4) for j in range(i)]
    units = np.array([[float(k == i) - float(k == j) for i, j in pairs] for k in range(4)])
    part = check(ReluNetwork([units, np.ones((6, 1))]), Box([-1] * 4, [1] * 4))
    assert (part.n_cells, len(part.neighbours)) == (24, 36)


@pytest.mark.usefixtures("never_loose")
def test_cells_that_touch_a_wall_in_an_edge_are_no_neighbours_across_it():
    # Where |x| > |y|, the cells with x > 0 and x < 0 meet x = 0 only in the line x = y = 0.
    first = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    second = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    part = check(ReluNetwork([first, second, [[1.0]]]), Box([-1] * 3, [1] * 3))
    assert (part.n_cells, len(part.neighbours)) == (8, 8)


@pytest.mark.usefixtures("never_loose")
@pytest.mark.parametrize("n_facets", [64, 65, 129])
def test_a_cell_of_many_facets_has_a_neighbour_behind_each(n_facets):
    # Planes <k, x> = 1 with the k on a sphere: each bounds the first cell, three meet in a vertex.
    rng = np.random.default_rng(n_facets)
    keys = rng.normal(size=(n_facets, 3))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    unit = np.concatenate([np.zeros((1, 3)), keys])
    offsets = np.concatenate([[0.0], -np.ones(n_facets)])
    model = MaxoutNetwork([[unit], np.ones((1, 1))], [[offsets], None])
    part = enumerate_regions(model, Box([-8] * 3, [8] * 3))
    middle = part.signatures.ravel().tolist().index(0)
    assert part.neighbours.degrees(part.n_cells)[middle] == n_facets
    # Behind two facets with a common edge, and only there, cells touch: Euler's formula.
    assert len(part.neighbours) == n_facets + (3 * n_facets - 6)


def small_relu(rng):
    widths = [3, *rng.integers(1, 4, rng.integers(1, 4)).tolist(), 1]
    shapes = pairwise(widths)
    weights = [rng.integers(-1, 2, shape).astype(float) for shape in shapes]
    biases = [rng.integers(-1, 2, width) * float(rng.integers(2)) for width in widths[1:]]
    return ReluNetwork(weights, biases)


def small_transformer(rng):
    def draw(*shape):
        return rng.integers(-1, 2, shape).astype(float)

    blocks = []
    for _ in range(rng.integers(1, 3)):
        head = AttentionHead(draw(3, 2), draw(3, 2), draw(3, 2), draw(2, 3))
        ffn = FeedForward(draw(3, 1), draw(1), draw(1, 3), None) if rng.integers(2) else None
        blocks.append(Block([head], ffn, bool(rng.integers(2)), bool(rng.integers(2))))
    return HardTransformer(blocks)


@given(st.integers(0, 10**6))
@examples(30)
def test_random_degenerate_models(seed):
    rng = np.random.default_rng(seed)
    make = small_relu if seed % 2 else small_transformer
    check(make(rng), WholeSpace(3) if seed % 3 == 0 else Box([-1] * 3, [1] * 3))


def test_neighbours_among_some_cells_are_no_others():
    part = enumerate_regions(gaussian_transformer(1, 3, 5, 1, 2, 3), Box([-2] * 3, [2] * 3))
    chosen = list(range(0, part.n_cells, 2))
    expected = [pair for pair in part.neighbours.pairs.tolist() if not any(i % 2 for i in pair)]
    assert part.found.neighbours(chosen).pairs.tolist() == expected
    assert expected


def test_a_search_stopped_early_has_the_neighbours_among_what_it_found():
    for model in (integer_relu(2, [3, 5, 4]), gaussian_transformer(1, 3, 3, 1, 2, 2)):
        whole = enumerate_regions(model, Box([-2] * 3, [3] * 3))
        some = enumerate_regions(model, Box([-2] * 3, [3] * 3), max_cells=whole.n_cells // 2)
        cells = ((i, some.rows(i)) for i in range(some.n_found))
        truth = neighbouring_cells(cells, 3)
        assert some.neighbours.pairs.tolist() == truth.pairs.tolist()
        assert some.neighbours.walls == truth.walls


def test_regions_are_the_same_with_and_without_all_neighbours():
    model = integer_relu(1, [3, 4, 3], zero_bias=True)
    one, other = (enumerate_regions(model, Box([-2] * 3, [3] * 3)) for _ in range(2))
    assert len(one.neighbours) > 0
    assert one.region_labels.tolist() == other.region_labels.tolist()
    exact = enumerate_regions(model, Box([-2] * 3, [3] * 3), exact=True)
    assert one.n_regions == exact.n_regions


def gaussian_transformer(seed, dim, n_keys, n_heads, n_blocks, d_ff):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape)

    blocks = []
    for _ in range(n_blocks):
        heads = [
            AttentionHead(draw(dim, dim), draw(n_keys, dim), draw(n_keys, dim), draw(dim, dim))
            for _ in range(n_heads)
        ]
        blocks.append(Block(heads, FeedForward(draw(dim, d_ff), draw(d_ff), draw(d_ff, dim), None)))
    return HardTransformer(blocks)


@pytest.fixture
def never_exact(monkeypatch):
    """Refuse to decide in integers: floats have to settle every pair of facets."""

    def refused(*arguments):
        raise AssertionError("floats left a pair of facets open")

    monkeypatch.setattr(overlapping_facets, "facets_overlap", refused)


@pytest.mark.usefixtures("never_exact")
@pytest.mark.parametrize(("dim", "n_keys"), [(3, 4), (3, 3), (4, 3)])
def test_floats_settle_where_generic_heads_jump(dim, n_keys):
    # A box so large that cells of the second block lie on both sides of walls of the first.
    n_blocks = 2 if (dim, n_keys) == (3, 3) else 1
    model = gaussian_transformer(n_keys, dim, n_keys, 1, n_blocks, 3 if dim == 3 else 2)
    part = check(model, Box([-2] * dim, [2] * dim))
    changes = part.signatures[part.neighbours.pairs]
    assert (changes[:, 0] != changes[:, 1]).sum(axis=1).max() > 1


def leave_open(patch):
    """Let all facets without a match by name stay open, as if none had been searched."""
    patch.setattr(CoreFacets, "is_settled", False)
    patch.setattr(CoreFacets, "overlay", _nothing_overlaid)


def _nothing_overlaid(facets):
    is_named = ~np.isin(facets.pairs[:, 0], facets.loose)
    return facets.pairs[is_named], facets.loose


@pytest.mark.parametrize("seed", range(3))
def test_searches_floats_and_integers_settle_pairs_of_facets_alike(seed, monkeypatch):
    compared = CoreFacets.compare

    def all_open(*arguments):
        pairs, verdicts = compared(*arguments)
        return pairs, np.full_like(verdicts, OPEN)

    for model in (
        gaussian_transformer(seed, 3, 3, 1, 1, 3),
        integer_transformer(seed, 3, 4, 2, 1, 2, repeat=bool(seed % 2)),
    ):
        found = [enumerate_regions(model, Box([-2] * 3, [2] * 3)) for _ in range(4)]
        searched = found[0].neighbours
        for part, leaves_open, compares in (
            (found[1], True, True),
            (found[2], False, False),
            (found[3], True, False),
        ):
            with monkeypatch.context() as patched:
                if leaves_open:
                    leave_open(patched)
                if not compares:
                    patched.setattr(CoreFacets, "compare", all_open)
                assert part.neighbours.pairs.tolist() == searched.pairs.tolist()
                assert part.neighbours.walls == searched.walls


@pytest.mark.parametrize(
    ("dim", "n_keys", "n_heads", "n_blocks", "d_ff"),
    [(3, 5, 1, 1, 6), (3, 3, 2, 2, 3), (4, 4, 1, 1, 4), (5, 3, 1, 1, 3)],
)
def test_searches_beyond_facets_leave_nothing_to_compare(
    dim, n_keys, n_heads, n_blocks, d_ff, monkeypatch
):
    model = gaussian_transformer(dim, dim, n_keys, n_heads, n_blocks, d_ff)
    # Several walls go through the origin, inside one of the boxes and on the border of the other.
    for low in (-2, 0):
        one, other = (enumerate_regions(model, Box([low] * dim, [2] * dim)) for _ in range(2))
        with monkeypatch.context() as patched:
            leave_open(patched)
            expected = other.neighbours
        with monkeypatch.context() as patched:
            patched.delattr(CoreFacets, "compare")
            assert one.neighbours.pairs.tolist() == expected.pairs.tolist()
        assert one.neighbours.walls == expected.walls


@pytest.mark.parametrize("slice_size", [1, 20, 1 << 16])
def test_more_pairs_than_facets_in_slices_of_any_size(slice_size, monkeypatch):
    # Above w = 0 the head adds 4 to it, and units ask for x only; below, 4 less, they ask for y.
    n, jump = 6, 4.0
    head = AttentionHead([[0.0], [0], [1]], [[-1.0], [1.0]], [[-jump], [jump]], [[0.0, 0, 1]])
    weight, places = np.zeros((3, 2 * n)), np.linspace(-0.75, 0.75, n)
    weight[0, :n] = weight[1, n:] = weight[2, n:] = 1.0
    weight[2, :n] = -1.0
    bias = np.concatenate([jump - places, jump - places])
    units = FeedForward(weight, bias, np.ones((2 * n, 3)), None)
    model = HardTransformer([Block([head], units)])
    monkeypatch.setattr(facets_module, "_SLICE", slice_size)
    part = check(model, Box([-1, -1, -0.01], [1, 1, 0.01]))
    assert part.n_cells == 2 * (n + 1)
    assert len(part.neighbours) > len(part.cells.facets.facets)
    assert part.neighbours.walls.count(((0, 0),)) == (n + 1) ** 2


@pytest.mark.parametrize("seed", range(3))
def test_forms_of_facets_are_recomposed_within_their_radii(seed):
    models = gaussian_transformer(seed, 3, 3, 1, 2, 2), integer_transformer(seed, 3, 3, 2, 1, 2)
    for model in models:
        part = enumerate_regions(model, Box([-2] * 3, [3] * 3), max_cells=40)
        cells, network, dim = part.cells, part.network, 3
        owners = np.repeat(np.arange(part.n_found), np.diff(cells.facets.starts))
        layer_of = np.repeat(range(len(network.layers)), [x.n_groups for x in network.layers])
        facets = CoreFacets(network, part.domain, cells)
        facets.compose(np.arange(len(owners)))
        forms = facets.forms
        known = np.flatnonzero(np.isfinite(forms[: len(owners), dim + 1]))
        assert len(known) > 20
        regions = Regions(network, part.domain)
        for facet in known.tolist():
            group, rival = cells.facets.facets[facet].tolist()
            winners = tuple(part.signatures[owners[facet]].tolist())
            here = regions.forms(int(layer_of[group]), winners)
            start = int(here.layer.starts[group - int(np.argmax(layer_of == layer_of[group]))])
            rows, (up, down) = here.scores.rows, scale_ratio(here.scores)
            pair = zip(rows[start + winners[group]], rows[start + rival], strict=True)
            truth = [Fraction(int(a - b) * up, down) for a, b in pair]
            errors = [
                abs(Fraction(x) - y)
                for x, y in zip(forms[facet, : dim + 1].tolist(), truth, strict=True)
            ]
            assert max(errors[:dim]) <= Fraction(float(forms[facet, dim + 1]))
            assert errors[dim] <= Fraction(float(forms[facet, dim + 2]))


def test_walls_move_where_forms_that_coincide_pass_a_mean_on():
    # The first layer makes x zero where it is negative. There both keys of the next head score 0,
    # and the mean of their values, 3/2, is added to y; elsewhere 3. Then y jumps by 1/4 at z = 0,
    # and a unit asks for its sign: at y = -3/2 before the jump, at y = -7/4 beyond it.
    first = FeedForward([[-1.0], [0.0], [0.0]], [0.0], [[1.0, 0.0, 0.0]], None)
    tied = AttentionHead([[1.0], [0], [0]], [[0.0], [1.0]], [[0.0], [3.0]], [[0.0, 1.0, 0.0]])
    jump = AttentionHead([[0.0], [0], [1]], [[-1.0], [1.0]], [[0.0], [0.25]], [[0.0, 1.0, 0.0]])
    last = FeedForward([[0.0], [1.0], [0.0]], [0.0], np.zeros((1, 3)), None)
    blocks = [Block([], first), Block([tied], None), Block([jump], last)]
    part = check(HardTransformer(blocks), Box([-2] * 3, [2] * 3))
    assert (part.cells.facets.ties[:, 0] < 0).any()
    below, beyond = part.locate([[-1.0, -1.6, -1.0], [-1.0, -1.6, 1.0]])
    assert sorted([below, beyond]) in part.neighbours.pairs.tolist()
