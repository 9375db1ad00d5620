"""Forged files: both verifiers decide alike about each, raise nothing, and accept what is true."""

import json
import random
from fractions import Fraction
from functools import lru_cache
from unittest import mock

import numpy as np
import pytest

from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, DtypeError, RecordFormatError, SizeLimitError
from hardmax.geometry.domains import Segment
from hardmax.models import storage
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.storage import model_bytes
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.certificate_format import Certificate, domain_fingerprint, integer_table
from hardmax.regions.certificates import make_certificate
from hardmax.verify import checking, verify
from hardmax.verify.checking import verify_certificate
from tests.forged_certificates import (
    Case,
    cases,
    dumped,
    falsified,
    forged,
    put_together,
    read_certificate,
    read_model,
    taken_apart,
)
from tests.reference import regions
from tests.sweeps import TIMES

KINDS = ["plane", "line", "space", "deep", "plane in parts", "line in parts", "space in parts"]
N_FORGED, N_FALSIFIED = 80 * TIMES, 40 * TIMES
"""For each kind."""


def quickly(case):
    """Return the number of cells that the quick verifier proves, or why there is none."""
    network = read_model(case.model)
    if network is None:
        return "unreadable"
    try:
        parts = [read_certificate(content) for content in case.certificate]
    except RecordFormatError:
        return "unreadable"
    verdicts = [verify_certificate(network, parts, method=way) for way in ("fast", "integers")]
    assert verdicts[0].n_cells == verdicts[1].n_cells, verdicts
    assert verdicts[0].ok == verdicts[1].ok, verdicts
    return verdicts[0].n_cells if verdicts[0].ok else "refused"


def simply(case):
    """Return what the single file says, likewise."""
    try:
        return verify.check(case.model, *case.certificate)
    except verify.UnreadableError:
        return "unreadable"
    except verify.RefusedError:
        return "refused"


def is_true(case):
    """Count the cells again by their definition, and compare them with those listed."""
    network = read_model(case.model)
    parts = [read_certificate(content) for content in case.certificate]
    tables = [tuple(map(tuple, getattr(parts[0], name).tolist())) for name in ("chart", "rows")]
    found = true_cells(ByName(network), *tables, parts[0].chart_denominator)
    return found == sorted(tuple(row) for part in parts for row in part.signatures.tolist())


class ByName:
    """A network that is equal to another one if their weights are."""

    def __init__(self, network):
        self.network, self.name = network, fingerprint(network)

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


@lru_cache(maxsize=4096)
def true_cells(network, chart, rows, denominator):
    coordinates = [[Fraction(x, denominator) for x in row] for row in chart]
    # All of space is where 0 <= 0, but by the reference nothing is inside of it.
    found = regions.cells(network.network, coordinates, [list(row) for row in rows if any(row)])
    return sorted(tuple(cell[0]) for cell in found)


def decided(kind, n, change, seed=0):
    """Change cases of a kind, and return what both verifiers say of them, and how often."""
    rng, answers = random.Random(f"{seed} {kind} {change.__name__}"), []
    for _ in range(n):
        case = change(rng, rng.choice(cases(kind)))
        answer = quickly(case)
        assert answer == simply(case), (answer, case)
        if not isinstance(answer, str):
            assert is_true(case), case
        answers.append(answer)
    return answers


@pytest.mark.parametrize("kind", KINDS)
def test_both_verifiers_accept_the_true_ones(kind):
    for case in cases(kind):
        answer = quickly(case)
        assert answer == simply(case)
        assert not isinstance(answer, str), answer
        assert is_true(case)


@pytest.mark.parametrize("kind", KINDS)
def test_both_verifiers_say_the_same_of_forged_files(kind):
    answers = decided(kind, N_FORGED, forged)
    assert answers.count("unreadable") > N_FORGED // 8
    assert answers.count("refused") > N_FORGED // 8


@pytest.mark.parametrize("kind", KINDS)
def test_no_false_claim_is_accepted(kind):
    answers = decided(kind, N_FALSIFIED, falsified)
    assert answers.count("refused") > N_FALSIFIED // 2


# What was once decided differently, or raised something.


def changed_fields(case, **fields):
    file = taken_apart(case.model)
    return case._replace(model=put_together(file._replace(fields={**file.fields, **fields})))


def with_tensor(case, name, array):
    file = taken_apart(case.model)
    for tensor in file.tensors:
        if tensor[0] == name:
            tensor[2], tensor[3] = [*array.shape], array.tobytes()
    return case._replace(model=put_together(file))


def both(case):
    answer = quickly(case)
    assert answer == simply(case)
    return answer


def case_of(kind):
    """Return a true certificate about a model of a kind."""
    found = next(case for case in cases("plane") if taken_apart(case.model).fields["kind"] == kind)
    assert not isinstance(both(found), str)
    return found


def test_slopes_have_a_column_for_each_entry_that_is_read():
    case = case_of("ArgmaxNetwork")
    for n_columns in (1, 3):
        assert both(with_tensor(case, "layers.0.slopes", np.zeros((5, n_columns)))) == "unreadable"


@pytest.mark.parametrize(
    "identities", [[1], [[]], ["x"], [None], "layers.0.query.", ["layers.0.query."] * 2, {}]
)
def test_identities_are_names_of_maps(identities):
    assert both(changed_fields(case_of("ArgmaxNetwork"), identities=identities)) == "unreadable"


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("starts", [0, 2**63 - 1, 5]),
        ("starts", [0, -(2**63), 5]),
        ("slots", [0, 2**63 - 1]),
        ("slots", [-(2**63), 0]),
    ],
)
def test_indices_that_overflow_are_refused(name, indices):
    case = case_of("ArgmaxNetwork")
    assert both(with_tensor(case, f"layers.0.{name}", np.array(indices))) == "unreadable"


def test_starts_whose_steps_overflow_are_refused():
    starts = np.array([0, 2**63 - 1, -(2**63), -1, 2])
    identity = AffineMap.identity(1)
    with pytest.raises(ArgumentError, match="`starts` must increase"):
        ArgmaxLayer(
            *(identity, [[0.0], [1.0]], [0.0, 0.0], starts, np.zeros(4, int)),
            *([0.0, 1.0], [[0.0], [0.0]], identity, False),
        )


@pytest.mark.parametrize("extra", [{"x": 1}, {"content": "0" * 64}, {"blocks": []}])
def test_fields_and_hashes_of_a_model_are_checked(extra):
    case = case_of("ReluNetwork")
    file = taken_apart(case.model)
    content = put_together(file._replace(fields={**file.fields, **extra}), rehash="x" in extra)
    assert both(case._replace(model=content)) == "unreadable"


def test_long_integers_of_a_domain_are_hashed_or_unreadable():
    """Python writes integers of more than 4300 digits only if it is told so."""
    case = cases("plane")[0]
    for n_bits, answer in ((16_384, "refused"), (16_385, "unreadable"), (200_000, "unreadable")):
        content = json.loads(case.certificate[0])
        content["domain"]["rows"][0][0] = hex((1 << n_bits) - 1)
        assert both(case._replace(certificate=(dumped(content),))) == answer
    content = json.loads(case.certificate[0])
    content["domain"]["rows"].append([0, 0, hex((1 << 16_384) - 1)])
    table = integer_table([[0, 0, (1 << 16_384) - 1]], 3)
    parsed = Certificate.from_json(case.certificate[0].decode())
    rows = np.concatenate([parsed.rows, table])
    content["domain_fingerprint"] = domain_fingerprint(parsed.chart, 1, rows)
    assert both(case._replace(certificate=(dumped(content),))) == parsed.n_cells


def test_parts_about_other_models_or_of_other_kinds_are_refused():
    tilings, refusals = cases("plane in parts")[:2]
    assert not isinstance(both(tilings), str)
    mixed = [*tilings.certificate[:2], refusals.certificate[2]]
    other = cases("line in parts")[0].certificate
    stranger = json.loads(tilings.certificate[2])
    stranger["model"] = "0" * 64
    for parts in (
        mixed,
        [*tilings.certificate, other[0]],
        [*tilings.certificate, dumped(stranger)],
    ):
        assert both(tilings._replace(certificate=tuple(parts))) == "refused"


def test_a_proof_must_stand_in_the_part_of_its_node():
    case = next(
        case
        for case in cases("space in parts")
        if json.loads(case.certificate[0])["completeness"]["proofs"]
    )
    one, other, *rest = map(json.loads, case.certificate)
    other["completeness"]["proofs"].insert(0, one["completeness"]["proofs"].pop())
    assert both(case._replace(certificate=(*map(dumped, (one, other, *rest)),))) == "refused"


def test_an_unreadable_part_is_named_first():
    case = cases("plane in parts")[0]
    wrong = json.loads(case.certificate[0])
    wrong["domain_fingerprint"] = ""
    parts = dumped(wrong), b"{}", case.certificate[1]
    assert both(case._replace(certificate=parts)) == "unreadable"
    assert both(case._replace(certificate=parts[::2])) == "refused"


def test_parts_must_be_certificates_or_files():
    case = cases("plane in parts")[0]
    with pytest.raises(DtypeError, match="got int"):
        verify_certificate(read_model(case.model), [1, 2])


def test_heads_of_very_different_sizes_are_refused_alike():
    long = AttentionHead(np.ones((1, 400)), np.ones((1, 400)), [[1.0]], [[1.0]])
    short = AttentionHead([[1.0]], np.zeros((4000, 1)), np.ones((4000, 1)), [[1.0]])
    model = HardTransformer([Block([long, short])])
    with pytest.raises(ArgumentError, match="`heads` must be of similar sizes"):
        model_bytes(model)
    with mock.patch.object(storage, "MOST_PADDING", 10**9):
        content = model_bytes(model)
    assert both(Case(content, cases("plane")[0].certificate)) == "unreadable"


def test_many_units_on_an_identity_are_left_to_the_other_method(monkeypatch):
    identity, n = AffineMap.identity(40), 40
    layer = ArgmaxLayer(
        *(identity, np.tile([[0.0], [1.0]], (n, 1)), np.zeros(2 * n), np.arange(0, 2 * n + 1, 2)),
        *(np.arange(n), np.tile([0.0, 1.0], n), np.zeros((2 * n, 1)), identity, False),
        np.arange(n)[:, np.newaxis],
    )
    network = ArgmaxNetwork((layer,), identity, identity)
    domain = Segment([0.5] * n, [1.0] * n)
    certificate = make_certificate(network, domain, [[1] * n])
    assert verify_certificate(network, certificate).ok
    monkeypatch.setattr(checking, "_MOST_NUMBERS", 1)
    monkeypatch.setattr(checking, "_MOST_TIMES", 8)
    with pytest.raises(SizeLimitError, match="integers"):
        verify_certificate(network, certificate)
    assert verify_certificate(network, certificate, method="integers").ok


def test_a_name_that_stands_twice_among_many_is_found_at_once():
    names = ",".join(f'"{i}":0' for i in range(300_000))
    with pytest.raises(RecordFormatError, match="'7' occurs twice"):
        parse_json("{" + names + ',"7":1}')
