"""Certificates are accepted when they are right, and refused with the reason when not."""

import itertools
import math
import subprocess
import sys
from dataclasses import fields, replace
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import DtypeError
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.networks import ReluNetwork
from hardmax.regions.certificate_format import domain_fingerprint
from hardmax.regions.certificates import make_certificate
from hardmax.regions.charted_domains import charted
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.enclosures import enclose, round_layer
from hardmax.verify._fast.polygons import domain_polygons
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import (
    CASES,
    SQUARE,
    doubled_units,
    jumping_head,
    random_relu,
    random_transformer,
    tied_values,
    true_signatures,
)
from tests.reference.networks import argmax_network
from tests.strategies import SMALL, matrices
from tests.sweeps import examples

ABSOLUTE = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
QUADRANTS = [[0, 0], [0, 1], [1, 0], [1, 1]]


def kinds(model, domain):
    dim = charted(domain, getattr(model, "network", model).dim_in).dim
    return ["tiling", "refusals"] if dim <= 2 else ["refusals"]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A model, a domain, all cells, and a certificate of each kind."""
    model, domain = CASES[request.param]
    cells = true_signatures(model, domain)
    made = [make_certificate(model, domain, cells, kind=kind) for kind in kinds(model, domain)]
    return model, domain, cells, made


def without(table, row):
    return np.delete(table, row, axis=0)


def refused(model, certificate):
    verdict = verify_certificate(model, certificate)
    assert not verdict
    assert verdict.n_cells == 0
    return verdict.reason


def test_the_cells_of_the_rational_program_are_accepted(case):
    model, domain, cells, made = case
    for certificate in made:
        verdict = verify_certificate(model, certificate, domain)
        assert (verdict.ok, verdict.n_cells, verdict.reason) == (True, len(cells), "")


def test_the_order_of_the_cells_does_not_matter(case):
    model, _, cells, made = case
    order = np.random.default_rng(0).permutation(len(cells))
    for certificate in made:
        shuffled = replace(
            certificate,
            signatures=certificate.signatures[order],
            witnesses=certificate.witnesses[order],
        )
        assert verify_certificate(model, shuffled).ok


def test_a_dropped_cell_is_noticed_whichever_it_is(case):
    model, _, cells, made = case
    for certificate in made:
        for row in range(len(cells)):
            dropped = replace(
                certificate,
                signatures=without(certificate.signatures, row),
                witnesses=without(certificate.witnesses, row),
            )
            assert refused(model, dropped)


def test_a_doubled_cell_is_refused(case):
    model, _, cells, made = case
    for certificate in made:
        doubled = replace(
            certificate,
            signatures=np.concatenate([certificate.signatures, certificate.signatures[-1:]]),
            witnesses=np.concatenate([certificate.witnesses, certificate.witnesses[-1:]]),
        )
        assert (
            refused(model, doubled)
            == f"cells {len(cells) - 1} and {len(cells)} have the same signature."
        )


def test_a_witness_of_another_cell_is_refused(case):
    model, _, cells, made = case
    for certificate in made:
        moved = np.roll(certificate.witnesses, 1, axis=0)
        if len(cells) > 1:
            assert "witness is not inside" in refused(model, replace(certificate, witnesses=moved))


def test_an_empty_cell_is_refused(case):
    model, _, cells, made = case
    listed = {tuple(cell) for cell in cells}
    for certificate in made:
        for group in range(certificate.signatures.shape[1]):
            extra = certificate.signatures[0].copy()
            extra[group] = 1 - min(extra[group], 1)
            if tuple(extra.tolist()) not in listed:
                added = replace(
                    certificate,
                    signatures=np.concatenate([certificate.signatures, extra[np.newaxis]]),
                    witnesses=np.concatenate([certificate.witnesses, certificate.witnesses[:1]]),
                )
                assert refused(model, added)


def square_certificate(kind="tiling"):
    return make_certificate(ABSOLUTE, SQUARE, QUADRANTS, kind=kind)


def point(*entries):
    return np.array([entries], dtype=object)


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
@pytest.mark.parametrize(
    "witness",
    [(1, -1, 1), (2, 0, 1), (1, 1, 2), (0, 0, 1), (5, 0, 1), (10**40, 1, 10**40)],
    ids=["wall", "side", "other cell", "corner", "outside", "near a wall, inside"],
)
def test_a_moved_witness_is_refused_unless_it_stays_inside(kind, witness):
    certificate = square_certificate(kind)
    cell = QUADRANTS.index([1, 1])
    witnesses = certificate.witnesses.copy()
    witnesses[cell] = point(*witness)
    verdict = verify_certificate(ABSOLUTE, replace(certificate, witnesses=witnesses))
    inside = witness[0] > abs(witness[1]) and abs(witness[0]) < 2 * witness[2]
    assert verdict.ok == inside
    if not inside:
        assert verdict.reason.startswith(f"cell {cell}: the witness is not inside")


def test_a_witness_needs_a_positive_denominator():
    witnesses = square_certificate().witnesses.copy()
    witnesses[2] = point(-1, 0, -2)
    assert "cell 2: the denominator of the witness is not positive" in refused(
        ABSOLUTE, replace(square_certificate(), witnesses=witnesses)
    )


def test_another_model_is_refused():
    other = ReluNetwork([[[1.0, 1.0], [1.0, -1.0 - 2.0**-52]], [[1.0], [1.0]]])
    assert refused(other, square_certificate()) == "the certificate is about another model."


def test_the_fingerprint_of_another_model_does_not_help():
    other = random_relu(5, 2, 2, 1)
    forged = replace(
        square_certificate(),
        model=make_certificate(other, SQUARE, true_signatures(other, SQUARE)).model,
    )
    assert refused(other, forged)


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
def test_a_changed_domain_is_refused(kind):
    certificate = square_certificate(kind)
    rows = certificate.rows.copy()
    rows[0, -1] += 1
    changed = replace(certificate, rows=rows)
    assert "the domain does not match" in refused(ABSOLUTE, changed)
    again = domain_fingerprint(certificate.chart, 1, rows)
    # Now it is a certificate about another domain: right, but not what was asked.
    renamed = replace(changed, domain_fingerprint=again)
    assert verify_certificate(ABSOLUTE, renamed).ok
    assert verify_certificate(ABSOLUTE, renamed, SQUARE).reason == (
        "the certificate is about another domain."
    )


def test_a_larger_domain_with_more_cells_is_refused():
    net = ReluNetwork([[[1.0, 1.0], [0.0, 0.0]], [[1.0], [1.0]]], [[0.0, -5.0], None])
    for kind in ("tiling", "refusals"):
        small = make_certificate(net, SQUARE, [[0, 0], [1, 0]], kind=kind)
        rows = small.rows.copy()
        rows[0, -1] = 6
        large = replace(
            small, rows=rows, domain_fingerprint=domain_fingerprint(small.chart, 1, rows)
        )
        assert refused(net, large)


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
@pytest.mark.parametrize("model", [doubled_units(), tied_values()], ids=["dead unit", "equal keys"])
def test_only_the_first_of_coinciding_forms_names_a_cell(kind, model):
    cells = true_signatures(model, SQUARE)
    certificate = make_certificate(model, SQUARE, cells, kind=kind)
    # The fourth unit is identically zero; the first three keys are equal.
    group, name, first = 0, "block 0, head 0, key 1", "key 0"
    if isinstance(model, ReluNetwork):
        group, name, first = 3, "layer 0, unit 3, form 1", "form 0"
    cell = next(i for i, c in enumerate(cells) if c[group] == 0)
    renamed = certificate.signatures.copy()
    renamed[cell, group] = 1
    reason = refused(model, replace(certificate, signatures=renamed))
    assert reason.startswith(f"cell {cell}: {name} coincides there with {first}, which comes first")


def test_signatures_of_another_length_or_out_of_range_are_refused():
    certificate = square_certificate()
    longer = np.column_stack([certificate.signatures, certificate.signatures[:, :1]])
    assert "3 entries, not 2" in refused(ABSOLUTE, replace(certificate, signatures=longer))
    for entry in (2, -1):
        table = certificate.signatures.copy()
        table[1, 0] = entry
        assert f"cell 1: layer 0, unit 0 has 2 forms, so form {entry} does not exist" in refused(
            ABSOLUTE, replace(certificate, signatures=table)
        )
    none = replace(certificate, signatures=certificate.signatures[:0])
    assert refused(ABSOLUTE, none) == "the certificate lists no cells."


def test_broken_fields_are_refused_and_raise_nothing():
    certificate = square_certificate()
    broken = [
        {"witnesses": certificate.witnesses[:3]},
        {"witnesses": certificate.witnesses.astype(float)},
        {"signatures": certificate.signatures.astype(float)},
        {"signatures": QUADRANTS},
        {"rows": certificate.rows[:, :2]},
        {"rows": None},
        {"chart_denominator": 0},
        {"chart_denominator": 1.0},
        {"kind": "trust me"},
        {"proofs": (((0, 1),),)},
    ]
    for change in broken:
        assert refused(ABSOLUTE, replace(certificate, **change))


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
def test_no_value_of_any_field_raises_anything(kind):
    made = square_certificate(kind)
    strange = [None, 0, -1, 0.5, "", "x", b"x", (), [], {}, [[]], (None,), ((1,),), object()]
    strange += [np.zeros(0), np.zeros((2, 2)), np.zeros((0, 3), object), np.array("x"), [made]]
    for field in fields(made):
        for value in strange:
            if field.name == "proofs" and isinstance(value, tuple) and not value:
                continue  # No branch is absent: that is right.
            assert refused(ABSOLUTE, replace(made, **{field.name: value})), (field.name, value)


def test_a_chart_that_is_not_one_to_one_is_refused():
    certificate = square_certificate()
    chart = certificate.chart.copy()
    chart[:] = 0
    flat = replace(
        certificate,
        chart=chart,
        domain_fingerprint=domain_fingerprint(chart, 1, certificate.rows),
    )
    assert "is not injective" in refused(ABSOLUTE, flat)


def test_a_domain_without_interior_is_refused():
    certificate = square_certificate()
    rows = np.concatenate([certificate.rows, point(1, 0, -2)])
    flat = replace(
        certificate, rows=rows, domain_fingerprint=domain_fingerprint(certificate.chart, 1, rows)
    )
    assert "the witness is not inside the domain" in refused(ABSOLUTE, flat)


def cube_certificate():
    model, domain = CASES["maxout in space"]
    return model, make_certificate(model, domain, true_signatures(model, domain))


def test_a_tiling_shows_nothing_in_space():
    model, certificate = cube_certificate()
    claimed = replace(certificate, kind="tiling", proofs=())
    assert "'tiling' proves nothing in dimension 3" in refused(model, claimed)


def test_every_proof_is_needed_and_checked():
    model, certificate = cube_certificate()
    proofs = certificate.proofs
    assert len(proofs) > 20
    assert "no proof excludes it" in refused(model, replace(certificate, proofs=proofs[:-1]))
    more = replace(certificate, proofs=(*proofs, proofs[0]))
    assert "more proofs than branches" in refused(model, more)
    for i in range(len(proofs)):
        first, *rest = proofs[i]
        lies = [
            ((first[0], first[1] + 1), *rest),
            ((first[0], -first[1]), *rest),
            ((first[0], 1), (first[0], -1)),
            ((first[0], 0),),
            ((10**6, first[1]), *rest),
            ((-1, first[1]), *rest),
            (),
        ]
        for lie in lies:
            forged = replace(certificate, proofs=(*proofs[:i], lie, *proofs[i + 1 :]))
            assert "proof" in refused(model, forged)


def test_rows_that_vanish_prove_nothing():
    """The winner against itself and against a coinciding form are rows of zeros."""
    model = tied_values()
    certificate = make_certificate(model, SQUARE, true_signatures(model, SQUARE), kind="refusals")
    n_before = 1 + len(certificate.rows)
    n_forms = sum(len(layer.offsets) for layer in model.network.layers)
    for i in range(len(certificate.proofs)):
        for form in range(n_forms):
            lie = ((n_before + form, 1),)
            proofs = (*certificate.proofs[:i], lie, *certificate.proofs[i + 1 :])
            assert "proof" in refused(model, replace(certificate, proofs=proofs))


def test_rows_of_undecided_groups_prove_nothing():
    """Two equal units must not refuse each other: both would assume what they are to show."""
    net = ReluNetwork([[[1.0, 1.0, 1.0]], np.ones((3, 1))], [[0.0, -1.0, -1.0], None])
    cells = [[0, 0, 0], [1, 0, 0], [1, 1, 1]]
    certificate = make_certificate(net, Box([-1], [2]), cells, kind="refusals")
    assert verify_certificate(net, certificate).ok
    # Rows 3 and on belong to forms 0 and on: (6, 7) is "unit 1 off" with "unit 2 on".
    circular = (((6, 1), (7, 1)), ((5, 1), (8, 1)))
    forged = replace(
        certificate,
        signatures=without(certificate.signatures, 1),
        witnesses=without(certificate.witnesses, 1),
        proofs=(*certificate.proofs[:2], *circular),
    )
    assert "uses an inequality that does not hold there" in refused(net, forged)


def test_cells_may_meet_in_t_junctions():
    model = jumping_head()
    cells = true_signatures(model, SQUARE)
    # The unit's wall ends on the head's wall.
    assert len(cells) == 3
    assert verify_certificate(model, make_certificate(model, SQUARE, cells)).ok


def test_the_domain_can_be_given_in_any_of_its_forms():
    certificate = square_certificate()
    same = Polytope([[1.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [2.0, 4.0, 2.0, 2.0])
    assert verify_certificate(ABSOLUTE, certificate, same).ok
    assert verify_certificate(ABSOLUTE, certificate, charted(SQUARE, 2)).ok
    assert not verify_certificate(ABSOLUTE, certificate, WholeSpace(2))
    assert not verify_certificate(ABSOLUTE, certificate, Box([-2, -2], [2, 2.5]))
    segment = Segment([0.1, 0.3], [1.0, -2.0])
    other = make_certificate(ABSOLUTE, segment, [[1, 0], [1, 1], [0, 1]])
    assert verify_certificate(ABSOLUTE, other, segment).ok
    assert verify_certificate(ABSOLUTE, other, charted(segment, 2)).ok
    assert not verify_certificate(ABSOLUTE, other, Segment([0.1, 0.3], [1.0, -2.5]))


def test_other_types_are_refused():
    with pytest.raises(DtypeError, match="`model` must be a model"):
        verify_certificate(None, square_certificate())
    with pytest.raises(DtypeError, match="`certificate` must be a Certificate"):
        verify_certificate(ABSOLUTE, 3)
    with pytest.raises(DtypeError, match="`domain` must be a domain"):
        verify_certificate(ABSOLUTE, square_certificate(), 3)


def test_a_certificate_may_be_its_file_and_a_domain_its_text(tmp_path):
    own = square_certificate()
    own.save(tmp_path / "cells.json")
    for path in (tmp_path / "cells.json", str(tmp_path / "cells.json")):
        assert verify_certificate(ABSOLUTE, path) == verify_certificate(ABSOLUTE, own)
    refused = verify_certificate(ABSOLUTE, tmp_path / "cells.json", "box:0,1^2")
    assert refused.reason == "the certificate is about another domain."
    with pytest.raises(FileNotFoundError, match="missing"):
        verify_certificate(ABSOLUTE, tmp_path / "missing.json")


def test_the_verifier_loads_no_engine_and_no_kernel():
    listing = "import hardmax.verify.checking, sys; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("hardmax.regions.")}
    assert ours == {"hardmax.regions.certificate_format", "hardmax.regions.certificate_parts"}
    assert not any(
        name.startswith(("hardmax._core", "hardmax.geometry", "scipy"))
        or name.endswith((".recomposition", ".signs"))
        for name in loaded
    )


@examples(25)
@given(matrices(2, 4), matrices(1, 4), matrices(4, 2), matrices(1, 2), st.data())
def test_a_list_is_accepted_exactly_if_it_is_the_list_of_cells(w, b, v, c, data):
    net = ReluNetwork([w, v, np.ones((2, 1))], [b[0], c[0], None])
    domain = data.draw(st.sampled_from([SQUARE, WholeSpace(2)]))
    cells = true_signatures(net, domain)
    for kind in ("tiling", "refusals"):
        certificate = make_certificate(net, domain, cells, kind=kind)
        assert verify_certificate(net, certificate).ok
        kept = data.draw(st.lists(st.booleans(), min_size=len(cells), max_size=len(cells)))
        some = replace(
            certificate,
            signatures=certificate.signatures[kept],
            witnesses=certificate.witnesses[kept],
        )
        assert verify_certificate(net, some).ok == all(kept)


@examples(25)
@given(st.integers(0, 50), st.tuples(SMALL, SMALL))
def test_composition_agrees_with_the_model_at_points(seed, x):
    """The verifier's forms, at a point, have the winners of the model there."""
    network = random_transformer(seed, 2, 2).network
    _, signature = argmax_network(x, network)
    exact = exact_network(network, np.array([[1, 0, 0], [0, 1, 0]], dtype=object), 1)
    stream, column = exact.stream, 0
    for layer in exact.layers:
        rows = [stream.packing.unpack(int(row)) for row in layer.score_rows(stream)]
        at = [row[0] * int(x[0]) + row[1] * int(x[1]) + row[2] for row in rows]
        winners = []
        for group in range(layer.n_groups):
            start, end = layer.starts[group], layer.starts[group + 1]
            assert at.index(max(at[start:end]), start) - start == signature[column + group]
            winners.append(start + signature[column + group])
        ties = {
            g: [j for j in range(layer.starts[g], layer.starts[g + 1]) if at[j] == at[winners[g]]]
            for g in range(layer.n_groups)
        }
        stream = layer.after(stream, winners, ties)
        column += layer.n_groups


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from([0, 3, 40, 100]))
@np.errstate(over="ignore", invalid="ignore")
def test_rounded_compositions_stay_within_their_bounds(seed, spread):
    """Any winners will do: the layer after them is affine, and enclosed entry by entry."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.standard_normal(shape) * 10.0 ** rng.uniform(-spread, spread, shape)

    # Gains and values in one layer, and blocks of groups that overlap.
    starts, slots = np.array([0, 2, 5, 6, 9]), np.array([0, 1, 1, 0])
    layers = tuple(
        ArgmaxLayer(
            *(AffineMap(draw(2, 3), draw(3)), draw(9, 3), draw(9), starts, slots, draw(9)),
            *(draw(9, 2) * (seed % 3), AffineMap(draw(3, 2), draw(2)), bool(seed % 2)),
        )
        for _ in range(3)
    )
    network = ArgmaxNetwork(layers, AffineMap(draw(2, 2), draw(2)), AffineMap.identity(2))
    exact = exact_network(network, np.array([[3, 0, 1], [0, 1, -1]], dtype=object), 7)
    forms, rounded = exact.stream, enclose(exact.stream)
    for layer in exact.layers:
        rows, enclosure = layer.score_rows(forms), round_layer(layer)
        scores = enclosure.scores.times(rounded)
        winners = np.array([rng.integers(a, b) for a, b in itertools.pairwise(layer.starts)])
        scale = forms.scale * layer.scores_scale
        unpacked = [forms.packing.unpack(int(row)) for row in rows]
        assert_encloses(scores, [[Fraction(x, scale) for x in row] for row in unpacked])
        forms = layer.after(forms, winners.tolist(), {})
        rounded = enclosure.after(rounded, scores, np.zeros(1, np.int64), winners[:, np.newaxis])
        assert_encloses(rounded, [[Fraction(x, forms.scale) for x in row] for row in forms.rows])


def test_rounded_sums_of_values_stay_within_their_bounds():
    """Ten heads write 0.1 each to one column, and nothing is multiplied afterwards."""
    starts, slots = np.arange(11), np.zeros(10, dtype=np.int64)
    identity = AffineMap.identity(1)
    values = np.full((10, 1), 0.1)
    forms = np.ones((10, 1)), np.zeros(10)
    layer = ArgmaxLayer(identity, *forms, starts, slots, np.zeros(10), values, identity, False)
    network = ArgmaxNetwork((layer,), identity, identity)
    exact = exact_network(network, np.array([[1, 0]], dtype=object), 1)
    winners = np.arange(10)
    rounded = round_layer(exact.layers[0])
    stream = enclose(exact.stream)
    scores = rounded.scores.times(stream)
    after = rounded.after(stream, scores, np.zeros(1, np.int64), winners[:, np.newaxis])
    assert reduce(add, [0.1] * 10) != 1.0  # `sum` keeps what is rounded off, from Python 3.12 on.
    assert_encloses(after, [[Fraction(0), 10 * Fraction(0.1)], [Fraction(0), Fraction(1)]])


def assert_encloses(enclosure, exact):
    for centre, radius, truth in zip(*enclosure, exact, strict=True):
        for c, r, x in zip(centre.ravel().tolist(), radius.ravel().tolist(), truth, strict=True):
            if math.isfinite(c) and math.isfinite(r):
                assert abs(Fraction(c) - x) <= Fraction(r)


@pytest.mark.parametrize("name", ["on the cross", "side on the cross"])
def test_a_wall_on_the_cross_of_the_verifier_is_a_wall(name):
    """An unbounded domain is cut there, yet a witness must not lie on it or beyond."""
    model, domain = CASES[name]
    certificate = make_certificate(model, domain, true_signatures(model, domain))
    moved = 0
    for cell, (x, y, w) in enumerate(certificate.witnesses.tolist()):
        witnesses = certificate.witnesses.copy()
        witnesses[cell] = point(w, 1009 * y, 1009 * w)
        if name == "on the cross" or 1009 * x < w:
            assert "not inside" in refused(model, replace(certificate, witnesses=witnesses))
            moved += 1
    assert moved


@pytest.mark.parametrize(
    ("rows", "n_pieces"),
    [
        ([], 4),
        ([(1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1)], 4),
        ([(1, 0, 1), (-1, 0, -1)], 0),
        ([(0, 0, -1)], 0),
        ([(0, 0, 1), (1, 0, -5)], 2),
        ([(-1, 0, 5), (0, -1, 5)], 4),
        ([(-1, 0, -5), (0, -1, -5)], 1),
    ],
    ids=["plane", "square", "flat", "empty", "half-plane", "corner", "far corner"],
)
def test_a_domain_is_cut_into_its_quadrants(rows, n_pieces):
    polygons, _ = domain_polygons([(-a, -b, c) for a, b, c in rows])
    assert len(polygons.starts) - 1 == n_pieces
