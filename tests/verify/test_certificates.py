"""Making certificates, and reading them back from files."""

import json
from dataclasses import fields

import numpy as np
import pytest

from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificates import make_certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import (
    CASES,
    CUBE,
    SQUARE,
    random_relu,
    random_transformer,
    tied_values,
    true_signatures,
)

STRIPES = ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]]], [[0.0, -1.0], None])
INTERVALS = [[0, 0], [1, 0], [1, 1]]
LINE = WholeSpace(1)


@pytest.mark.parametrize("name", CASES)
def test_a_certificate_of_what_the_engines_find_is_accepted(name):
    model, domain = CASES[name]
    part = enumerate_regions(model, domain)
    assert part.is_complete
    certificate = make_certificate(model, part.domain, part.signatures)
    assert verify_certificate(model, certificate, domain).ok
    assert verify_certificate(model, part.certificate(), domain).n_cells == part.n_cells


@pytest.mark.parametrize("name", CASES)
def test_a_certificate_reads_back_as_it_was_written(name, tmp_path):
    model, domain = CASES[name]
    certificate = make_certificate(model, domain, true_signatures(model, domain), kind="refusals")
    certificate.save(tmp_path / "cells.json")
    again = Certificate.load(tmp_path / "cells.json")
    for field in fields(Certificate):
        old, new = getattr(certificate, field.name), getattr(again, field.name)
        if isinstance(old, np.ndarray):
            assert old.shape == new.shape
            assert old.tolist() == new.tolist()
        else:
            assert old == new
    assert verify_certificate(model, again).ok
    assert list(tmp_path.iterdir()) == [tmp_path / "cells.json"]


def test_numbers_in_the_file_fit_the_doubles_of_other_readers():
    model, domain = CASES["wild scales"]
    made = make_certificate(model, domain, true_signatures(model, domain), kind="refusals")

    def largest(value):
        if isinstance(value, list | dict):
            return max(
                map(largest, value.values() if isinstance(value, dict) else value), default=0
            )
        return abs(value) if isinstance(value, int) else 0

    text = made.to_json()
    assert largest(json.loads(text)) < 2**53
    assert "0x" in text


def test_given_witnesses_are_kept_if_they_are_inside():
    floats = np.array([[-0.5], [0.25], [17.0]])
    certificate = make_certificate(STRIPES, LINE, INTERVALS, floats)
    assert certificate.witnesses.tolist() == [[-1, 2], [1, 4], [17, 1]]
    exact = np.array([[-2, 3], [1, 3], [4, 3]], dtype=object)
    certificate = make_certificate(STRIPES, LINE, INTERVALS, exact)
    assert certificate.witnesses.tolist() == exact.tolist()


def test_given_witnesses_on_a_wall_or_outside_are_replaced():
    given = np.array([[0.0], [5.0], [1.0]])
    certificate = make_certificate(STRIPES, LINE, INTERVALS, given)
    assert verify_certificate(STRIPES, certificate).ok
    backwards = np.array([[1, -1], [1, 3], [4, 3]], dtype=object)
    assert verify_certificate(STRIPES, make_certificate(STRIPES, LINE, INTERVALS, backwards)).ok


def test_witnesses_in_cells_far_away_and_thin_are_found():
    net = ReluNetwork([[[1.0, 1.0], [1e-18, 0.0]], [[1.0], [1.0]]], [[-1e15, -1e15 - 0.125], None])
    cells = true_signatures(net, WholeSpace(2))
    assert len(cells) == 4
    assert verify_certificate(net, make_certificate(net, WholeSpace(2), cells)).ok


@pytest.mark.parametrize("row", range(3))
def test_an_incomplete_list_never_gets_a_certificate_that_verifies(row):
    cells = INTERVALS[:row] + INTERVALS[row + 1 :]
    assert not verify_certificate(STRIPES, make_certificate(STRIPES, LINE, cells))
    with pytest.raises(ArgumentError, match="must list every cell"):
        make_certificate(STRIPES, LINE, cells, kind="refusals")


@pytest.mark.parametrize("model", [random_relu(21, 3, 4, 2, 1), random_transformer(22, 3)])
def test_refusals_notice_each_missing_cell(model):
    cells = true_signatures(model, CUBE)
    for row in range(len(cells)):
        with pytest.raises(ArgumentError, match="must list every cell"):
            make_certificate(model, CUBE, cells[:row] + cells[row + 1 :])


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
def test_an_empty_cell_has_no_certificate(kind):
    with pytest.raises(ArgumentError, match="`signatures` must list cells with nonempty interior"):
        make_certificate(STRIPES, LINE, [*INTERVALS, [0, 1]], kind=kind)


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
def test_a_name_that_is_not_canonical_has_no_certificate(kind):
    model = tied_values()
    cells = [list(cell) for cell in true_signatures(model, SQUARE)]
    cells[0][0] = 1
    with pytest.raises(ArgumentError, match="the first of several coinciding forms"):
        make_certificate(model, SQUARE, cells, kind=kind)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": 3}, "`model` must be a model"),
        ({"domain": "square"}, "`domain` must be"),
        ({"domain": SQUARE}, "`domain` must lie in the input space"),
        ({"signatures": [[0, 0], [0, 0]]}, "must list each cell once"),
        ({"signatures": [[0, 2]]}, "must contain indices from 0 to 1 in column 1; got 2 in row 0"),
        ({"signatures": [[0, -1]]}, "must contain indices"),
        ({"signatures": [[0]]}, "`signatures` must have shape"),
        ({"signatures": np.zeros((0, 2), int)}, "`signatures`"),
        ({"signatures": [[0.5, 0.5]]}, "`signatures` must hold integers"),
        ({"witnesses": [[1.0]]}, "`witnesses` must have shape"),
        ({"witnesses": [[np.nan]] * 3}, "`witnesses`"),
        (
            {"witnesses": np.array([[1]] * 3, dtype=object)},
            "`witnesses` .* must contain Python integers",
        ),
        (
            {"witnesses": np.array([[0.5, 1]] * 3, dtype=object)},
            "`witnesses` .* must contain Python integers",
        ),
        ({"kind": "area"}, "`kind` must be"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, message):
    arguments = {"model": STRIPES, "domain": LINE, "signatures": INTERVALS, **change}
    with pytest.raises(HardmaxError, match=message):
        make_certificate(**arguments)


def test_a_tiling_needs_a_plane():
    with pytest.raises(ArgumentError, match="`kind` must be 'refusals'"):
        make_certificate(random_relu(0, 3, 2, 1), CUBE, [[0, 0]], kind="tiling")


def written():
    return json.loads(make_certificate(STRIPES, LINE, INTERVALS, kind="refusals").to_json())


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '{"format": "hardmax.record/1"}', "[" * 100_000, "NaN", "\0"],
)
def test_text_that_is_no_certificate_is_refused(text):
    with pytest.raises(RecordFormatError):
        Certificate.from_json(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["model"], 7),
        (["domain"], []),
        (["domain", "dim"], 0),
        (["domain", "dim"], True),
        (["domain", "dim"], 2),
        (["domain", "chart"], {}),
        (["domain", "chart_denominator"], 0),
        (["domain", "chart_denominator"], "0x"),
        (["domain", "rows"], [[1]]),
        (["signatures"], None),
        (["signatures", 0], [0]),
        (["signatures", 0, 0], -1),
        (["signatures", 0, 0], True),
        (["signatures", 0, 0], 2**80),
        (["signatures", 0, 0], 0.5),
        (["witnesses", 0, 0], "__import__('os')"),
        (["witnesses", 0, 0], "0x1_0"),
        (["witnesses", 0, 0], " 0x10"),
        (["witnesses", 0, 0], "0xg"),
        (["witnesses", 0, 0], None),
        (["witnesses", 0], [1]),
        (["completeness"], "tiling"),
        (["completeness", "kind"], "trust me"),
        (["completeness", "kind"], "tiling"),
        (["completeness", "proofs"], 3),
        (["completeness", "proofs", 0], [3]),
        (["completeness", "proofs", 0, 0], ["0", 1]),
        (["surprise"], 1),
    ],
)
def test_a_file_with_a_broken_entry_is_refused(path, value):
    content = written()
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(RecordFormatError):
        Certificate.from_json(json.dumps(content))


def test_a_file_without_a_field_is_refused():
    for name in written():
        content = written()
        del content[name]
        with pytest.raises(RecordFormatError):
            Certificate.from_json(json.dumps(content))


def test_a_number_with_too_many_digits_is_refused():
    text = json.dumps(written()).replace('"dim": 1', '"dim": ' + "9" * 10_000)
    with pytest.raises(RecordFormatError):
        Certificate.from_json(text)


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "cells.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordFormatError, match="text file"):
        Certificate.load(tmp_path / "cells.json")


def test_a_damaged_file_is_named(tmp_path):
    for text in ("{", "[" * 600 + "]" * 600, json.dumps({**written(), "model": 7})):
        (tmp_path / "cells.json").write_text(text)
        with pytest.raises(RecordFormatError, match=r"must be a file with a certificate; .*json: "):
            Certificate.load(tmp_path / "cells.json")


def test_text_must_be_text():
    with pytest.raises(RecordFormatError):
        Certificate.from_json(None)


def test_a_certificate_says_what_it_is():
    made = make_certificate(STRIPES, Box([-1], [2]), INTERVALS)
    assert repr(made) == "Certificate(3 cells, dimension 1, by tiling)"
    with pytest.raises(DtypeError):
        make_certificate(STRIPES, None, INTERVALS)
