"""The quick verifier and the one in integers decide alike, on right and on corrupted certificates.

Besides, every certificate that any test has verified goes to both (`tests/conftest.py`).
"""

import random
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pytest

from hardmax._ground.records import fingerprint
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.storage import model_bytes
from hardmax.regions.certificate_format import domain_fingerprint, integer_table
from hardmax.regions.certificates import make_certificate
from hardmax.verify import verify
from hardmax.verify._fast import walk
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import CASES, true_signatures
from tests.sweeps import TIMES

N_CORRUPTED = 25 * TIMES
"""For each kind of certificate of each case: more than a thousand in all."""


@cache
def certificates(name):
    model, domain = CASES[name]
    cells = true_signatures(model, domain)
    dim = make_certificate(model, domain, cells).chart.shape[1] - 1
    kinds = ["tiling", "refusals"] if dim <= 2 else ["refusals"]
    return [make_certificate(model, domain, cells, kind=kind) for kind in kinds]


def network_of(model):
    return model if isinstance(model, ArgmaxNetwork) else model.network


def changed_entry(rng, entry, name):
    if name == "signatures":
        return rng.choice([0, 1, 2, entry + 1])
    return rng.choice([0, 1, -entry, entry + 1, entry - 1, 2 * entry, entry + 10**30])


def changed_table(rng, certificate, name):
    """One entry changed, a row dropped, doubled, or in the place of another."""
    table = getattr(certificate, name).tolist()
    what = rng.randrange(5)
    if not table or not table[0]:
        return {}
    i, j = rng.randrange(len(table)), rng.randrange(len(table))
    if what <= 1 or name == "chart":
        k = rng.randrange(len(table[i]))
        table[i][k] = changed_entry(rng, table[i][k], name)
    elif what == 2:
        del table[i]
    elif what == 3:
        table.append(table[i])
    else:
        table[i], table[j] = table[j], table[i]
    if name == "signatures":
        width = certificate.signatures.shape[1]
        return {name: np.array(table, dtype=np.int64).reshape(len(table), width)}
    return {name: integer_table(table, getattr(certificate, name).shape[1])}


def changed_cells(rng, certificate):
    """Cells dropped, with their witnesses; or the winner of a cell and its witness changed."""
    keep = [i for i in range(certificate.n_cells) if rng.random() < rng.choice([0.5, 0.9, 0.98])]
    keep = keep or [0]
    signatures = certificate.signatures[keep].copy()
    witnesses = certificate.witnesses[keep].copy()
    if signatures.size and rng.random() < 0.4:
        i, k = rng.randrange(len(signatures)), rng.randrange(signatures.shape[1])
        signatures[i, k] = 1 - min(signatures[i, k], 1)
    return {"signatures": signatures, "witnesses": witnesses}


def changed_proofs(rng, certificate):
    proofs = [list(proof) for proof in certificate.proofs]
    if not proofs:
        return {"proofs": (((0, 1),),)}
    i = rng.randrange(len(proofs))
    what = rng.randrange(6)
    if what == 0:
        del proofs[i]
    elif what == 1:
        proofs.insert(i, proofs[rng.randrange(len(proofs))])
    elif what == 2:
        del proofs[i][rng.randrange(len(proofs[i]))]
    else:
        k = rng.randrange(len(proofs[i]))
        row, factor = proofs[i][k]
        proofs[i][k] = [(row + rng.choice([-1, 1, 5]), factor), (row, factor + 1), (row, -factor)][
            what - 3
        ]
    return {"proofs": tuple(tuple(proof) for proof in proofs)}


def corrupted(rng, certificate):
    """Change something, and make the fingerprint of the domain right again."""
    what = rng.randrange(7)
    if what == 0 and certificate.kind == "refusals":
        change = changed_proofs(rng, certificate)
    elif what <= 2:
        change = changed_cells(rng, certificate)
    else:
        name = rng.choice(["signatures", "witnesses", "witnesses", "rows", "chart"])
        change = changed_table(rng, certificate, name)
    wrong = replace(certificate, **change)
    name = domain_fingerprint(wrong.chart, wrong.chart_denominator, wrong.rows)
    return replace(wrong, domain_fingerprint=name)


def both(model, certificate):
    """The verdict of both verifiers, as they agree."""
    quick = verify_certificate(model, certificate)
    with mock.patch.object(walk, "_SPARSE", (0, 0)):
        assert verify_certificate(model, certificate) == quick
    simple = verify_certificate(model, certificate, method="integers")
    assert (quick.ok, quick.n_cells) == (simple.ok, simple.n_cells), (quick, simple)
    assert bool(quick.reason) != quick.ok
    assert bool(simple.reason) != simple.ok
    return quick.ok


@pytest.mark.parametrize("name", CASES)
def test_both_accept_what_is_right_also_from_files(name):
    model, _ = CASES[name]
    for certificate in certificates(name):
        assert both(model, certificate)
        for stored in {model_bytes(model), model_bytes(network_of(model))}:
            assert verify.check(stored, certificate.to_json()) == certificate.n_cells
            assert verify.check(stored, certificate.to_json().encode()) == certificate.n_cells


@pytest.mark.parametrize("name", CASES)
def test_both_decide_alike_whatever_is_changed(name):
    rng = random.Random(name)
    model, _ = CASES[name]
    for certificate in certificates(name):
        n_refused = sum(not both(model, corrupted(rng, certificate)) for _ in range(N_CORRUPTED))
        assert n_refused


@pytest.mark.parametrize("name", CASES)
def test_both_decide_alike_about_a_model_that_is_nearly_the_same(name):
    rng = np.random.default_rng(len(name))
    model, _ = CASES[name]
    network = network_of(model)
    for certificate in certificates(name):
        for _ in range(8 if network.layers else 0):
            i = int(rng.integers(len(network.layers)))
            layers = list(network.layers)
            offsets = layers[i].offsets.copy()
            offsets[rng.integers(len(offsets))] += rng.choice([1.0, -0.5, 2.0**-40, 1e-300])
            layers[i] = replace(layers[i], offsets=offsets)
            other = replace(network, layers=tuple(layers))
            assert not both(other, certificate) or fingerprint(other) == certificate.model
            both(other, replace(certificate, model=fingerprint(other)))
