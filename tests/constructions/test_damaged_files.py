"""Files damaged at random: what comes back is what was saved, or a refusal, and soon.

Every kind of file the library writes is spoiled by flipped bytes, cuts and swapped types, from
fixed seeds. What was saved must come back equal, or the loader must raise a `HardmaxError`.
"""

import json
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from hardmax._ground.records import Record, fingerprint
from hardmax.constructions.compilers.compiled_files import load_compiled
from hardmax.constructions.compilers.compiled_function_files import load_function
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.maxout_compiler import compile_relu
from hardmax.constructions.compilers.state_dicts import load_network
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import load_model, save_model
from hardmax.models.tensor_files import content_hash
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.audit import read_audit
from hardmax.papers.experiment_runs import load_records
from hardmax.papers.store import query, read_tables, write_table
from hardmax.regions.arrow_tables import load_partition, save_partition
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate

MOST_SECONDS = 10.0
RNG = np.random.default_rng(3)
RELU = ReluNetwork([RNG.normal(size=(2, 3)), RNG.normal(size=(3, 2))])
HEAD = AttentionHead(*(RNG.normal(size=s) for s in ((2, 2), (3, 2), (3, 2), (2, 2))))
FFN = FeedForward(*(RNG.normal(size=s) for s in ((2, 3), 3, (3, 2), 2)))
SQUARE, INTERVAL = Box([-1.0, -1.0], [1.0, 1.0]), Box([-1.0], [1.0])
RECORD = Record(
    "demo",
    {"n": 3, "rate": 0.1},
    {
        "title": "t",
        "summary": "s",
        "claimed": "c",
        "claims": ["V.2"],
        "array": np.array([[0.5, np.nan], [-np.inf, 1e-310]]),
        "count": 10**40,
    },
    seed=4,
)
ROW = dict.fromkeys(("id", "where", "statement", "verdict", "explanation", "corrected"), "text")


class Kind(NamedTuple):
    """A kind of file: how to write one, read it, and say what was read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    content: Callable[[Any], Any]


def model_kind(model):
    return Kind(lambda path: save_model(model, path), load_model, fingerprint)


def partition_content(part):
    arrays = [part.signatures, part.affine_maps, part.cells.vertices, part.cells.starts]
    return fingerprint([part.network, arrays, repr(part), part.domain.exact_rows])


def compiled_content(compiled):
    return compiled.certified_error, fingerprint([compiled.source, compiled.box.low])


def certificate_content(certificate):
    """A changed certificate may be read; it must then prove the same number of cells, or none."""
    verdict = verify_certificate(RELU, certificate)
    return verdict.n_cells if verdict.ok else "refused"


KINDS = {
    "relu": model_kind(RELU),
    "maxout": model_kind(MaxoutNetwork([[np.eye(2), [[1.0, 2.0]]], [[1.0], [2.0]]])),
    "transformer": model_kind(HardTransformer([Block([HEAD], FFN)])),
    "network": model_kind(HardTransformer([Block([HEAD], FFN)]).network),
    "compiled": Kind(
        lambda path: compile_relu([[[1.0]], [[1.0]]], INTERVAL, 0.01).save(path),
        load_compiled,
        compiled_content,
    ),
    "function": Kind(
        lambda path: compile_cpwl(Knots([0.0, 3.0, 4.0], [0.0, 1.0, 0.5]), Box([0], [4])).save(
            path
        ),
        load_function,
        compiled_content,
    ),
    "record": Kind(RECORD.save, Record.load, Record.to_json),
    "certificate": Kind(
        lambda path: enumerate_regions(RELU, SQUARE).certificate().save(path),
        Certificate.load,
        certificate_content,
    ),
    "partition": Kind(
        lambda path: save_partition(enumerate_regions(RELU, SQUARE), path),
        load_partition,
        partition_content,
    ),
}
ALLOWED = {"certificate": {"refused"}}
ENDINGS = {"partition": "parquet", "record": "json", "certificate": "json"}


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """One file of each kind with the content it must give."""
    if request.param == "partition":
        pytest.importorskip("pyarrow")
    kind = KINDS[request.param]
    path = (
        tmp_path_factory.mktemp("files")
        / f"{request.param}.{ENDINGS.get(request.param, 'safetensors')}"
    )
    kind.write(path)
    allowed = {kind.content(kind.read(path)), *ALLOWED.get(request.param, ())}
    return kind, path.read_bytes(), path, allowed


def check(saved, content):
    """Read a spoiled file; returns whether it was refused."""
    kind, _, path, allowed = saved
    path.write_bytes(content)
    start = time.perf_counter()
    reason = None
    try:
        read = kind.read(path)
    except HardmaxError as error:
        reason = str(error)
    assert time.perf_counter() - start < MOST_SECONDS
    if reason is None:
        assert kind.content(read) in allowed
        return False
    assert path.name in reason
    return True


def test_flipped_bytes_give_what_was_saved_or_a_refusal(saved):
    chance = random.Random(0)
    n_refused = 0
    for _ in range(150):
        content = bytearray(saved[1])
        for _ in range(chance.choice((1, 1, 1, 2, 8))):
            content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        n_refused += check(saved, bytes(content))
    assert n_refused > 50


def test_cut_and_stretched_files_are_refused(saved):
    chance = random.Random(1)
    whole = saved[1]
    for _ in range(40):
        start, end = sorted(chance.sample(range(len(whole) + 1), 2))
        assert check(saved, whole[:end]) or end == len(whole)
        check(saved, whole[start:])
        check(saved, whole[:start] + whole[end:])
        check(saved, whole[:start] + bytes(end - start) + whole[end:])
        check(saved, whole + whole[start:end])


def spoiled(text, chance):
    """JSON text with one value replaced by one of another type, left out, or doubled."""
    root = [json.loads(text)]
    places = []
    waiting = [root]
    while waiting:
        place = waiting.pop()
        keys = list(place) if isinstance(place, dict) else range(len(place))
        places += [(place, key) for key in keys]
        waiting += [place[key] for key in keys if isinstance(place[key], dict | list)]
    place, key = chance.choice(places)
    deep = [[[[[1]]]]]
    for _ in range(600):
        deep = [deep]
    strange = [None, True, 0, -1, 2**70, 0.5, "", "1e99999999", [], {}, [[]], {"$fraction": "1e9"}]
    action = chance.randrange(len(strange) + 3)
    if action < len(strange):
        place[key] = strange[action]
    elif action == len(strange):
        place[key] = deep
    elif action == len(strange) + 1:
        del place[key]
    else:
        place[key] = [place[key], place[key]]
    return json.dumps(root[0] if root else None)


@pytest.mark.parametrize("name", ["record", "certificate"])
def test_swapped_types_give_what_was_saved_or_a_refusal(name, tmp_path):
    kind, path = KINDS[name], tmp_path / "file.json"
    kind.write(path)
    text = path.read_text()
    allowed = {kind.content(kind.read(path)), *ALLOWED.get(name, ())}
    chance = random.Random(2)
    for _ in range(150):
        check((kind, b"", path, allowed), spoiled(text, chance).encode())


@pytest.mark.parametrize("name", ["relu", "maxout", "transformer", "network", "compiled"])
def test_swapped_types_in_a_header_with_a_right_hash_give_a_model_or_a_refusal(name, tmp_path):
    """Who damages a file on purpose can write the hash anew."""
    kind, path = KINDS[name], tmp_path / "model.safetensors"
    kind.write(path)
    original = kind.read(path)
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["hardmax"])
    del header["content"]
    tensors = load_file(path)
    chance = random.Random(4)
    for _ in range(60):
        text = spoiled(json.dumps(header), chance)
        forged = json.loads(text)
        if isinstance(forged, dict):
            forged["content"] = content_hash(forged, tensors)
            text = json.dumps(forged)
        save_file(tensors, path, {"hardmax": text})
        try:
            read = kind.read(path)
        except HardmaxError:
            continue
        # A right hash and a possible structure: that is another model, and no damage.
        assert type(read) is type(original)
        assert kind.content(read)


def test_a_damaged_state_dict_is_a_network_or_refused(tmp_path):
    """It has no hash of ours: other numbers are another network."""
    path, chance = tmp_path / "state.file", random.Random(7)
    save_file({"0.weight": np.eye(3, 2), "0.bias": np.ones(3), "2.weight": np.ones((1, 3))}, path)
    whole = path.read_bytes()
    for _ in range(200):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        path.write_bytes(content[: chance.choice((len(content), chance.randrange(len(content))))])
        try:
            network = load_network(path)
        except HardmaxError:
            continue
        assert isinstance(network, ReluNetwork)


def test_spoiled_tables_are_read_or_refused(tmp_path):
    pytest.importorskip("duckdb")
    path = write_table(tmp_path, "t", [{"n": i, "name": f"row {i}"} for i in range(20)])
    whole, chance = path.read_bytes(), random.Random(5)
    n_refused = 0
    for _ in range(100):
        content = bytearray(whole)
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        path.write_bytes(content[: chance.choice((len(content), chance.randrange(len(content))))])
        for read in (read_tables, lambda out: query(out, "SELECT count(*) FROM t")):
            try:
                read(tmp_path)
            except HardmaxError:
                n_refused += 1
    assert n_refused > 100


def test_spoiled_results_are_passed_over(tmp_path):
    audit = Record("audit", {}, {"claims": [ROW, ROW]})
    chance = random.Random(6)
    for made, name, read in (
        (RECORD, "demo", load_records),
        (audit, "audit", read_audit),
    ):
        path = tmp_path / f"{name}.json"
        made.save(path)
        text = path.read_text()
        (whole,) = {len(read(tmp_path))}
        assert whole
        n_passed = 0
        for _ in range(80):
            path.write_text(spoiled(text, chance))
            n_passed += not read(tmp_path)
        assert n_passed > 40
        path.unlink()


def test_results_of_other_types_are_passed_over_even_with_a_right_hash(tmp_path):
    for change in ({"title": 3}, {"claims": "V.2"}, {"claims": [3]}, {"claimed": None}):
        Record("demo", {}, {**RECORD.results, **change}).save(tmp_path / "demo.json")
        assert load_records(tmp_path) == []
    for rows in (3, [3], ["text"], [{}], [{**ROW, "verdict": 3}], [{**ROW, "where": None}]):
        Record("audit", {}, {"claims": rows}).save(tmp_path / "audit.json")
        assert read_audit(tmp_path) == []
