"""Certificates in parts: accepted and refused as the whole one is."""

from dataclasses import replace

import numpy as np
import pytest

from hardmax.errors import ArgumentError, IncompleteError, TaskError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions import make_certificate, stores
from hardmax.regions._search import runs
from hardmax.regions._stores import durable
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificate_parts import part_contexts, part_ends
from hardmax.regions.certificates import make_part
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


SPACES = [
    (gaussian_relu(1, [3, 5, 4]), Box([-2] * 3, [3] * 3)),
    (integer_relu(4, [3, 4, 3], zero_bias=True), WholeSpace(3)),
    (repeated_units(3), WholeSpace(3)),
    (integer_maxout(4, 3, [[3, 2, 2], [2, 3]]), WholeSpace(3)),
    (integer_transformer(1, 3, 4, 2, n_blocks=2, repeat=True), WholeSpace(3)),
    (integer_relu(2, [4, 3, 3]), WholeSpace(4)),
    (integer_relu(1, [2, 5, 4]), SQUARE),
]


def refusals_in_parts(model, domain, signatures, cuts):
    """Make a certificate by refusals in parts."""
    cells = np.split(signatures, cuts)
    ends = [part_ends(model.network, own, "refusals") for own in cells]
    contexts = part_contexts(model.network, ends, "refusals")
    return [
        make_part(model, domain, own, kind="refusals", context=context)
        for own, context in zip(cells, contexts, strict=True)
    ]


def corrupted_parts(parts, rng):
    """Yield parts by refusals of which most are wrong."""
    for i in rng.choice(len(parts), min(len(parts), 4), replace=False).tolist():
        own = parts[i]
        n, n_proofs = own.n_cells, len(own.proofs)
        wrong = []
        if n > 1:
            wrong.append(some_cells(own, np.delete(np.arange(n), rng.integers(n))))
            wrong.append(replace(own, witnesses=own.witnesses[::-1].copy()))
        if n_proofs:
            wrong += [replace(own, proofs=own.proofs[1:]), replace(own, proofs=own.proofs[:-1])]
            (name, times), *others = own.proofs[0]
            wrong.append(replace(own, proofs=(((name, times + 1), *others), *own.proofs[1:])))
            wrong.append(replace(own, proofs=own.proofs[::-1]))
        wrong.append(replace(own, proofs=(*own.proofs, ((0, 1),))))
        signatures = own.signatures.copy()
        signatures[rng.integers(n), -1] ^= 1
        wrong.append(replace(own, signatures=signatures))
        for one in wrong:
            yield [*parts[:i], one, *parts[i + 1 :]]
        if len(parts) > 1:
            yield [*parts[:i], *parts[i + 1 :]]


@pytest.mark.parametrize(("model", "domain"), SPACES, ids=repr)
def test_parts_by_refusals_are_those_of_the_whole(model, domain):
    signatures = enumerate_regions(model, domain).signatures
    signatures = signatures[np.lexsort(signatures.T[::-1])]
    whole = make_certificate(model, domain, signatures, kind="refusals")
    n, rng = len(signatures), np.random.default_rng(0)
    for n_parts in (2, 5, n):
        cuts = np.sort(rng.choice(np.arange(1, n), min(n_parts, n) - 1, replace=False))
        parts = refusals_in_parts(model, domain, signatures, cuts)
        assert Certificate.joined(parts[::-1]).to_json() == whole.to_json()
        verdict = verify_certificate(model, parts[::-1], domain)
        assert (verdict.ok, verdict.n_cells) == (True, n)
        assert verify_certificate(model, parts, method="integers").n_cells == n
        n_refused = 0
        for wrong in corrupted_parts(parts, rng):
            verdict = verify_certificate(model, wrong)
            joined = Certificate.joined(wrong)
            # Two parts whose cells are not in order are refused for that alone.
            assert not verdict.ok or verify_certificate(model, joined).ok
            n_refused += not verdict.ok
        assert n_refused >= min(n_parts, 4)


def test_a_missing_cell_is_noticed_by_who_makes_a_part():
    model, box = gaussian_relu(1, [3, 5, 4]), Box([-2] * 3, [3] * 3)
    signatures = enumerate_regions(model, box).signatures
    n = len(signatures)
    for cell in range(0, n, 7):
        some = np.delete(signatures, cell, axis=0)
        with pytest.raises(ArgumentError, match="must list every cell"):
            refusals_in_parts(model, box, some, [n // 3, n // 2])


def test_parts_that_do_not_belong_together_are_refused():
    model = gaussian_relu(1, [2, 5, 4])
    whole = sorted_cells(enumerate_regions(model, SQUARE).certificate())
    other = sorted_cells(enumerate_regions(model, WholeSpace(2)).certificate())
    n = whole.n_cells
    half, rest = some_cells(whole, np.arange(n // 2)), some_cells(whole, np.arange(n // 2, n))
    for parts, match in [
        ([half], "do not cover"),
        ([half, rest, rest], "same cell"),
        ([half, some_cells(whole, np.arange(n // 2 - 1, n))], "same cell"),
        ([some_cells(whole, np.arange(0, n, 2)), some_cells(whole, np.arange(1, n, 2))], "overlap"),
        ([half, some_cells(rest, np.arange(rest.n_cells)[::-1])], "lexicographic order"),
        ([half, some_cells(other, np.arange(other.n_cells // 2, other.n_cells))], "different"),
        ([half, replace(rest, kind="refusals")], "different"),
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
    with pytest.raises(ArgumentError, match="only counted"):
        counted.save_certificate(tmp_path / "none")


def test_a_store_in_space_is_certified_shard_by_shard(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    model, box = gaussian_relu(1, [3, 6, 5]), Box([-2] * 3, [3] * 3)
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 100)
    monkeypatch.setattr(runs, "SLICE_S", 1e-6)
    part = enumerate_regions(model, box, store=tmp_path / "cells")
    files = part.save_certificate(tmp_path / "proof", workers=2)
    assert len(files) == part.n_shards > 2
    whole = part.certificate().to_json()
    assert Certificate.joined(map(Certificate.load, files)).to_json() == whole
    files[1].unlink()
    assert part.save_certificate(tmp_path / "proof") == files
    assert Certificate.joined(map(Certificate.load, files)).to_json() == whole
    assert verify_certificate(model, files, box, workers=2).n_cells == part.n_cells
    assert not verify_certificate(model, files[1:]).ok


def test_a_part_that_cannot_be_made_is_named_and_the_rest_is_done(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    model = gaussian_relu(1, [2, 8, 7])
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 100)
    monkeypatch.setattr(runs, "SLICE_S", 1e-6)
    part = enumerate_regions(model, SQUARE, store=tmp_path / "cells")
    usual = stores._certify

    def certify(folder, max_bytes, wanted):
        if wanted[0] == 1:
            raise RuntimeError("no luck")
        usual(folder, max_bytes, wanted)

    monkeypatch.setattr(stores, "_certify", certify)
    with pytest.raises(TaskError, match=r"1 of \d+ parts.*cells-\d+\.parquet.*no luck"):
        part.save_certificate(tmp_path / "proof")
    assert len([*(tmp_path / "proof").iterdir()]) == part.n_shards - 1
    monkeypatch.undo()
    n_left = 2

    def save(certificate, path):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(28, "No space left on device")
        usual_save(certificate, path)

    usual_save = Certificate.save
    with monkeypatch.context() as patch:
        patch.setattr(Certificate, "save", save)
        with pytest.raises(ArgumentError, match=r"`folder` must be a writable .*No space"):
            part.save_certificate(tmp_path / "other")
    # Nothing is tried again, nor is anything else.
    assert n_left == -1
    with pytest.raises(ArgumentError, match="`folder` must be a writable folder"):
        part.save_certificate(tmp_path / "cells" / "manifest.json" / "proof")
    assert len(part.save_certificate(tmp_path / "other")) == part.n_shards
    files = part.save_certificate(tmp_path / "proof")
    assert verify_certificate(model, files).n_cells == part.n_cells
