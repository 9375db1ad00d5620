"""Forged stores: manifests, logs, tasks, shards and models, with every hash made right again."""

import base64
import io
import json
import tempfile
import zipfile
import zlib
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search import runs
from hardmax.regions._stores import durable, manifests
from hardmax.regions._stores.manifests import LOG, MANIFEST, MODEL
from tests.forged_certificates import BROKEN, Case, with_other_model
from tests.fuzz.mutations import changed_array, changed_json, damaged
from tests.fuzz.partitions import changed_table, table_bytes, table_of
from tests.fuzz.questions import MOST_SECONDS, ask, check
from tests.fuzz.trials import FalseClaimError, Files, Kind
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
)

SEARCHES = [
    (gaussian_relu(0, [2, 5, 4]), hm.Box([-2, -2], [3, 3])),
    (integer_relu(2, [2, 6, 5]), hm.WholeSpace(2)),
    (integer_maxout(4, 2, [[3, 2, 2], [2, 3]]), hm.WholeSpace(2)),
    (gaussian_relu(3, [4, 5, 4]), hm.Slice([0, 0, 1, 0], [[1, 0, 0, 1], [0, 1, 0.5, 0]])),
    (gaussian_relu(1, [3, 4, 3]), hm.Box([-2] * 3, [3] * 3)),
    (integer_transformer(1, 3, 3, 1, repeat=True), hm.WholeSpace(3)),
    (gaussian_relu(1, [4, 4, 3]), hm.Box([-2] * 4, [3] * 4)),
]


class Store(NamedTuple):
    """A store: the model and the domain of the search, whether it only counts, and its files."""

    model: object
    domain: object
    count_only: bool
    files: Files


@cache
def stores():
    """Stores of each search: complete, stopped early, with a log, and of counts alone."""
    found = []
    for model, domain in SEARCHES:
        for way in ("complete", "logged", "logged", "counted"):
            with tempfile.TemporaryDirectory() as folder:
                _search(model, domain, folder, way)
                files = files_in(Path(folder))
            if way == "logged":
                # As if the process had been killed.
                lines = files[LOG].splitlines(keepends=True)
                files[LOG] = b"".join(lines[: 1 + len(found) % len(lines)])
            found.append(Store(model, domain, way == "counted", files))
    return found


def _search(model, domain, folder, way):
    """Search into a folder, in jobs of a few steps."""
    logs = manifests.ManifestLog
    with (
        mock.patch.multiple(durable, LONG_S=0.0, SHORT_S=0.0, BRIEF_S=0.0),
        mock.patch.multiple(runs, _FIRST_BUDGET=20, SLICE_S=1e-6),
    ):
        if way == "logged":
            folds = iter([logs._fold])
            with mock.patch.object(logs, "_fold", lambda log: next(folds, lambda _: None)(log)):
                hm.enumerate_regions(model, domain, store=folder)
            return
        hm.enumerate_regions(model, domain, store=folder, count_only=way == "counted")


def files_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# Manifests taken apart and put together.


class Records(NamedTuple):
    """The fields of a manifest and of the lines of its log."""

    manifest: dict
    steps: list


def taken_apart(files):
    steps = [json.loads(line) for line in files.get(LOG, b"").splitlines()]
    return Records(json.loads(files[MANIFEST]), steps)


def put_together(records):
    """Return both files, with all hashes made right as far as that is possible."""
    manifest, content = _line(records.manifest)
    lines = b""
    for step in records.steps:
        line, content = _line({**step, "follows": content} if isinstance(step, dict) else step)
        lines += line
    files = {MANIFEST: manifest}
    return {**files, LOG: lines} if lines else files


def _line(fields):
    if not isinstance(fields, dict):
        return json.dumps(fields).encode() + b"\n", ""
    plain = {name: value for name, value in fields.items() if name != "content"}
    content = manifests._hash_fields(plain, "")
    return json.dumps({**plain, "content": content}).encode() + b"\n", content


def parts_of(records):
    return [records.manifest, *records.steps]


def forged(rng):
    """Return the files of a store, and the number of the search that resumes it."""
    number = rng.randrange(len(stores()))
    store = stores()[number]
    files = dict(store.files)
    for _ in range(rng.choice([1, 1, 1, 2])):
        try:
            rng.choice(CHANGES)(rng, files)
        except (*BROKEN, OSError, zipfile.BadZipFile, zlib.error):
            # What was changed before is no store any more; or pyarrow does not read or write it.
            continue
    return {
        **{f"store/{name}": content for name, content in files.items()},
        "search": b"%d" % number,
    }


def change_fields(rng, files):
    """Change a field of the manifest or of a line of the log."""
    records = taken_apart(files)
    place = rng.randrange(1 + len(records.steps))
    if place == 0:
        records = records._replace(manifest=changed_json(rng, records.manifest))
    else:
        records.steps[place - 1] = changed_json(rng, records.steps[place - 1])
    files.update(put_together(records))


def change_lines(rng, files):
    """Drop, double or move lines of the log; the hashes follow, or do not."""
    records = taken_apart(files)
    steps = records.steps
    if not steps:
        return
    i, j = rng.randrange(len(steps)), rng.randrange(len(steps))
    what = rng.randrange(3)
    if what == 0:
        del steps[i]
    elif what == 1:
        steps.insert(j, steps[i])
    else:
        steps[i], steps[j] = steps[j], steps[i]
    if rng.random() < 0.8:
        files.pop(LOG)
        files.update(put_together(records))
    else:
        files[LOG] = b"".join(json.dumps(step).encode() + b"\n" for step in steps)


def change_task(rng, files):
    """Change a task: its arrays, its bytes, or which task it is."""
    records = taken_apart(files)
    holders = [(part["tasks"], i) for part in parts_of(records) for i in range(len(part["tasks"]))]
    holders += [
        (shard, "task") for part in parts_of(records) for shard in part["shards"] if "task" in shard
    ]
    holders = [(place, key) for place, key in holders if place[key]]
    if not holders:
        return
    # A task that is left, more often than one that was done.
    place, key = rng.choice(holders)
    if rng.random() < 0.1:
        other, own = rng.choice(holders)
        place[key] = other[own]
    else:
        place[key] = base64.b64encode(changed_stack(rng, base64.b64decode(place[key]))).decode()
    files.update(put_together(records))


def changed_stack(rng, content):
    """Change the arrays of a stack of cells."""
    if rng.random() < 0.1:
        return damaged(rng, content)
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive}
    for _ in range(rng.choice([1, 1, 2])):
        what, name = rng.random(), rng.choice([*arrays])
        if what < 0.85:
            arrays[name] = changed_array(rng, arrays[name])
        elif what < 0.9:
            del arrays[name]
        else:
            other = rng.choice([*arrays])
            arrays[name], arrays[other] = arrays[other], arrays[name]
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def change_shard(rng, files):
    """Change the table or the bytes of a shard; its digest follows, as a rule."""
    names = [name for name in files if name.endswith(".parquet")]
    if not names:
        return
    name = rng.choice(names)
    what = rng.random()
    if what < 0.75:
        table = table_of(files[name])
        files[name] = table_bytes(changed_table(rng, table))
    elif what < 0.85:
        files[name] = damaged(rng, files[name])
    elif what < 0.95:
        files[name] = files[rng.choice(names)]
    else:
        del files[name]
        return
    if rng.random() < 0.9:
        records = taken_apart(files)
        for part in parts_of(records):
            for shard in part["shards"]:
                if shard["file"] == name.rpartition("/")[2]:
                    shard["digest"] = sha256(files[name]).hexdigest()
        files.update(put_together(records))


def change_model(rng, files):
    """Change the model, and often its name in the manifest."""
    files[MODEL] = with_other_model(rng, Case(files[MODEL], ())).model
    if rng.random() < 0.7:
        network = _network(files[MODEL])
        if network is not None:
            records = taken_apart(files)
            records.manifest["model"] = hm._ground.records.fingerprint(network)
            files.update(put_together(records))


def _network(content):
    try:
        found = hm.models.storage.model_from_bytes(content, MODEL)
    except HardmaxError:
        return None
    return found if isinstance(found, ArgmaxNetwork) else None


def change_domain(rng, files):
    """Name another domain, or one that is none."""
    records = taken_apart(files)
    texts = ["box:-1,1^2", "box:-1,1^3", "space:2", "space:3", "box:0,1e308^2", "line:0,0;1,2", "x"]
    texts += ["hull:0,0;1,0;0,1", "box:-1,1^999999999", "slice:0,0,0,1;1,0,0,1;0,1,0,1", "space:7"]
    texts += ["polytope:1,0<=1;-1,-1<=0", "polytope:0,0<=-1", "slice:0,0,0;1,0,0;0,1,0|box:-1,1^2"]
    records.manifest["domain"] = rng.choice(texts)
    files.update(put_together(records))


def change_bytes(rng, files):
    """Change any file byte by byte, drop it, or put another one in its place."""
    name = rng.choice([*files])
    what = rng.random()
    if what < 0.8:
        files[name] = damaged(rng, files[name])
    elif what < 0.9:
        del files[name]
    else:
        files[name] = files[rng.choice([*files])]


CHANGES = [
    *[change_fields] * 4, change_lines, *[change_task] * 6, *[change_shard] * 4, change_model,
    change_domain, *[change_bytes] * 2,
]  # fmt: skip


def used(rng, folder):
    """Open a store, ask about its cells, and resume its search."""
    store = stores()[int((folder / "search").read_bytes())]
    outcome = "refused"
    if rng.random() < 0.7:
        try:
            part = hm.open_partition(folder / "store")
            ask_stored(rng, part)
            outcome = "read"
        except HardmaxError:
            pass
    part = hm.enumerate_regions(
        store.model,
        store.domain,
        store=folder / "store",
        max_seconds=MOST_SECONDS,
        count_only=store.count_only,
    )
    ask_stored(rng, part)
    return "resumed" if outcome == "refused" else "read"


def ask_stored(rng, part):
    """Read the shards of a store and all its cells; ask about them, and prove them."""
    part.n_cells, part.explored
    n_found = sum(len(shard.signatures) for shard in part.shards())
    if n_found not in (0, part.n_found):
        raise FalseClaimError("the shards have another number of cells than the store says")
    if rng.random() < 0.5:
        ask(rng, part, 2)
    try:
        check(part)
    except HardmaxError:
        return


STORES = Kind(forged, used)
