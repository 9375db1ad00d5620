"""Refusal certificates in four and five dimensions, right and tampered with."""

from dataclasses import replace

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificates import make_certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import random_maxout, random_relu, random_transformer, true_signatures


def box(dim):
    return Box([-2.0] * dim, [2.0] * dim)


SIMPLEX = Polytope(np.vstack([-np.eye(4), np.ones(4)]), [1.0, 1.0, 1.0, 1.0, 2.0])
FOUR_OF_FIVE = Slice([0.5, 0.0, 1.0, -1.0, 0.25], np.eye(5)[:4] + 0.5 * np.eye(5)[1:], box(4))

CASES = {
    "relu, 4": (random_relu(0, 4, 4, 2, 1), box(4)),
    "relu, 5": (random_relu(1, 5, 4, 2, 1), box(5)),
    "integer relu, all of 4": (random_relu(2, 4, 4, 2, 1, integers=True), WholeSpace(4)),
    "integer relu, all of 5": (random_relu(3, 5, 4, 2, 1, integers=True), WholeSpace(5)),
    "no bias, 5": (random_relu(4, 5, 4, 2, 1, integers=True, bias=False), box(5)),
    "maxout, 4": (random_maxout(5, 4), box(4)),
    "transformer, 4": (random_transformer(6, 4), box(4)),
    "transformer, 5": (random_transformer(7, 5), box(5)),
    "simplex, 4": (random_relu(8, 4, 4, 2, 1), SIMPLEX),
    "slice of 5": (random_relu(9, 5, 4, 2, 1), FOUR_OF_FIVE),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A model, a domain, and a certificate made from the cells an engine found."""
    model, domain = CASES[request.param]
    part = enumerate_regions(model, domain, exact=True)
    certificate = part.certificate()
    assert certificate.kind == "refusals"
    assert len(certificate.proofs) > 0
    return model, domain, certificate


def refused(model, certificate):
    verdict = verify_certificate(model, certificate)
    assert not verdict
    return verdict.reason


def test_the_cells_are_accepted_and_are_all(case):
    model, domain, certificate = case
    verdict = verify_certificate(model, certificate, domain)
    assert (verdict.ok, verdict.n_cells) == (True, certificate.n_cells)
    assert verify_certificate(model, Certificate.from_json(certificate.to_json())).ok


@pytest.mark.parametrize("name", ["relu, 4", "integer relu, all of 4", "no bias, 5"])
def test_they_are_the_cells_of_the_rational_program(name):
    model, domain = CASES[name]
    cells = true_signatures(model, domain)
    assert verify_certificate(model, make_certificate(model, domain, cells)).n_cells == len(cells)


def test_each_dropped_cell_is_noticed(case):
    model, _, certificate = case
    for row in range(certificate.n_cells):
        dropped = replace(
            certificate,
            signatures=np.delete(certificate.signatures, row, axis=0),
            witnesses=np.delete(certificate.witnesses, row, axis=0),
        )
        assert refused(model, dropped)


def test_a_doubled_cell_and_moved_witnesses_are_refused(case):
    model, _, certificate = case
    doubled = replace(
        certificate,
        signatures=np.concatenate([certificate.signatures, certificate.signatures[:1]]),
        witnesses=np.concatenate([certificate.witnesses, certificate.witnesses[:1]]),
    )
    assert "have the same signature" in refused(model, doubled)
    moved = np.roll(certificate.witnesses, 1, axis=0)
    assert "witness is not inside" in refused(model, replace(certificate, witnesses=moved))
    far = certificate.witnesses.copy()
    far[0, :-1] = 10**9
    # All of space has no outside, but then another cell is there.
    verdict = verify_certificate(model, replace(certificate, witnesses=far))
    inside = verdict.ok
    assert not inside or certificate.rows.shape[0] == 0


def test_every_proof_is_needed(case):
    model, _, certificate = case
    proofs = certificate.proofs
    assert "no proof excludes it" in refused(model, replace(certificate, proofs=proofs[:-1]))
    assert "more proofs than branches" in refused(
        model, replace(certificate, proofs=(*proofs, proofs[0]))
    )
    for i in range(0, len(proofs), max(1, len(proofs) // 8)):
        for forged in (
            proofs[i][:-1],
            tuple(
                (row, 2 * factor if k == 0 else factor) for k, (row, factor) in enumerate(proofs[i])
            ),
            tuple((row, -factor) for row, factor in proofs[i]),
            tuple((row + 1, factor) for row, factor in proofs[i]),
            (),
        ):
            changed = (*proofs[:i], forged, *proofs[i + 1 :])
            verdict = verify_certificate(model, replace(certificate, proofs=changed))
            # A single inequality 0 > 0, or one that scales to itself, proves as well as before.
            assert not verdict.ok or len(proofs[i]) == 1


def test_absent_cells_and_another_model_are_refused(case):
    model, _, certificate = case
    listed = {tuple(row) for row in certificate.signatures.tolist()}
    for group in range(certificate.signatures.shape[1]):
        other = certificate.signatures[:1].copy()
        other[0, group] = 1 - min(other[0, group], 1)
        if tuple(other[0].tolist()) in listed:
            continue
        added = replace(
            certificate,
            signatures=np.concatenate([certificate.signatures, other]),
            witnesses=np.concatenate([certificate.witnesses, certificate.witnesses[:1]]),
        )
        assert refused(model, added)
    stranger = random_relu(99, model.network.dim_in, 4, 2, 1)
    assert refused(stranger, certificate) == "the certificate is about another model."
