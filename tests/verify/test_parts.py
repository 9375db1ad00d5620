"""Certificates in parts: accepted and refused as the whole one is."""

from dataclasses import replace

import numpy as np
import pytest

from hardmax.errors import ArgumentError, IncompleteError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions._search import runs
from hardmax.regions._stores import durable
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)

SQUARE = Box([-2, -2], [3, 3])
SEARCHES = [
    (gaussian_relu(1, [2, 4, 3, 3]), SQUARE),
    (integer_relu(4, [2, 6, 5], zero_bias=True), WholeSpace(2)),
    (repeated_units(2), SQUARE),
    (integer_maxout(4, 2, [[3, 2, 2], [2, 3]]), WholeSpace(2)),
    (integer_transformer(1, 2, 4, 2, n_blocks=2, repeat=True), WholeSpace(2)),
    (integer_relu(1, [1, 6, 5]), Box([-3], [3])),
]


def some_cells(certificate, cells):
    return replace(
        certificate,
        signatures=certificate.signatures[cells],
        witnesses=certificate.witnesses[cells],
    )


def sorted_cells(certificate):
    return some_cells(certificate, np.lexsort(certificate.signatures.T[::-1]))


def in_parts(certificate, rng, n_parts):
    n = certificate.n_cells
    cuts = np.sort(rng.choice(np.arange(1, n), min(n_parts, n) - 1, replace=False))
    parts = [some_cells(certificate, part) for part in np.split(np.arange(n), cuts)]
    rng.shuffle(parts)
    return parts


def corrupted(certificate, rng):
    """Yield certificates of which most are wrong."""
    n = certificate.n_cells
    for cell in rng.choice(n, min(n, 4), replace=False).tolist():
        yield some_cells(certificate, np.delete(np.arange(n), cell))
    first = certificate.signatures[:, 0]
    yield some_cells(certificate, np.flatnonzero(first == first[0]))
    witnesses = certificate.witnesses.copy()
    witnesses[[0, n - 1]] = witnesses[[n - 1, 0]]
    yield replace(certificate, witnesses=witnesses)
    signatures = certificate.signatures.copy()
    signatures[rng.integers(n), -1] ^= 1
    yield sorted_cells(replace(certificate, signatures=signatures))


def check_agreement(model, domain, seed, n_parts):
    rng = np.random.default_rng(seed)
    whole = sorted_cells(enumerate_regions(model, domain).certificate())
    verdict = verify_certificate(model, in_parts(whole, rng, n_parts), domain)
    assert (verdict.ok, verdict.n_cells) == (True, whole.n_cells)
    for wrong in corrupted(whole, rng):
        if wrong.n_cells > 0:
            parts = in_parts(wrong, rng, n_parts)
            assert verify_certificate(model, parts).ok == verify_certificate(model, wrong).ok


@pytest.mark.parametrize(("model", "domain"), SEARCHES, ids=repr)
def test_parts_are_decided_as_the_whole_is(model, domain):
    for seed, n_parts in enumerate((3, 1000)):
        check_agreement(model, domain, seed, n_parts)


def test_parts_that_do_not_belong_together_are_refused():
    model = gaussian_relu(1, [2, 5, 4])
    whole = sorted_cells(enumerate_regions(model, SQUARE).certificate())
    other = sorted_cells(enumerate_regions(model, WholeSpace(2)).certificate())
    n = whole.n_cells
    half, rest = some_cells(whole, np.arange(n // 2)), some_cells(whole, np.arange(n // 2, n))
    for parts, match in [
        ([half], "do not cover"),
        ([half, rest, rest], "twice"),
        ([half, some_cells(whole, np.arange(n // 2 - 1, n))], "twice"),
        ([some_cells(whole, np.arange(0, n, 2)), some_cells(whole, np.arange(1, n, 2))], "between"),
        ([half, some_cells(rest, np.arange(rest.n_cells)[::-1])], "in order"),
        ([half, some_cells(other, np.arange(other.n_cells // 2, other.n_cells))], "different"),
        ([half, replace(rest, kind="refusals")], "must be a tiling"),
    ]:
        verdict = verify_certificate(model, parts)
        assert not verdict.ok
        assert match in verdict.reason
    assert verify_certificate(model, [half, rest], WholeSpace(2)).reason.count("another domain")
    assert verify_certificate(model, [rest, half], method="integers").n_cells == n


def test_a_store_is_certified_shard_by_shard(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    model = gaussian_relu(1, [2, 8, 7])
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 100)
    monkeypatch.setattr(runs, "SLICE_S", 1e-6)
    part = enumerate_regions(model, SQUARE, store=tmp_path / "cells")
    files = part.save_certificate(tmp_path / "proof")
    assert len(files) == part.n_shards > 1
    parts = [Certificate.load(file) for file in files]
    assert Certificate.joined(parts).to_json() == part.certificate().to_json()
    assert verify_certificate(model, files, SQUARE, workers=2).n_cells == part.n_cells
    # What is there stays; what is not is made.
    times = {file: file.stat().st_mtime_ns for file in files}
    files[0].unlink()
    part.save_certificate(tmp_path / "proof", workers=2)
    assert all((file.stat().st_mtime_ns == times[file]) == (file != files[0]) for file in files)
    verdict = verify_certificate(model, files[1:])
    assert not verdict.ok
    stopped = enumerate_regions(model, SQUARE, store=tmp_path / "other", max_seconds=0)
    with pytest.raises(IncompleteError):
        stopped.save_certificate(tmp_path / "none")
    counted = enumerate_regions(model, SQUARE, store=tmp_path / "count", count_only=True)
    with pytest.raises(ArgumentError, match="must hold cells in the plane"):
        counted.save_certificate(tmp_path / "none")
