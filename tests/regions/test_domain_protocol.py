"""Objects of any class as domains: everything works with them, and a malformed one is refused."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domain_protocol import ReadDomain, check_domain, compose_charts
from hardmax.regions.charted_domains import charted


class Mine:
    """A domain that is no class of the package."""

    def __init__(self, dim, ambient_dim, chart, exact_rows):
        self.dim, self.ambient_dim = dim, ambient_dim
        self.chart, self.exact_rows = chart, exact_rows


TRIANGLE_ROWS = [[1, 1, 1], [-1, 0, 0], [0, -1, 0]]
SKEW = [[1.0, 0.5, 0.0], [0.0, 1.0, -2.0]], [0.25, 0.0, 1.0]
CASES = {
    "line": (Mine(1, 1, None, [[3, 1], [-2, 3]]), hm.Polytope([[3], [-2]], [1, 3])),
    "plane": (Mine(2, 2, None, TRIANGLE_ROWS), hm.Simplex([[0, 0], [1, 0], [0, 1]])),
    "space": (
        Mine(3, 3, None, [*np.eye(3, 4, dtype=int).tolist(), [-1, -1, -1, Fraction(5, 3)]]),
        hm.Polytope([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-3, -3, -3]], [0, 0, 0, 5]),
    ),
    "plane in space": (
        Mine(2, 3, SKEW, np.array(TRIANGLE_ROWS)),
        hm.Slice(SKEW[1], SKEW[0], "simplex:0,0;1,0;0,1"),
    ),
    "line in the plane": (
        Mine(1, 2, ([[1, 2]], [0, 0]), [[1.0, 0.5]]),
        hm.Slice([0, 0], [[1, 2]], hm.Polytope([[2]], [1])),
    ),
    "all of the plane": (Mine(2, 2, None, []), hm.WholeSpace(2)),
    "identity chart": (
        Mine(2, 2, (np.eye(2), np.zeros(2)), TRIANGLE_ROWS),
        hm.Polytope([[1, 1], [-1, 0], [0, -1]], [1, 0, 0]),
    ),
}


def net_of(dim):
    rng = np.random.default_rng(dim)
    return hm.ReluNetwork(
        [rng.integers(-9, 10, size=size) / 4 for size in ((dim, 4), (4, 3), (3, 1))],
        [rng.integers(-9, 10, size=4) / 4, rng.integers(-9, 10, size=3) / 4, None],
    )


@pytest.mark.parametrize("case", CASES)
def test_everything_works_with_a_domain_of_any_class(case, tmp_path):
    mine, ours = CASES[case]
    net = net_of(mine.ambient_dim)
    part, wanted = hm.enumerate_regions(net, mine), hm.enumerate_regions(net, ours)
    assert part.signatures.tolist() == wanted.signatures.tolist()
    assert part.n_cells == hm.enumerate_regions(net, mine, count_only=True).n_cells
    certificate = part.certificate()
    for domain in (mine, ours, part.domain):
        for method in ("fast", "integers"):
            assert hm.verify_certificate(net, certificate, domain, method=method).ok
    assert hm.verify_certificate(net, wanted.certificate(), mine).ok
    other = Mine(mine.dim, mine.ambient_dim, mine.chart, [[1] * mine.dim + [7]])
    assert not hm.verify_certificate(net, certificate, other).ok
    text = hm.geometry.domain_text(mine)
    assert hm.verify_certificate(net, certificate, text).ok
    hm.save_partition(part, tmp_path / "cells.parquet")
    again = hm.load_partition(tmp_path / "cells.parquet")
    assert again.signatures.tolist() == part.signatures.tolist()
    assert hm.verify_certificate(net, again.certificate(), mine).ok
    # A file that is read with the domain itself compares the two.
    assert hm.load_partition(tmp_path / "cells.parquet", domain=mine).n_cells == part.n_cells
    if part.domain.dim > 1:
        stored = hm.enumerate_regions(net, mine, store=tmp_path / "store")
        assert stored.n_cells == part.n_cells
        assert hm.open_partition(tmp_path / "store").certificate().n_cells == part.n_cells
    if case not in ("line in the plane", "all of the plane", "space"):
        assert hm.sample_regions(net, mine, 200, seed=1).distinct <= part.n_cells


def test_functions_of_full_dimensional_domains_take_a_domain_of_any_class():
    mine, ours = CASES["plane"]
    diagram = hm.PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
    volumes = [cell.polytope.volume for cell in diagram.cells(mine)]
    assert volumes == [cell.polytope.volume for cell in diagram.cells(ours)]
    assert hm.Polytope([[1, 0]], [0.5]).intersection(mine).volume == Fraction(3, 8)
    lifted = hm.Slice([0, 0, 1], [[1, 0, 0], [0, 1, 0]], mine)
    assert hm.geometry.domain_text(lifted).startswith("slice:0,0,1;1,0,0;0,1,0|polytope:")
    with pytest.raises(DtypeError, match=r"`domain` must be full-dimensional.*; got Mine"):
        diagram.cells(CASES["line in the plane"][0])
    with pytest.raises(DtypeError, match=r"`box` must be full-dimensional.*; got Mine"):
        hm.Slice([0, 0], [[1, 0]], CASES["line in the plane"][0])


def test_a_domain_may_change_between_two_searches():
    mine, net = Mine(1, 1, None, [[1, 1], [-1, 1]]), hm.ReluNetwork([[[1.0]], [[1.0]]])
    assert hm.enumerate_regions(net, mine).n_cells == 2
    mine.exact_rows = [[1, 1], [-1, 0]]
    assert hm.enumerate_regions(net, mine).n_cells == 1


class Barycentric(Mine):
    """A triangle with an exact chart in two steps, because its edges round."""

    vertices = np.array([[0.1, 0.7, 3.0], [0.3, -0.1, 4.0], [1e-5, 7.0, 0.1]])

    def __init__(self):
        simplex = hm.Simplex(self.vertices)
        super().__init__(2, 3, simplex.chart, TRIANGLE_ROWS)
        self.exact_chart = simplex.exact_chart


def test_an_exact_chart_is_used_and_cannot_be_written_to_a_file(tmp_path):
    mine, ours, net = Barycentric(), hm.Simplex(Barycentric.vertices), net_of(3)
    part = hm.enumerate_regions(net, mine)
    assert part.signatures.tolist() == hm.enumerate_regions(net, ours).signatures.tolist()
    certificate = part.certificate()
    assert hm.verify_certificate(net, certificate, mine).ok
    assert hm.verify_certificate(net, certificate, ours).ok
    rounded = Mine(2, 3, mine.chart, TRIANGLE_ROWS)
    assert not hm.verify_certificate(net, certificate, rounded).ok
    message = "cannot be written as text.*Pass a `Simplex`, or a `Slice`"
    for write in (
        lambda: hm.geometry.domain_text(mine),
        lambda: hm.save_partition(part, tmp_path / "cells.parquet"),
        lambda: hm.enumerate_regions(net, mine, store=tmp_path / "store"),
    ):
        with pytest.raises(ArgumentError, match=message):
            write()
    assert not list(tmp_path.glob("*.parquet"))


def test_an_exact_chart_of_a_line_is_exact_where_its_origin_rounds():
    # The chart t -> 1 + 2^-60 + t in two steps rounds to 1 + t.
    mine = Mine(1, 1, ([[1.0]], [1.0]), [[1, 1], [-1, 1]])
    mine.exact_chart = (([[1.0]], [2.0**-60]), ([[1.0]], [1.0]))
    net = hm.ReluNetwork([[[1.0]], [[1.0]]], [[-1.0], None])
    part = hm.enumerate_regions(net, mine)
    assert part.n_cells == 2
    assert sorted(part.exact_volumes) == [1 - Fraction(1, 2**60), 1 + Fraction(1, 2**60)]
    assert hm.verify_certificate(net, part.certificate(), mine).ok


def malformed(**members):
    good = {"dim": 2, "ambient_dim": 3, "chart": SKEW, "exact_rows": TRIANGLE_ROWS}
    return SimpleNamespace(**{k: v for k, v in {**good, **members}.items() if v is not Ellipsis})


WRONG = [
    ({"dim": ...}, DtypeError, "which has no `dim`"),
    ({"exact_rows": ...}, DtypeError, "which has no `exact_rows`"),
    ({"dim": 0}, ArgumentError, "`domain.dim` must be at least 1; got 0"),
    ({"dim": 2.5}, DtypeError, "`domain.dim` must be an integer"),
    ({"ambient_dim": 1}, ArgumentError, "`domain.ambient_dim` must be at least 2; got 1"),
    ({"chart": None}, ArgumentError, r"`domain.chart` must be a pair \(W, b\).*3.*2; got None"),
    ({"chart": 7}, DtypeError, r"`domain.chart` must be a pair \(W, b\).*got 7"),
    ({"chart": (SKEW[0],)}, DtypeError, r"`domain.chart` must be a pair"),
    ({"chart": (np.eye(2), SKEW[1])}, ShapeMismatchError, r"`domain.chart\[0\]` must have .*\(2, "),
    ({"chart": (SKEW[0], [0, 0])}, ShapeMismatchError, r"`domain.chart\[1\]` must have"),
    ({"chart": ([[np.nan, 0, 0], [0, 1, 0]], [0, 0, 0])}, NonFiniteError, r"chart\[0\].*NaN"),
    (
        {"chart": (SKEW[0], [0, 0, np.inf])},
        NonFiniteError,
        r"`domain.chart\[1\]` must not hold inf",
    ),
    (
        {"chart": ([[1, 2, 0], [2, 4, 0]], [0, 0, 0])},
        ArgumentError,
        r"`domain.chart` must be injective: the 2 rows of W.*got rank 1, W = \[\[1.0, 2.0",
    ),
    ({"exact_rows": [[1, 0]]}, ShapeMismatchError, r"exact_rows` .*\(n_rows, 3\).*got 2 .* row 0"),
    ({"exact_rows": 5}, DtypeError, r"`domain.exact_rows` must have shape \(n_rows, 3\); got 5"),
    ({"exact_rows": [[1, 0, np.nan]]}, NonFiniteError, r"exact_rows`.*finite.*nan at \[0, 2\]"),
    ({"exact_rows": [[1, "a", 0]]}, DtypeError, r"exact_rows` must hold integers.*'a' at \[0, 1\]"),
    (
        {"exact_rows": [[1, 0, 0], [-1, 0, 0]]},
        ArgumentError,
        "`domain` must have nonempty interior",
    ),
    ({"exact_rows": [[0, 0, -1]]}, ArgumentError, "`domain` must have nonempty interior"),
    ({"exact_chart": 3}, DtypeError, "`domain.exact_chart` must be a sequence of pairs"),
    (
        {"exact_chart": [SKEW, SKEW]},
        ShapeMismatchError,
        r"`domain.exact_chart\[1\]\[0\]` must have",
    ),
    (
        {"exact_chart": [([[1, 0.5, 0], [0, 1, -2]], [0.25, 0, 2])]},
        ArgumentError,
        "`domain.chart` must be the composition.*got 1.0 instead of 2.0 in coordinate 2",
    ),
    ({"ambient_dim": 4, "chart": (np.eye(2, 4), np.zeros(4))}, ArgumentError, "has dimension 3"),
]


@pytest.mark.parametrize(("members", "error", "message"), WRONG)
def test_a_malformed_domain_is_refused_by_member_requirement_and_value(members, error, message):
    net = net_of(3)
    with pytest.raises(error, match=message):
        hm.enumerate_regions(net, malformed(**members))
    assert hm.enumerate_regions(net, malformed()).n_cells > 0


def test_any_other_object_is_refused_with_the_kinds_of_domains():
    certificate = hm.enumerate_regions(net_of(2), "box:-1,1^2").certificate()
    for wrong in (3, None, object(), [1, 2]):
        with pytest.raises(DtypeError, match=r"`domain` must be a Box, .*Simplex.*; got "):
            hm.enumerate_regions(net_of(2), wrong)
    for wrong in (3, object(), [1, 2]):
        with pytest.raises(DtypeError, match="`domain` must be a domain"):
            hm.verify_certificate(net_of(2), certificate, wrong)
        with pytest.raises(DtypeError, match="`domain` must be a domain"):
            hm.geometry.domain_text(wrong)


def test_the_reader_returns_domains_of_the_package_unchanged():
    box = hm.Box([0], [1])
    assert check_domain(box) is box
    read = check_domain(CASES["identity chart"][0])
    assert isinstance(read, ReadDomain)
    assert (read.chart, read.exact_rows.tolist()) == (None, TRIANGLE_ROWS)


def test_maps_are_composed_exactly():
    rng = np.random.default_rng(0)
    maps = [(rng.normal(size=(2, 3)), rng.normal(size=3)), (rng.normal(size=(3, 4)), np.zeros(4))]
    huge = [(np.array([[1e308]]), np.array([1.0])), (np.array([[1e308]]), np.array([5e-324]))]
    for chart in (maps, huge):
        forms = compose_charts(chart)
        t = [Fraction(k + 1, 3) for k in range(forms.integers.shape[1] - 1)]
        x = t
        for weight, bias in chart:
            x = [
                sum(Fraction(w) * value for w, value in zip(column, x, strict=True)) + Fraction(b)
                for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
            ]
        unit = Fraction(2) ** forms.exponent
        rows = forms.integers.tolist()
        assert x == [unit * sum(a * s for a, s in zip(row, [*t, 1], strict=True)) for row in rows]


def test_dim_has_one_meaning():
    flat = hm.Polytope([[1, 0], [-1, 0]], [0, 0])
    assert (flat.dim, flat.ambient_dim, flat.affine_dim) == (2, 2, 1)
    for domain, _ in CASES.values():
        read = charted(domain, domain.ambient_dim)
        assert (read.dim, read.ambient_dim) == (domain.dim, domain.ambient_dim)
