"""The verifier as one file: copied elsewhere, without any library, on files of every kind."""

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax._ground.records import fingerprint
from hardmax.models.storage import model_bytes
from hardmax.regions.certificates import make_certificate
from hardmax.verify import checking, verify
from hardmax.verify._fast import shares
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import CASES, SQUARE, true_signatures

NET = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]], [[0.5, -0.25], None])
CELLS = [[0, 0], [0, 1], [1, 0], [1, 1]]


def masked_heads():
    """Heads of different sizes, with query biases and masked keys."""
    rng = np.random.default_rng(3)

    def draw(*shape):
        return rng.integers(-3, 4, shape).astype(float)

    first = hm.AttentionHead(draw(2, 3), draw(5, 3), draw(5, 1), draw(1, 2), draw(3))
    bias = np.array([0.0, -np.inf, 1.0, -2.0])
    second = hm.AttentionHead(draw(2, 2), draw(4, 2), draw(4, 2), draw(2, 2), None, bias)
    ffn = hm.FeedForward(draw(2, 3), draw(3), draw(3, 2), None)
    blocks = [hm.Block([first, second], ffn), hm.Block([], ffn, ffn_residual=False)]
    return hm.HardTransformer(blocks, (draw(2, 2), draw(2)), (draw(2, 1), None))


def one_head():
    keys = [[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]
    return hm.AttentionHead(np.eye(2), keys, np.eye(3)[:, :2], np.eye(2), [0.5, 0.25])


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """A copy of the file, alone in a folder."""
    folder = tmp_path_factory.mktemp("alone")
    return shutil.copy(verify.__file__, folder / "verify.py")


def run(script, *arguments):
    """Run the copy without the packages of this environment, and without its variables."""
    command = [sys.executable, "-I", "-S", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={}, check=False)


def saved(folder, model, certificate):
    hm.save_model(model, folder / "model.safetensors")
    certificate.save(folder / "cells.json")
    return folder / "model.safetensors", folder / "cells.json"


@pytest.mark.parametrize("name", ["relu", "maxout everywhere", "transformer", "slice", "cube"])
def test_the_copy_accepts_what_is_right_and_refuses_what_is_not(script, tmp_path, name):
    model, domain = CASES[name]
    cells = true_signatures(model, domain)
    certificate = make_certificate(model, domain, cells)
    done = run(script, *saved(tmp_path, model, certificate))
    assert (done.returncode, done.stdout) == (0, f"ok: all cells are listed: {len(cells)}\n")
    content = json.loads(certificate.to_json())
    content["signatures"].pop()
    content["witnesses"].pop()
    (tmp_path / "cells.json").write_text(json.dumps(content))
    done = run(script, tmp_path / "model.safetensors", tmp_path / "cells.json")
    assert done.returncode == 1
    assert done.stdout.startswith("not ok: ")


def test_the_copy_says_what_it_cannot_read(script, tmp_path):
    model, certificate = saved(tmp_path, NET, make_certificate(NET, SQUARE, CELLS))
    assert run(script).returncode == 2
    for arguments in ((certificate, certificate), (model, model), (model, tmp_path / "none")):
        done = run(script, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("cannot be checked: ")


def test_the_file_imports_the_standard_library_alone():
    source = Path(verify.__file__).read_text()
    imported = set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("model", [NET, masked_heads(), *(model for model, _ in CASES.values())])
def test_a_model_read_from_a_file_has_the_fingerprint_of_its_network(model):
    network = getattr(model, "network", model)
    for content in (model_bytes(model), model_bytes(network)):
        assert verify.read_model(content).fingerprint == fingerprint(network)
    stored = checking.stored_network(network)
    assert verify.read_model(model_bytes(model)) == verify.network_of(stored)


def test_a_head_is_a_network_of_one_layer():
    stored = model_bytes(one_head())
    network = verify.read_model(stored)
    assert [len(layer.groups) for layer in network.layers] == [1]
    layer = network.layers[0]
    forms = verify._compose_scores(layer, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    one = forms[-1][-1]
    assert [[x / one for x in row] for row in forms[:-1]] == [
        [1.0, 0.0, 0.5],
        [-1.0, 1.0, -0.25],
        [-1.0, -1.0, -0.75],
    ]


def test_masked_keys_and_heads_of_different_sizes_are_read():
    model = masked_heads()
    part = hm.enumerate_regions(model, SQUARE)
    certificate = part.certificate()
    assert verify.check(model_bytes(model), certificate.to_json()) == part.n_cells > 4
    assert verify_certificate(model, certificate).ok


# Files that somebody has damaged, or made to do harm.


def tensors_file(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_damaged_models_are_refused_or_read_but_nothing_else_is_raised():
    content = model_bytes(NET)
    certificate = make_certificate(NET, SQUARE, CELLS).to_json()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        if rng.random() < 0.1:
            damaged = damaged[: rng.integers(len(damaged))]
        try:
            assert verify.check(bytes(damaged), certificate) == 4
        except verify.RefusedError:
            n_refused += 1
    assert n_refused > 1000


def test_damaged_certificates_are_refused_or_right_but_nothing_else_is_raised():
    content = model_bytes(NET)
    rng = np.random.default_rng(1)
    n_refused = 0
    for kind in ("tiling", "refusals"):
        text = make_certificate(NET, SQUARE, CELLS, kind=kind).to_json().encode()
        for _ in range(1500):
            damaged = bytearray(text)
            for _ in range(int(rng.integers(1, 3))):
                damaged[rng.integers(len(damaged))] = rng.choice(list(b'0123456789,[]{}"-xe. '))
            try:
                assert verify.check(content, bytes(damaged)) == 4
            except verify.RefusedError:
                n_refused += 1
    assert n_refused > 2000


def test_tensors_that_claim_more_than_the_file_has_are_refused():
    meta = {"hardmax": json.dumps({"format": "hardmax.model/2", "kind": "ReluNetwork"})}
    entry = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
    hostile = [
        {"__metadata__": meta, "a": {**entry, "shape": [2**40]}},
        {"__metadata__": meta, "a": {**entry, "shape": [2**40], "data_offsets": [0, 2**43]}},
        {"__metadata__": meta, **{f"t{i}": entry for i in range(100)}},
        {"__metadata__": meta, "a": {**entry, "shape": [-1, -1]}},
        {"__metadata__": meta, "a": {**entry, "data_offsets": [8, 0]}},
        {"__metadata__": meta, "a": {**entry, "dtype": "F32"}},
        {"__metadata__": meta, "a": None},
        {"a": entry},
        [],
    ]
    for header in hostile:
        with pytest.raises(verify.UnreadableError):
            verify.read_model(tensors_file(header, bytes(8)))
    with pytest.raises(verify.UnreadableError, match="safetensors"):
        verify.read_model(struct.pack("<Q", 2**60))


def test_numbers_of_layers_and_units_are_bounded_by_the_file():
    header = json.loads(model_bytes(NET)[8:].split(b"}}")[0] + b"}}")
    assert header["weights.0"]["dtype"] == "F64"
    for fields in (
        {"kind": "ReluNetwork", "n_layers": 10**12},
        {"kind": "ReluNetwork", "n_layers": 0},
        {"kind": "MaxoutNetwork", "widths": [10**12]},
        {"kind": "HardTransformer", "blocks": [{"heads": [{}] * 1000}]},
        {"kind": "ArgmaxNetwork", "residuals": [True] * 1000},
        {"kind": "Sequential"},
    ):
        header["__metadata__"] = {"hardmax": json.dumps({"format": "hardmax.model/2", **fields})}
        data = model_bytes(NET)[-8 * (4 + 2 + 2 + 1) :]
        with pytest.raises(verify.UnreadableError):
            verify.read_model(tensors_file(header, data))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"format": "hardmax.certificate/1", "format": "hardmax.certificate/1"}',
        '{"format": "hardmax.certificate/7"}',
        b"\xff\xfe",
        '{"format": 1e400}',
    ],
)
def test_texts_that_are_no_certificates_are_refused(text):
    with pytest.raises(verify.UnreadableError):
        verify.read_certificate(text)


def test_a_number_with_too_many_digits_is_refused():
    text = make_certificate(NET, SQUARE, CELLS).to_json()
    for long in ("9" * 10_000, '"0x' + "f" * 100_000 + '"'):
        with pytest.raises(verify.RefusedError):
            verify.check(
                model_bytes(NET),
                text.replace('"chart_denominator":1', f'"chart_denominator":{long}'),
            )


def test_a_file_of_another_format_says_how_to_write_one():
    meta = {"hardmax": json.dumps({"format": "hardmax.compiled/2"})}
    with pytest.raises(verify.UnreadableError, match="save_model"):
        verify.read_model(tensors_file({"__metadata__": meta}))


def test_shares_cover_the_cells_once():
    for n_cells in (1, 7_999, 8_000, 15_999, 16_000, 16_001, 50_000):
        for workers in (1, 2, 3, 8):
            parts = shares.split_shares(n_cells, workers)
            assert len(parts) <= workers
            assert [i for part in parts for i in range(*part)] == list(range(n_cells))
            sizes = [end - begin for begin, end in parts]
            assert sizes[0] == max(sizes)
            assert min(sizes) > 0


def test_several_processes_decide_as_one_does(monkeypatch):
    monkeypatch.setattr(shares, "HEAD_START", 1)
    model, domain = CASES["relu everywhere"]
    certificate = make_certificate(model, domain, true_signatures(model, domain))
    assert len(shares.split_shares(certificate.n_cells, 3)) == 3
    assert verify_certificate(model, certificate, workers=3) == verify_certificate(
        model, certificate
    )
    moved = certificate.witnesses.copy()
    moved[-1] = moved[0]
    wrong = hm.Certificate(**{**certificate.__dict__, "witnesses": moved})
    assert verify_certificate(model, wrong, workers=2) == verify_certificate(model, wrong)
    with pytest.raises(hm.errors.ArgumentError, match="`workers`"):
        verify_certificate(model, certificate, workers=0)
    with pytest.raises(hm.errors.ArgumentError, match="`method`"):
        verify_certificate(model, certificate, method="guess")
