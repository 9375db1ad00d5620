from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, Interrupted
from hardmax.geometry.domains import Box, Line, Ray, Segment, WholeSpace
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines import integer_lines, line_search, lines
from hardmax.regions._lines.exact_lines import Interval, envelope
from hardmax.regions._lines.line_composition import rounded_forms
from hardmax.regions._tree import split_tree
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from tests.region_models import gaussian_relu, integer_relu, integer_transformer
from tests.strategies import SMALL, WILD, matrices
from tests.sweeps import examples, seeds


def sawtooth(depth):
    """The tent map composed with itself on [0, 1]: 2**depth pieces, breakpoints at k / 2**depth."""
    tent_in, tent_out = np.array([[1.0, 1.0]]), np.array([[2.0], [-4.0]])
    weights = [tent_in] + [tent_out @ tent_in] * (depth - 1) + [tent_out]
    return ReluNetwork(weights, [[0.0, -0.5]] * depth + [[0.0]])


def test_breakpoints_of_a_sawtooth_are_exact():
    part = enumerate_regions(sawtooth(5), Segment([0.0], [1.0]))
    inner = [Fraction(k, 32) for k in range(1, 32)]
    assert part.breakpoints.tolist() == inner
    assert part.n_affine_maps == 32


@pytest.mark.parametrize("exact", [False, True])
def test_thousands_of_breakpoints_come_sorted(exact):
    found = lines.explore(sawtooth(8).network, Box([0], [1]), exact=exact)
    assert found.breakpoints.tolist() == [Fraction(k, 256) for k in range(1, 256)]


@given(matrices(2, 3), matrices(3, 3), matrices(3, 1), matrices(2, 3), st.integers(0, 2))
@examples(40)
def test_lines_agree_with_the_split_tree_on_degenerate_networks(first, second, last, biases, kind):
    model = ReluNetwork([first, second, last], [biases[0], biases[1], [0.0]])
    domain = (Segment([-2, 1], [3, 0.5]), Ray([0, 1], [1, -1]), Line([1, 0], [2, 1]))[kind]
    found = lines.explore(model.network, domain)
    tree = split_tree.explore(model.network, domain)
    wanted = [
        name
        for _, name in sorted(
            (Fraction(p, q), name)
            for (p, q), name in zip(tree.witnesses.tolist(), tree.signatures.tolist(), strict=True)
        )
    ]
    assert found.signatures.tolist() == wanted
    exact = lines.explore(model.network, domain, exact=True)
    assert exact.breakpoints.tolist() == found.breakpoints.tolist()


@given(matrices(2, 3, WILD), matrices(3, 2, WILD), matrices(1, 3, WILD), matrices(1, 2, WILD))
@examples(30)
def test_any_scale_is_right(first, second, b, c):
    model = ReluNetwork([first, second, [[1.0], [1.0]]], [b[0], c[0], [0.0]])
    domain = Segment([-1e-200, 3.0], [1e100, -2.0])
    found = lines.explore(model.network, domain)
    tree = split_tree.explore(model.network, domain)
    assert sorted(found.signatures.tolist()) == sorted(tree.signatures.tolist())


@pytest.mark.parametrize("seed", seeds(6))
def test_heads_along_a_line_agree_with_the_split_tree(seed):
    model = integer_transformer(seed, 2, 5, 2, 2, repeat=bool(seed % 2))
    for domain in (Segment([-3, -2], [4, 2.5]), Line([0.5, 0], [1, 3]), Ray([0, 0], [1, 1])):
        part = enumerate_regions(model, domain)
        tree = split_tree.explore(model.network, domain)
        assert sorted(part.signatures.tolist()) == sorted(tree.signatures.tolist())
        exact = lines.explore(model.network, domain)
        assert exact.signatures.tolist() == part.signatures.tolist()
        assert exact.breakpoints.tolist() == part.breakpoints.tolist()
        np.testing.assert_allclose(part.affine_maps, exact.arrays.maps, rtol=1e-12, atol=1e-12)


def test_a_generic_model_needs_no_integers_and_has_the_right_ends_and_maps():
    model = gaussian_relu(4, [20, 48, 48, 48])
    rng = np.random.default_rng(1)
    segment = Segment(rng.normal(size=20) * 30, rng.normal(size=20) * 30)
    part = enumerate_regions(model, segment)
    assert part.decisions.rational == 0
    assert part.n_cells > 50
    ends = part.cells.vertices.reshape(-1, 2)
    exact = [Fraction(0), *part.breakpoints.tolist(), Fraction(1)]
    assert exact == sorted(exact)
    np.testing.assert_allclose(ends[:, 0], [float(x) for x in exact[:-1]], rtol=1e-9)
    for i in (0, 17, part.n_cells - 1):
        true = part.exact_map(i).rounded().T
        assert (np.abs(part.affine_maps[i] - true) <= part.cells.map_radii[i]).all()
    # The middle of each cell has its signature.
    middles = np.array([[float(a + b) / 2] for a, b in pairwise(exact)])
    points = segment.points(middles)
    assert (model.signature(points) == part.signatures).mean() > 0.999


def test_small_batches_give_the_same_cells(monkeypatch):
    model = gaussian_relu(4, [5, 16, 16])
    domain = Line([0.0] * 5, [1.0, 2.0, -1.0, 0.5, 1.0])
    wanted = lines.explore(model.network, domain)
    monkeypatch.setattr(line_search, "_ENTRIES_AT_ONCE", 200)
    found = lines.explore(model.network, domain)
    assert found.signatures.tolist() == wanted.signatures.tolist()
    assert found.breakpoints.tolist() == wanted.breakpoints.tolist()


def test_ends_of_unbounded_cells_are_at_infinity():
    part = enumerate_regions(integer_relu(1, [1, 3]), WholeSpace(1))
    directions = part.cells.directions.ravel()
    assert directions[0] == -1
    assert directions[-1] == 1
    assert not directions[1:-1].any()


@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=6), st.sampled_from([None, -1, 0]))
def test_an_envelope_is_the_maximum(forms, low):
    forms = [(int(m), int(c)) for m, c in forms]
    interval = Interval(None if low is None else Fraction(low), Fraction(3, 2))
    pieces = envelope(forms, interval)
    marks = [start for start, _ in pieces] + [interval.high]
    for (_, winner), left, right in zip(pieces, marks, marks[1:], strict=False):
        middle = Interval(left, right).midpoint()
        values = [m * middle + c for m, c in forms]
        assert values[winner] == max(values)
        assert winner == forms.index(forms[winner])
        # Strictly inside a piece, only coinciding forms reach the maximum.
        tied = [f for f, v in zip(forms, values, strict=True) if v == max(values)]
        assert set(tied) == {forms[winner]}


@given(st.lists(st.integers(-(10**40), 10**40), min_size=4, max_size=4), st.integers(1, 9))
def test_rounded_forms_are_within_their_radii(entries, denominator):
    forms = RationalForms(fmpz_mat(2, 2, entries), -70, denominator)
    rounded = rounded_forms(forms)
    for value, radius, entry in zip(
        rounded.values.ravel().tolist(), rounded.radii.ravel().tolist(), entries, strict=True
    ):
        exact = Fraction(entry, denominator * 2**70)
        assert abs(Fraction(value) - exact) <= Fraction(radius)
        assert (radius == 0.0) == (entry == 0)


def test_a_plane_is_no_line():
    with pytest.raises(ArgumentError, match="`domain` must have dimension 1; got 2"):
        lines.explore(gaussian_relu(1, [2, 3]).network, WholeSpace(2))
    with pytest.raises(ArgumentError, match="`breakpoints` requires a domain of dimension 1"):
        enumerate_regions(gaussian_relu(1, [2, 3]), WholeSpace(2)).breakpoints


def test_breakpoints_of_the_exact_mode_are_the_same():
    model = integer_relu(9, [1, 5, 4])
    for domain in (WholeSpace(1), Box([-1], [2])):
        exact = enumerate_regions(model, domain, exact=True)
        assert exact.breakpoints.tolist() == enumerate_regions(model, domain).breakpoints.tolist()


def test_an_interrupt_leaves_what_was_found(monkeypatch):
    batches = lines.LineSearch.batches

    def interrupted(self):
        for batch in batches(self):
            yield batch
            if batch:
                raise KeyboardInterrupt

    monkeypatch.setattr(integer_lines, "_CELLS_AT_ONCE", (16, 16))
    monkeypatch.setattr(lines.LineSearch, "batches", interrupted)
    with pytest.raises(Interrupted) as stop:
        enumerate_regions(sawtooth(6), Segment([0.0], [1.0]))
    part = stop.value.partial
    assert not part.is_complete
    assert 0 < part.n_found == len(part.signatures) < 64
    assert "at least" in repr(part)


def test_a_time_limit_is_looked_at_before_the_first_cell_is_ready():
    part = enumerate_regions(sawtooth(6), Segment([0.0], [1.0]), max_seconds=0.0)
    assert (part.n_cells, part.is_complete) == (AtLeast(0), False)
    counted = enumerate_regions(sawtooth(6), Segment([0.0], [1.0]), count_only=True)
    assert (counted.n_cells, counted.is_complete) == (64, True)
