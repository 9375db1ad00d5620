"""Searches into folders: ended at any moment, gone on with, and as one that nobody ended."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path

import numpy as np
import pytest

from hardmax import open_partition
from hardmax._ground import files, progress, workers
from hardmax._ground.workers import Processes
from hardmax.errors import ArgumentError, Interrupted, RecordFormatError, SizeLimitError, TaskError
from hardmax.geometry.domain_text import domain_text
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.models.storage import model_bytes
from hardmax.regions._search import plane, runs
from hardmax.regions._search.explored import explored_text
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.searches import Task
from hardmax.regions._stores import durable, jobs, manifests
from hardmax.regions._stores.manifests import MODEL
from hardmax.regions._stores.tasks import read_stack, stack_bytes
from hardmax.regions.charted_domains import charted
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.verify.checking import verify_certificate
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)

pytest.importorskip("pyarrow")

SQUARE = Box([-2, -2], [3, 3])
NET = gaussian_relu(0, [2, 7, 6])
SEARCHES = [
    (gaussian_relu(1, [2, 4, 4, 4, 4]), SQUARE),
    (NET, WholeSpace(2)),
    (integer_relu(2, [2, 6, 5]), WholeSpace(2)),
    (integer_relu(4, [2, 6, 5], zero_bias=True), SQUARE),
    (repeated_units(2), SQUARE),
    (integer_maxout(4, 2, [[3, 2, 2], [2, 3]]), WholeSpace(2)),
    (integer_transformer(1, 2, 4, 2, n_blocks=2, repeat=True), WholeSpace(2)),
    (gaussian_relu(3, [4, 5, 5]), Slice([0, 0, 1, 0], [[1, 0, 0, 1], [0, 1, 0.5, 0]])),
    (gaussian_relu(1, [3, 5, 3]), WholeSpace(3)),
    (integer_relu(1, [3, 4, 3]), Box([-2] * 3, [3] * 3)),
    (repeated_units(3), WholeSpace(3)),
    (integer_transformer(1, 3, 4, 2, n_blocks=2, repeat=True), WholeSpace(3)),
    (integer_relu(2, [5, 3, 3]), WholeSpace(5)),
]


@pytest.fixture
def short_jobs(monkeypatch):
    """Jobs of a few steps each."""
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(durable, "SHORT_S", 0.0)
    monkeypatch.setattr(durable, "BRIEF_S", 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 20)
    monkeypatch.setattr(runs, "SLICE_S", 1e-6)


def arrays_of(part):
    cells = part.cells
    found = [cells.signatures, cells.maps, cells.map_radii, cells.vertices, cells.starts]
    found += [cells.directions, cells.walls, *(cells.facets or ())]
    return [array for array in found if array is not None]


def assert_same(part, other):
    assert (part.n_found, part.is_complete) == (other.n_found, other.is_complete)
    mine, theirs = arrays_of(part), arrays_of(other)
    assert len(mine) == len(theirs)
    for one, another in zip(mine, theirs, strict=True):
        assert one.dtype == another.dtype
        assert one.tobytes() == another.tobytes()


@pytest.mark.parametrize(("model", "domain"), SEARCHES, ids=repr)
def test_jobs_of_a_few_steps_find_what_one_search_finds(model, domain, tmp_path, short_jobs):
    part = enumerate_regions(model, domain, store=tmp_path / "1")
    assert part.n_shards > 1
    shared = enumerate_regions(model, domain, store=tmp_path / "3", workers=3)
    assert_same(part, shared)
    whole = enumerate_regions(model, domain)
    assert_same(part, whole)
    assert part.certificate().to_json() == whole.certificate().to_json()
    assert part.neighbours.pairs.tolist() == whole.neighbours.pairs.tolist()
    assert part.neighbours.walls == whole.neighbours.walls
    counted = enumerate_regions(model, domain, store=tmp_path / "n", count_only=True)
    assert (counted.n_cells, counted.n_shards) == (whole.n_cells, 0)


def test_a_stored_partition_is_opened_without_its_cells(tmp_path, short_jobs):
    enumerate_regions(NET, SQUARE, store=tmp_path)
    part, whole = open_partition(tmp_path, NET), enumerate_regions(NET, SQUARE)
    assert (part.n_cells, part.is_complete, repr(part)) == (whole.n_cells, True, repr(whole))
    assert "signatures" not in part.cells.__dict__
    found = [shard.signatures for shard in part.shards()]
    assert np.concatenate(found).tolist() == whole.signatures.tolist()
    assert sum(shard.volumes.sum() for shard in part.shards()) == pytest.approx(25)
    assert (part.n_regions, part.n_affine_maps) == (whole.n_regions, whole.n_affine_maps)
    assert verify_certificate(NET, part.certificate()).ok


def test_all_cells_at_once_must_fit_the_limit(tmp_path, short_jobs):
    enumerate_regions(NET, SQUARE, store=tmp_path)
    n_bytes = sum(array.nbytes for array in arrays_of(enumerate_regions(NET, SQUARE)))
    part = open_partition(tmp_path, max_bytes=n_bytes // 2)
    assert sum(shard.n_found for shard in part.shards()) == part.n_cells
    with pytest.raises(SizeLimitError, match="`max_bytes`"):
        _ = part.signatures


def test_shards_can_be_queried(tmp_path, short_jobs):
    duckdb = pytest.importorskip("duckdb")
    part = enumerate_regions(NET, SQUARE, store=tmp_path)
    files_of = f"'{tmp_path}/cells-*.parquet'"
    rows = duckdb.sql(f"SELECT signatures FROM {files_of} ORDER BY signatures").fetchall()
    assert [list(row[0]) for row in rows] == part.signatures.tolist()


KILLED = """
import sys
from hardmax.regions._search import plane, runs
from hardmax.regions._search.explored import explored_text
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.searches import Task
from hardmax.regions._stores import durable
from hardmax.regions.charted_domains import charted
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from tests.regions.test_stores import SQUARE, gaussian_relu
durable.LONG_S = durable.SHORT_S = durable.BRIEF_S = 0.004
runs._FIRST_BUDGET = 100
print("ready", flush=True)
enumerate_regions(gaussian_relu(5, [2, 20, 20]), SQUARE, store=sys.argv[1], workers=2)
"""


def test_a_search_that_is_killed_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    model, n_killed = gaussian_relu(5, [2, 20, 20]), 0
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([f"{root}/src", str(root)])}
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.1))
            process.send_signal(signal.SIGKILL)
            n_killed += process.wait() == -signal.SIGKILL
        # The model is written after the first manifest; without it the next search writes it.
        if (tmp_path / manifests.MANIFEST).exists() and (tmp_path / MODEL).exists():
            part = open_partition(tmp_path)
            assert sum(shard.n_found for shard in part.shards()) == part.n_found
    assert n_killed
    part = enumerate_regions(model, SQUARE, store=tmp_path)
    whole = enumerate_regions(model, SQUARE)
    assert_same(part, whole)
    assert part.certificate().to_json() == whole.certificate().to_json()
    known = {shard.file for shard in part._manifest.shards}
    assert {path.name for path in tmp_path.iterdir()} == known | {"manifest.json", manifests.MODEL}


def test_a_log_that_was_left_at_the_end_is_put_away(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(manifests.ManifestLog, "close", lambda _: None)
        enumerate_regions(NET, SQUARE, store=tmp_path)
    assert (tmp_path / manifests.LOG).exists()
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), enumerate_regions(NET, SQUARE))
    assert not (tmp_path / manifests.LOG).exists()


def test_a_limit_stops_it_and_the_same_call_goes_on(tmp_path, short_jobs):
    part = enumerate_regions(NET, SQUARE, store=tmp_path, max_seconds=0.0)
    assert not part.is_complete
    seconds = 0.01
    while not part.is_complete:
        part = enumerate_regions(NET, SQUARE, store=tmp_path, max_seconds=seconds)
        assert part.is_complete or str(part.n_cells).startswith("at least")
    assert_same(part, enumerate_regions(NET, SQUARE))


def test_a_full_disk_leaves_what_was_written(tmp_path, short_jobs, monkeypatch):
    n_left = 7

    def fsync(handle):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(ArgumentError, match=r"writable.*No space left"):
        enumerate_regions(NET, SQUARE, store=tmp_path)
    monkeypatch.undo()
    part = open_partition(tmp_path)
    assert not part.is_complete
    assert sum(shard.n_found for shard in part.shards()) == part.n_found
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), enumerate_regions(NET, SQUARE))


def test_folders_that_are_not_of_this_search_are_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("something else")
    with pytest.raises(ArgumentError, match=r"`store` must be a new folder.*mine\.txt"):
        enumerate_regions(NET, SQUARE, store=tmp_path)
    with pytest.raises(ArgumentError, match="`store` must be a writable folder"):
        enumerate_regions(NET, SQUARE, store=tmp_path / "mine.txt" / "store")
    with pytest.raises(RecordFormatError, match=r"does not contain manifest\.json"):
        open_partition(tmp_path)
    store = tmp_path / "store"
    enumerate_regions(NET, SQUARE, store=store)
    other = ReluNetwork([np.eye(2), np.ones((2, 1))])
    for model, domain, options, name in [
        (other, SQUARE, {}, "model"),
        (NET, WholeSpace(2), {}, "domain"),
        (NET, SQUARE, {"count_only": True}, "count_only"),
    ]:
        with pytest.raises(ArgumentError, match=f"different `{name}`"):
            enumerate_regions(model, domain, store=store, **options)
    with pytest.raises(RecordFormatError, match="belongs to a different model"):
        open_partition(store, other)
    with manifests.lock_folder(store), pytest.raises(ArgumentError, match="in use"):
        enumerate_regions(NET, SQUARE, store=store)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_is_read_only_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ArgumentError, match="`store` must be a writable folder"):
        enumerate_regions(NET, SQUARE, store=tmp_path)


def test_a_damaged_manifest_is_refused(tmp_path, short_jobs):
    enumerate_regions(NET, SQUARE, store=tmp_path)
    manifest = tmp_path / manifests.MANIFEST
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**fields, "n_cells": fields["n_cells"] + 1}))
    for call in (open_partition, lambda path: enumerate_regions(NET, SQUARE, store=path)):
        with pytest.raises(RecordFormatError, match=r"modified after it was written.*backup"):
            call(tmp_path)
    manifest.write_text(json.dumps({**fields, "format": "hardmax.store/9"}))
    with pytest.raises(RecordFormatError, match="format"):
        open_partition(tmp_path)
    manifest.write_text("{")
    with pytest.raises(RecordFormatError, match="JSON"):
        open_partition(tmp_path)
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(RecordFormatError, match=r"manifest\.json.*backup"):
        open_partition(tmp_path)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip_a_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])


@pytest.mark.parametrize("model", [NET, gaussian_relu(1, [3, 6, 4])], ids=repr)
@pytest.mark.parametrize("damage", [truncate, flip_a_bit, Path.unlink])
def test_the_part_of_a_damaged_shard_is_searched_again(model, damage, tmp_path, short_jobs):
    domain = SQUARE if model is NET else Box([-2] * 3, [3] * 3)
    part, whole = enumerate_regions(model, domain, store=tmp_path), enumerate_regions(model, domain)
    shards = part._manifest.shards
    assert len(shards) > 4
    kept = {shard.file: (tmp_path / shard.file).stat().st_mtime_ns for shard in shards[2:-1]}
    for shard in (*shards[:2], shards[-1]):
        damage(tmp_path / shard.file)
    with pytest.raises(RecordFormatError, match=f"{shards[0].file} .*only this part"):
        _ = open_partition(tmp_path).signatures
    # Stopped at once, it has forgotten the damaged cells, and knows where they are.
    part = enumerate_regions(model, domain, store=tmp_path, max_seconds=0.0)
    assert part.n_found == whole.n_found - sum(part.n_cells for part in (*shards[:2], shards[-1]))
    assert not part.is_complete
    part = enumerate_regions(model, domain, store=tmp_path, workers=2)
    assert_same(part, whole)
    assert kept == {file: (tmp_path / file).stat().st_mtime_ns for file in kept}
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {shard.file for shard in part._manifest.shards} | {"manifest.json", MODEL}


def test_a_lost_model_is_written_again(tmp_path):
    part = enumerate_regions(NET, SQUARE, store=tmp_path)
    (tmp_path / MODEL).unlink()
    with pytest.raises(RecordFormatError, match="with the model and this folder as `store`"):
        open_partition(tmp_path)
    enumerate_regions(NET, SQUARE, store=tmp_path)
    assert_same(open_partition(tmp_path), part)


def test_files_that_the_store_has_not_written_stay(tmp_path, short_jobs):
    enumerate_regions(NET, SQUARE, store=tmp_path, max_seconds=0.01)
    others = ["cells-mine.parquet", "cells-000123.parquet", "cells-000001.parquet.bak"]
    others += [".cells-notes", ".manifest.json.bak", "notes.txt"]
    n_shards = len(open_partition(tmp_path)._manifest.shards)
    others.append(f"cells-{n_shards:06d}.parquet")
    for name in others:
        (tmp_path / name).write_text(name)
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), enumerate_regions(NET, SQUARE))
    assert [(tmp_path / name).read_text() for name in others] == others


def log_of(tmp_path, monkeypatch, *, n_kept=None, domain=SQUARE, model=NET):
    """Search into a folder, and leave a manifest and a log of some lines."""
    with monkeypatch.context() as patch:
        folds = iter([manifests.ManifestLog._fold])
        patch.setattr(manifests.ManifestLog, "_fold", lambda log: next(folds, lambda _: None)(log))
        enumerate_regions(model, domain, store=tmp_path)
    log = tmp_path / manifests.LOG
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:n_kept]))
    return log, lines


def read_or_refused(folder, path):
    """Read a manifest; None if it is refused by an error that names the file."""
    try:
        return manifests.read_manifest(folder).__dict__
    except RecordFormatError as error:
        return None if str(path) in str(error) else error


def test_no_bit_of_manifest_and_log_flips_unseen(tmp_path, monkeypatch):
    log = manifests.ManifestLog(tmp_path, manifests.Manifest("abc", "box:-1,1^2", "planar", False))
    for number, left in enumerate([(b"rest",), ()]):
        shard = log.new_shard(b"cells", 3, bytes([0, 0, 0, number]))
        shares = (0.25e-6,) * len(left)
        quotas = (None,) * len(left)
        log.add(manifests.Step(0, left, shares, (shard,), 3, (1, 2, 3), False, quotas))
    right = manifests.read_manifest(tmp_path)
    assert (right.n_cells, right.is_complete) == (6, True)
    contents = {
        path: path.read_bytes()
        for path in (tmp_path / manifests.MANIFEST, tmp_path / manifests.LOG)
    }
    # Opening a file takes ten times as long as reading a manifest.
    monkeypatch.setattr(Path, "read_bytes", lambda path: bytes(contents[path]))
    for path, content in [*contents.items()]:
        found = []
        for bit in range(8 * len(content)):
            contents[path] = bytearray(content)
            contents[path][bit // 8] ^= 1 << bit % 8
            found.append(read_or_refused(tmp_path, path))
        contents[path] = content
        # Some flips change the case of an exponent, and nothing else.
        assert all(one in (None, right.__dict__) for one in found)
        assert found.count(None) > 0.99 * len(found)


def test_damage_in_a_log_names_its_line(tmp_path, monkeypatch, short_jobs):
    log, lines = log_of(tmp_path, monkeypatch)
    assert len(lines) > 4
    for number in (1, 3, len(lines)):
        damaged = [*lines]
        damaged[number - 1] = damaged[number - 1].replace(b'"n_cells": ', b'"n_cells": 1', 1)
        log.write_bytes(b"".join(damaged))
        for call in (open_partition, lambda path: enumerate_regions(NET, SQUARE, store=path)):
            with pytest.raises(RecordFormatError, match=rf"manifest\.log, line {number}:.*backup"):
                call(tmp_path)
    log.write_bytes(b"".join(lines[1:]))
    with pytest.raises(RecordFormatError, match=r"line 1: .*not written for this"):
        open_partition(tmp_path)
    log.write_bytes(b"".join(lines))
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), enumerate_regions(NET, SQUARE))


def as_old(tmp_path, lines):
    """Write manifest and log as the format before; return the path of the log."""
    path, log = tmp_path / manifests.MANIFEST, tmp_path / manifests.LOG

    def line(fields, before):
        content = manifests._hash_fields(fields, before)
        return json.dumps({**fields, "content": content}).encode() + b"\n", content

    fields = json.loads(path.read_text())
    for name in ("content", "quotas", "folded"):
        del fields[name]
    for shard in fields["shards"]:
        shard.pop("task", None)
    written, before = line({**fields, "format": "hardmax.store/2"}, "")
    path.write_bytes(written)
    old = []
    for text in lines:
        fields = json.loads(text)
        for name in ("content", "quotas", "follows"):
            del fields[name]
        written, before = line(fields, before)
        old.append(written)
    log.write_bytes(b"".join(old))
    return log


def test_a_store_of_the_format_before_goes_on(tmp_path, monkeypatch, short_jobs):
    whole = enumerate_regions(NET, SQUARE)
    _, lines = log_of(tmp_path, monkeypatch, n_kept=5)
    as_old(tmp_path, lines[:5])
    part = open_partition(tmp_path)
    assert 0 < part.n_found < whole.n_found
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), whole)
    old = as_old(tmp_path, [])
    old.unlink()
    assert_same(open_partition(tmp_path), whole)
    shard = tmp_path / part._manifest.shards[0].file
    shard.unlink()
    with pytest.raises(RecordFormatError, match="older format"):
        _ = open_partition(tmp_path).signatures
    with pytest.raises(RecordFormatError, match=f"{shard.name} is missing.*older format"):
        enumerate_regions(NET, SQUARE, store=tmp_path)


def test_a_log_that_the_manifest_includes_is_put_away(tmp_path, monkeypatch, short_jobs):
    log, lines = log_of(tmp_path, monkeypatch)
    whole = enumerate_regions(NET, SQUARE, store=tmp_path)
    log.write_bytes(b"".join(lines))
    assert_same(open_partition(tmp_path), whole)
    log.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(RecordFormatError, match="line 1"):
        open_partition(tmp_path)
    log.write_bytes(b"".join(lines))
    enumerate_regions(NET, SQUARE, store=tmp_path)
    assert not log.exists()


def test_a_log_counts_as_far_as_it_was_written(tmp_path, short_jobs, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(log):
        raise Killed

    for name in ("_fold", "close"):
        usual = getattr(manifests.ManifestLog, name)
        ends = iter([usual] if name == "_fold" else [])
        monkeypatch.setattr(
            manifests.ManifestLog, name, lambda log, ends=ends: next(ends, killed)(log)
        )
    monkeypatch.setattr(manifests, "_MIN_LOG_BYTES", 20_000)
    with pytest.raises(Killed):
        enumerate_regions(NET, SQUARE, store=tmp_path)
    monkeypatch.undo()
    log, whole = tmp_path / manifests.LOG, enumerate_regions(NET, SQUARE)
    lines = log.read_bytes().splitlines(keepends=True)
    assert len(lines) > 3

    def n_found(*parts):
        log.write_bytes(b"".join(parts))
        part = open_partition(tmp_path)
        assert sum(shard.n_found for shard in part.shards()) == part.n_found
        return part.n_found

    found = [n_found(*lines[:n]) for n in range(len(lines) + 1)]
    assert found == sorted(found)
    assert found[0] == 0 < found[-1]
    assert n_found(*lines[:-1], lines[-1][:-40]) == found[-2]
    with pytest.raises(RecordFormatError, match="line 1"):
        n_found(*lines[1:])
    with pytest.raises(RecordFormatError, match=r"line 2: .*modified after it was written"):
        n_found(lines[0], lines[2], lines[1])
    n_found(*lines[:-1], lines[-1][:-40])
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), whole)
    assert not log.exists()


def test_what_has_no_store_is_refused(tmp_path):
    for domain, options, match in [
        (Segment([0, 0], [1, 1]), {}, "dimension 2 to 7"),
        (SQUARE, {"exact": True}, "dimension 2 to 7"),
        (SQUARE, {"max_cells": 5}, "`max_cells`"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            enumerate_regions(NET, domain, store=tmp_path / "store", **options)
    with pytest.raises(ArgumentError, match="`executor`"):
        enumerate_regions(NET, SQUARE, executor=Now())


@pytest.mark.parametrize("name", ["wall_names", "directions", "facets", "starts"])
def test_any_field_may_be_asked_for_first(tmp_path, name):
    whole = enumerate_regions(NET, SQUARE)
    part = enumerate_regions(NET, SQUARE, store=tmp_path)
    found, wanted = getattr(part.cells, name), getattr(whole.cells, name)
    if name == "wall_names":
        found, wanted = found.codes, wanted.codes
    np.testing.assert_array_equal(found, wanted)


def test_an_interrupt_keeps_what_is_there(tmp_path, short_jobs, monkeypatch):
    usual, pressed = workers.wait, []

    def wait(*given):
        if not pressed and any(tmp_path.glob("*.parquet")):
            pressed.append(True)
            raise KeyboardInterrupt
        return usual(*given)

    monkeypatch.setattr(workers, "wait", wait)
    with pytest.raises(Interrupted) as stopped:
        enumerate_regions(NET, SQUARE, store=tmp_path, workers=2)
    part = stopped.value.partial
    assert part.n_found > 0
    assert not part.is_complete
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path), enumerate_regions(NET, SQUARE))


class Now(Executor):
    """Does a job when it is given; `refuses` may raise before."""

    def __init__(self, refuses=lambda job: None):
        self.refuses = refuses

    def submit(self, work, job):
        future = Future()
        try:
            self.refuses(job)
            future.set_result(work(job))
        except Exception as error:
            future.set_exception(error)
        return future


def test_a_part_that_fails_is_named_and_the_rest_is_done(tmp_path, short_jobs):
    poisoned = []

    def refuses(job):
        if not poisoned and job.task and len(read_stack(job.task, NET.network, 2)) > 2:
            poisoned.append(job.task)
        if job.task in poisoned:
            raise RuntimeError("no luck")

    with pytest.raises(TaskError, match=r"1 part .* In layer \d+, units, after .*: no luck"):
        enumerate_regions(NET, SQUARE, store=tmp_path, workers=3, executor=Now(refuses))
    part, whole = open_partition(tmp_path), enumerate_regions(NET, SQUARE)
    assert part._manifest.tasks == tuple(poisoned)
    assert 0 < part.n_found < whole.n_found
    assert_same(enumerate_regions(NET, SQUARE, store=tmp_path, executor=Now()), whole)


def test_an_executor_that_breaks_is_made_again(tmp_path, short_jobs):
    def refuses(job):
        n_shards = {1: 2, 2: 5}.get(len(broken), np.inf)
        if len(list(tmp_path.glob("*.parquet"))) >= n_shards and not broken[-1]:
            broken[-1] = True
            raise BrokenExecutor("a process was lost")

    broken = []

    def make():
        broken.append(False)
        return Now(refuses)

    part = enumerate_regions(NET, SQUARE, store=tmp_path, workers=2, executor=make)
    assert_same(part, enumerate_regions(NET, SQUARE))
    assert broken == [True, True, False]
    broken[:] = [False]
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(ArgumentError, match="`executor` must not break"):
        enumerate_regions(NET, SQUARE, store=tmp_path, workers=2, executor=Now(refuses))


def test_processes_search_and_may_be_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(durable, "SHORT_S", 0.0)
    monkeypatch.setattr(durable, "BRIEF_S", 0.0)
    model, pool, lost = gaussian_relu(5, [2, 60, 60]), Processes(2), []
    usual = manifests.ManifestLog.add

    def add(log, step):
        usual(log, step)
        if not lost and log.manifest.n_cells:
            lost.append(pool._children[0].pid)
            os.kill(lost[0], signal.SIGKILL)

    monkeypatch.setattr(manifests.ManifestLog, "add", add)
    with pool:
        part = enumerate_regions(model, SQUARE, store=tmp_path, workers=2, executor=pool)
        assert {child.pid for child in pool._children} > set(lost)
    assert len(lost) == 1
    assert_same(part, enumerate_regions(model, SQUARE))


def test_bytes_that_are_no_task_are_refused(short_jobs):
    network = NET.network
    job = jobs.Job(model_bytes(network), "box:-2,3^2", "planar", b"", False, 0.0, 1 << 20, False)
    (task,) = jobs.advance(job).left
    assert read_stack(task, network, 2)
    other = ReluNetwork([np.eye(2), np.ones((2, 1))]).network
    for content, net, dim in [
        (b"", network, 2),
        (task[:-30], network, 2),
        (task, network, 3),
        (task, other, 2),
    ]:
        with pytest.raises(RecordFormatError, match="`task`"):
            read_stack(content, net, dim)


def changed_task(network, domain, change):
    """Return a job whose task has been changed by a function of its cells."""
    engine = "planar" if domain.dim == 2 else "spatial"
    job = jobs.Job(
        model_bytes(network), domain_text(domain), engine, b"", False, 0.0, 1 << 20, False
    )
    (task,) = jobs.advance(job).left
    stack = read_stack(task, network, domain.dim)
    *below, top = [one._replace(cell=change(one.cell)) for one in stack]
    return job._replace(task=stack_bytes([*below, top]), seconds=0.1)


def with_random_masks(cell):
    """Return a cell with corners that lie on any facets: each split squares their number."""
    rng = np.random.default_rng(0)
    vertices = np.zeros((19, 10))
    vertices[:, :4] = rng.uniform(-2, 3, (19, 4))
    masks = rng.integers(1, 1 << len(cell.facets), (19, 1)).astype(np.uint64)
    return cell._replace(vertices=vertices, masks=masks)


@pytest.mark.parametrize(
    "change",
    [
        with_random_masks,
        lambda cell: cell._replace(vertices=-cell.vertices),
        lambda cell: cell._replace(vertices=np.nan * cell.vertices),
        lambda cell: cell._replace(facets=cell.facets[::-1]),
        lambda cell: cell._replace(masks=cell.masks[::-1]),
        lambda cell: cell._replace(masks=0 * cell.masks),
        lambda cell: cell._replace(
            vertices=np.tile(cell.vertices, (300, 1)), masks=np.tile(cell.masks, (300, 1))
        ),
        lambda cell: cell._replace(walls=cell.walls + np.array([0, 100, 0, 0], dtype=np.int32)),
    ],
)
def test_forged_tasks_are_refused_before_they_are_searched(change, short_jobs):
    network, domain = gaussian_relu(1, [4, 5, 4]).network, Box([-2] * 4, [3] * 4)
    job = changed_task(network, domain, change)
    with pytest.raises(RecordFormatError, match="`task` must be the remaining work of a search"):
        jobs.advance(job)
    assert jobs.advance(changed_task(network, domain, lambda cell: cell)).n_cells > 0


@pytest.mark.parametrize(
    "change",
    [
        lambda edges: -edges,
        lambda edges: edges[::-1],
        lambda edges: np.nan * edges,
        lambda edges: np.where(np.arange(12) == 6, edges + 1, edges),
    ],
)
def test_forged_polygons_are_refused(change, short_jobs):
    def changed(cell):
        return cell._replace(edges=np.ascontiguousarray(change(cell.edges)))

    job = changed_task(NET.network, SQUARE, changed)
    with pytest.raises(RecordFormatError, match=r"`task`.*edges"):
        jobs.advance(job)


@pytest.mark.parametrize(
    "change", [lambda walls: walls[::-1].copy(), lambda walls: np.roll(walls, 1, axis=0)]
)
@pytest.mark.parametrize(
    ("model", "domain"),
    [
        (integer_relu(2, [2, 6, 5]), WholeSpace(2)),
        (integer_transformer(1, 2, 4, 2, n_blocks=2, repeat=True), WholeSpace(2)),
        (integer_relu(1, [3, 4, 3]), Box([-2] * 3, [3] * 3)),
        (integer_transformer(1, 3, 4, 2, n_blocks=2, repeat=True), WholeSpace(3)),
    ],
    ids=repr,
)
def test_forged_walls_are_refused_where_signs_are_decided_in_integers(
    model, domain, change, short_jobs
):
    def changed(cell):
        return cell._replace(walls=change(cell.walls))

    with pytest.raises(RecordFormatError, match="`task` must hold the rest of a search"):
        jobs.advance(changed_task(model.network, domain, changed)._replace(seconds=5.0))


def test_a_forged_task_that_knows_coincidences_of_no_layer_is_refused():
    network = NET.network
    cell = plane.search_domain(network, read_planar_domain(charted(SQUARE, 2), 2)).cell
    winners = np.zeros(network.n_groups + 1, dtype=np.int32)
    task = Task(0, False, winners, winners.astype(np.int8), cell, False)
    assert read_stack(stack_bytes([task]), network, 2)
    with pytest.raises(RecordFormatError, match=r"`task`.*places"):
        read_stack(stack_bytes([task._replace(is_merged=True)]), network, 2)


def test_a_forged_stack_that_is_too_deep_is_refused(short_jobs):
    network, domain = gaussian_relu(1, [4, 5, 4]).network, Box([-2] * 4, [3] * 4)
    stack = read_stack(changed_task(network, domain, lambda cell: cell).task, network, 4)
    deep = stack_bytes([stack[0]] * 500 + stack)
    with pytest.raises(RecordFormatError, match=r"`task`.*places"):
        read_stack(deep, network, 4)


def renewed(tmp_path, **changes):
    """Write other fields into a manifest, with a hash that is right."""
    path = tmp_path / manifests.MANIFEST
    fields = {**json.loads(path.read_text()), **changes}
    del fields["content"]
    content = manifests._hash_fields(fields, "")
    path.write_text(json.dumps({**fields, "content": content}))


@pytest.mark.parametrize(
    "changes",
    [
        {"n_cells": -1},
        {"n_cells": 3.5},
        {"n_cells": 10**400},
        {"decisions": [1, 2]},
        {"decisions": [1, 2, True]},
        {"has_means": 0},
        {"engine": "spatial"},
        {"engine": "lines"},
        {"count_only": 0},
        {"domain": 3},
        {"domain": "box:-1,1^3"},
        {"domain": "hull:0,0;1,0;0,1"},
        {"domain": "nowhere"},
        {"tasks": ["AA=="], "shares": []},
        {"tasks": ["?"], "shares": [None], "quotas": [None]},
        {"tasks": ["AA=="], "shares": [-0.5], "quotas": [None]},
        {"tasks": ["AA=="], "shares": [10**400], "quotas": [None]},
        {"tasks": ["AA=="], "shares": [None], "quotas": [0]},
        {"shards": []},
        {"shards": [{"file": "../x.parquet", "n_cells": 1, "first": "", "digest": 64 * "0"}]},
        {"shards": [{"file": "cells-000000.parquet", "n_cells": 1, "first": "", "digest": ""}]},
        {"surprise": 1},
    ],
    ids=str,
)
def test_forged_manifests_are_refused(changes, tmp_path):
    enumerate_regions(NET, SQUARE, store=tmp_path)
    renewed(tmp_path)
    assert open_partition(tmp_path).is_complete
    renewed(tmp_path, **changes)
    with pytest.raises(RecordFormatError, match=r"`path` must be the folder.*manifest\.json"):
        open_partition(tmp_path)


def test_a_task_with_fewer_cells_than_its_shard_is_named(tmp_path, short_jobs):
    part = enumerate_regions(NET, SQUARE, store=tmp_path)
    fields = json.loads((tmp_path / manifests.MANIFEST).read_text())
    fields["shards"][0]["task"] = fields["shards"][-1]["task"]
    fields["shards"][0]["n_cells"] += 500
    renewed(tmp_path, shards=fields["shards"], n_cells=fields["n_cells"] + 500)
    (tmp_path / part._manifest.shards[0].file).unlink()
    with pytest.raises(TaskError, match="according to the store"):
        enumerate_regions(NET, SQUARE, store=tmp_path)


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize(
    ("model", "dim"),
    [
        (gaussian_relu(1, [2, 6, 5]), 2),
        (integer_transformer(1, 2, 4, 2, n_blocks=2, repeat=True), 2),
        (integer_maxout(4, 2, [[3, 2, 2], [2, 3]]), 2),
        (gaussian_relu(1, [3, 5, 4]), 3),
        (integer_relu(2, [3, 6, 6], zero_bias=True), 3),
        (integer_transformer(1, 3, 4, 1, n_blocks=2, repeat=True), 3),
        (integer_maxout(4, 4, [[3, 2, 2], [2, 3]]), 4),
        (integer_relu(3, [5, 5, 3]), 5),
        (gaussian_relu(1, [6, 4, 3]), 6),
        (gaussian_relu(1, [7, 4, 2]), 7),
    ],
    ids=repr,
)
def test_what_is_found_and_what_is_left_make_up_the_domain(model, dim, stores, monkeypatch):
    monkeypatch.setattr(runs, "_BETWEEN_MEASURES", 0)
    network, engine = model.network, "planar" if dim == 2 else "spatial"
    where, search = jobs._prepare_search(model_bytes(network), f"box:-2,3^{dim}", engine)
    assert search.volume() == pytest.approx(5.0**dim, rel=1e-12)
    run = runs.Run(search, None, runs.c_int32(0), stores=stores)
    lefts, stops = [search.volume()], []
    while not stops or stops[-1] != runs.DONE:
        stops.append(run.run_slice(-1, 3))
        if stops[-1] not in (runs.BUDGET, runs.DONE):
            run.handle_stop(stops[-1])
        lefts.append(run.measure_remaining())
        assert lefts[-1] <= lefts[-2] + 1e-9
    assert len(lefts) > 3
    assert lefts[-1] == 0.0
    assert explored_text(lefts[-2], search.volume()).endswith("% of the volume")
    if not stores:
        return
    for n_steps in (1, 5, 20):
        run = runs.Run(search, None, runs.c_int32(0), stores=True)
        for _ in range(n_steps):
            run.run_slice(-1, 1)
        left = run.measure_remaining()
        found = wrap_arrays(engine, network, where, runs.pack_cells([run], False, 1))
        part = Partition(network, where, found, engine)
        found = float(part.volumes.sum()) if part.n_found else 0.0
        assert found + left == pytest.approx(search.volume(), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "volume"), [("1e300", np.inf), ("1e-300", 0.0), ("1e-20", 8e-60)], ids=str
)
def test_no_box_is_too_large_or_too_small_to_be_measured(size, volume):
    network = gaussian_relu(1, [3, 3]).network
    _, search = jobs._prepare_search(model_bytes(network), f"box:-{size},{size}^3", "spatial")
    assert search.volume() == pytest.approx(volume, rel=1e-12, abs=0.0)
    text = explored_text(search.volume(), search.volume())
    assert text == (", 0.00 % of the volume" if 0.0 < volume < np.inf else "")


def _progress_lines(monkeypatch):
    """Show all progress as if in a notebook, at once; return the list that its lines go to."""
    lines = []

    class Line(progress._NotebookLine):
        def _write(self, line):
            self.handle = self
            lines.append(line)

    for pause in ("_PATIENCE_S", "_NOTEBOOK_PAUSE_S", "_MORE_PAUSE_S"):
        monkeypatch.setattr(progress, pause, 0.0)
    monkeypatch.setattr(progress, "_NotebookLine", Line)
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    return lines


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_line_of_progress_counts_all_cells(workers, monkeypatch):
    said = _progress_lines(monkeypatch)
    for name in ("_BRIEF_S", "_SOON_S"):
        monkeypatch.setattr(runs, name, 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 20)
    monkeypatch.setattr(runs, "SLICE_S", 1e-4)
    part = enumerate_regions(gaussian_relu(5, [2, 60, 60]), SQUARE, workers=workers)
    assert said[-1].startswith(f"{part.n_cells:,} cells, ")


def test_threads_say_their_share_of_the_volume(monkeypatch):
    for name in ("_MEASURED_S", "_BETWEEN_MEASURES", "SLICE_S"):
        monkeypatch.setattr(runs, name, 0.0)
    monkeypatch.setattr(runs, "_FIRST_BUDGET", 20)
    said = []
    usual = runs._SharedWork.describe_progress
    monkeypatch.setattr(
        runs._SharedWork,
        "describe_progress",
        lambda work: said.append(usual(work)) or said[-1],
    )
    _progress_lines(monkeypatch)
    model = gaussian_relu(1, [3, 10, 10])
    enumerate_regions(model, Box([-2] * 3, [3] * 3), workers=2)
    shares = [float(text.split()[1]) for text in said if text]
    assert shares == sorted(shares)
    assert len(shares) > 1


@pytest.mark.parametrize(
    ("net", "box"), [(NET, SQUARE), (gaussian_relu(0, [3, 7, 6]), Box([-2] * 3, [3] * 3))], ids=repr
)
def test_a_store_knows_its_share_of_the_volume(net, box, tmp_path, short_jobs, monkeypatch):
    lines = _progress_lines(monkeypatch)
    part = enumerate_regions(net, box, store=tmp_path / "a", max_seconds=0.0)
    assert part.explored == 0.0
    part = enumerate_regions(net, box, store=tmp_path / "a", max_seconds=0.05)
    found = sum(shard.volumes.sum() for shard in part.shards())
    assert part.explored == pytest.approx(found / 5.0**box.dim, abs=1e-9)
    assert enumerate_regions(net, box, store=tmp_path / "a").explored == 1.0
    assert any("% of the volume" in line for line in lines)
    space = enumerate_regions(net, WholeSpace(box.dim), store=tmp_path / "b", max_seconds=0.01)
    while space.n_found == 0:
        space = enumerate_regions(net, WholeSpace(box.dim), store=tmp_path / "b", max_seconds=0.1)
    assert space.is_complete or np.isnan(space.explored)


@pytest.mark.parametrize("counts", [False, True])
def test_a_log_whose_steps_have_other_cells_than_their_shards_is_refused(
    counts, tmp_path, monkeypatch, short_jobs
):
    log, lines = log_of(tmp_path, monkeypatch, n_kept=3)
    if counts:
        renewed(tmp_path, count_only=True)
    before = json.loads((tmp_path / manifests.MANIFEST).read_text())["content"]
    steps = [json.loads(line) for line in lines[:3]]
    if not counts:
        steps = [{**step, "shards": []} for step in steps]
    log.write_bytes(chained(steps, before))
    with pytest.raises(RecordFormatError, match=r"manifest\.log, line \d: .*`shards`"):
        open_partition(tmp_path)


def chained(steps, before):
    """Write the lines of a log, with hashes that are right."""
    lines = []
    for step in steps:
        fields = {name: value for name, value in step.items() if name != "content"}
        fields["follows"] = before
        before = manifests._hash_fields(fields, "")
        lines.append(json.dumps({**fields, "content": before}).encode() + b"\n")
    return b"".join(lines)


@pytest.mark.parametrize("domain", [SQUARE, Box([-2] * 3, [3] * 3)], ids=repr)
def test_shards_that_share_cells_are_refused(domain, tmp_path, short_jobs):
    model = NET if domain is SQUARE else gaussian_relu(1, [3, 6, 4])
    enumerate_regions(model, domain, store=tmp_path)
    fields = json.loads((tmp_path / manifests.MANIFEST).read_text())
    shards = fields["shards"]
    copied = {**shards[1], "file": "cells-999999.parquet"}
    (tmp_path / copied["file"]).write_bytes((tmp_path / shards[1]["file"]).read_bytes())
    n_cells = fields["n_cells"] + copied["n_cells"]
    renewed(tmp_path, shards=[*shards, copied], n_cells=n_cells)
    part = open_partition(tmp_path)
    for question in (lambda: part.signatures, lambda: part.neighbours, part.certificate):
        with pytest.raises(RecordFormatError, match="does not come after the cells before"):
            question()
