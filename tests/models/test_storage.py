"""Models survive a file bit for bit, and damaged files are refused with the reason."""

import json
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file

from hardmax._ground.records import fingerprint
from hardmax.errors import DtypeError, RecordFormatError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import (
    MODEL_FORMAT,
    load_model,
    model_bytes,
    model_from_bytes,
    save_model,
)
from hardmax.models.tensor_files import content_hash, tensor_bytes
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.models.test_transformers import transformers

RNG = np.random.default_rng(0)
HEAD = AttentionHead(
    *(RNG.normal(size=s) for s in ((2, 3), (4, 3), (4, 1), (1, 2))),
    RNG.normal(size=3),
    [0.5, -np.inf, -0.0, 5e-324],
)
FFN = FeedForward(*(RNG.normal(size=s) for s in ((2, 5), 5, (5, 2), 2)))
MODELS = [
    ReluNetwork([RNG.normal(size=(2, 3)), [[1e-310], [-0.0], [1e308]]]),
    ReluNetwork([[[1.0]]]),
    MaxoutNetwork([[np.eye(2), [[1.0, 2.0]]], [np.ones((3, 2))], [[1.0]]]),
    MaxoutNetwork([[[1.0]]], [[2.0]]),
    HEAD,
    HardTransformer([Block([HEAD, HEAD], FFN), Block([], FFN, ffn_residual=False)]),
    HardTransformer([Block([HEAD], None, False)], (np.ones((1, 2)), None), (np.ones((2, 3)), None)),
    HardTransformer([Block([HEAD], FFN)]).network,
    ReluNetwork([[[1.0]]]).network,
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_survives_bit_for_bit(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    again = load_model(path)
    assert type(again) is type(model)
    assert fingerprint(again) == fingerprint(model)
    if not isinstance(model, AttentionHead):
        network = model if isinstance(model, ArgmaxNetwork) else model.network
        twin = again if isinstance(again, ArgmaxNetwork) else again.network
        assert fingerprint(twin) == fingerprint(network)
    save_model(again, tmp_path / "again.safetensors")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "again.safetensors",
        "model.safetensors",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(transformers())
def test_every_transformer_survives(tmp_path, case):
    model, points = case
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert fingerprint(again) == fingerprint(model)
    np.testing.assert_array_equal(again(points), model(points))


def test_the_file_is_plain_safetensors(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[0], path)
    tensors = load_file(path)
    assert sorted(tensors) == ["biases.0", "biases.1", "weights.0", "weights.1"]
    np.testing.assert_array_equal(tensors["weights.0"], MODELS[0].weights[0])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[0], path)
    before = path.read_bytes()

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr("hardmax.models.storage.os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        save_model(MODELS[1], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_only_models_are_saved(tmp_path):
    with pytest.raises(DtypeError, match="`model`"):
        save_model({"weights": 1}, tmp_path / "x")


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing")


def _write(path, tensors, structure):
    """Write a file as a forger would, with the hash of what is in it."""
    if isinstance(structure, dict):
        structure = {**structure, "content": content_hash(structure, tensors)}
    text = structure if isinstance(structure, str) else json.dumps(structure)
    save_file(tensors, path, {"hardmax": text})


def _relu_file(**changes):
    structure = {"format": MODEL_FORMAT, "kind": "ReluNetwork", "n_layers": 1}
    return structure | changes


ONE_LAYER = {"weights.0": np.ones((1, 1)), "biases.0": np.ones(1)}


@pytest.mark.parametrize(
    ("tensors", "structure", "reason"),
    [
        (ONE_LAYER, "{", "not valid JSON"),
        (ONE_LAYER, "[" * 100_000, "not valid JSON"),
        (ONE_LAYER, "[1]", "not a JSON object"),
        (ONE_LAYER, "[" * 600 + "]" * 600, "100 levels deep"),
        (ONE_LAYER, '{"kind": ' + "[" * 600 + "]" * 600 + "}", "100 levels deep"),
        (ONE_LAYER, '{"n_layers": ' + "9" * 5000 + "}", "not valid JSON"),
        (ONE_LAYER, _relu_file(format="other"), "format"),
        (ONE_LAYER, _relu_file(kind="Pickle"), "`kind`"),
        (ONE_LAYER, _relu_file(kind=["ReluNetwork"]), "`kind`"),
        (ONE_LAYER, _relu_file(n_layers=True), "`n_layers`"),
        (ONE_LAYER, _relu_file(n_layers="1"), "`n_layers`"),
        (ONE_LAYER, _relu_file(n_layers=-1), "`weights`"),
        (ONE_LAYER, _relu_file(n_layers=2), "`weights.1` is missing"),
        (ONE_LAYER, _relu_file(n_layers=10**15), "`weights.1` is missing"),
        (ONE_LAYER, _relu_file(extra=1), "`extra` is not a field"),
        (ONE_LAYER | {"rest": np.ones(1)}, _relu_file(), "`rest` is not a field"),
        (ONE_LAYER | {"biases.0": np.ones(2)}, _relu_file(), r"`biases\[0\]` must have shape"),
        (ONE_LAYER | {"biases.0": np.array([np.nan])}, _relu_file(), "NaN"),
        (ONE_LAYER | {"biases.0": np.array([np.inf])}, _relu_file(), "inf"),
        (ONE_LAYER | {"biases.0": np.ones(1, np.float32)}, _relu_file(), "float32"),
        (ONE_LAYER | {"weights.0": np.ones((0, 1))}, _relu_file(), r"`weights\[0\]`"),
        (ONE_LAYER, _relu_file(kind="MaxoutNetwork"), "`widths`"),
        (ONE_LAYER, {"format": MODEL_FORMAT, "kind": "MaxoutNetwork", "widths": [1.5]}, "`widths`"),
        (
            ONE_LAYER,
            {"format": MODEL_FORMAT, "kind": "MaxoutNetwork", "widths": [10**12]},
            "`weights.0.0` is missing",
        ),
        (ONE_LAYER, {"format": MODEL_FORMAT, "kind": "HardTransformer", "blocks": [3]}, "`blocks`"),
        (
            ONE_LAYER,
            {"format": MODEL_FORMAT, "kind": "HardTransformer", "blocks": [{"heads": [1]}]},
            "`heads`",
        ),
        (
            ONE_LAYER,
            {"format": MODEL_FORMAT, "kind": "ArgmaxNetwork", "residuals": [1]},
            "`residuals`",
        ),
    ],
)
def test_a_damaged_structure_is_refused_with_the_reason(tensors, structure, reason, tmp_path):
    path = tmp_path / "bad.safetensors"
    _write(path, tensors, structure)
    with pytest.raises(RecordFormatError, match=reason):
        load_model(path)


@pytest.mark.parametrize("place", [("blocks", 0), ("blocks", 0, "heads", 0)])
def test_a_field_that_means_nothing_is_refused_at_every_depth(place, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[5], path)
    with safe_open(path, framework="np") as file:
        structure = json.loads(file.metadata()["hardmax"])
    inner = structure
    for step in place:
        inner = inner[step]
    inner["surprise"] = 1
    _write(path, load_file(path), structure)
    with pytest.raises(RecordFormatError, match="`surprise` is not a field"):
        load_model(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a model at all",
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 8) + b"\x80\x04\x95junk",
        struct.pack("<Q", 71)
        + b'{"w":{"dtype":"F64","shape":[4000000000,9],"data_offsets":[0,288000000000]}}'[:71],
    ],
)
def test_what_is_not_safetensors_is_refused(content, tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(RecordFormatError, match="`path`"):
        load_model(path)


def test_huge_declared_tensors_are_refused_without_reading_them(tmp_path):
    header = json.dumps(
        {
            "__metadata__": {"hardmax": json.dumps(_relu_file())},
            "weights.0": {
                "dtype": "F64",
                "shape": [2**40, 1],
                "data_offsets": [0, 2**43],
            },
        }
    ).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(RecordFormatError, match="safetensors"):
        load_model(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_byte_gives_the_same_model_or_a_refusal(tmp_path, data):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[5], path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] or content)
    try:
        model = load_model(path)
    except RecordFormatError:
        return
    assert fingerprint(model) == fingerprint(MODELS[5])


def _structure(path):
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["hardmax"])


def test_a_file_of_before_is_read_and_one_that_only_says_so_is_not(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[0], path)
    structure, tensors = _structure(path), load_file(path)
    digest = structure.pop("content")
    save_file(tensors, path, {"hardmax": json.dumps(structure | {"format": "hardmax.model/1"})})
    assert fingerprint(load_model(path)) == fingerprint(MODELS[0])
    for wrong in (
        structure | {"format": "hardmax.model/1", "content": digest},
        structure,
        structure | {"content": None},
        structure | {"content": digest[::-1]},
    ):
        save_file(tensors, path, {"hardmax": json.dumps(wrong)})
        with pytest.raises(RecordFormatError, match=r"model\.safetensors .* its hash `content`"):
            load_model(path)


def test_one_changed_weight_is_noticed(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(MODELS[0], path)
    structure, tensors = _structure(path), load_file(path)
    tensors["weights.1"][1, 0] = 0.0  # It was -0.0.
    save_file(tensors, path, {"hardmax": json.dumps(structure)})
    with pytest.raises(RecordFormatError, match="was modified after it was written"):
        load_model(path)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_survives_as_bytes(model):
    assert fingerprint(model_from_bytes(model_bytes(model), "x")) == fingerprint(model)


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        # Differences, and sums with the width, of these wrap.
        ("starts", [0, 2**63 - 1, -2, 2]),
        ("starts", [0, -1, 1, 2]),
        ("slots", [0, 0, 2**63 - 1]),
        ("slots", [0, -(2**63), 0]),
        ("reads", [[0, 2**63 - 1], [0, 1], [0, 1]]),
        ("reads", [[0, -(2**63)], [0, 1], [0, 1]]),
        ("reads", [[0, 2**32 + 1], [0, 1], [0, 1]]),
    ],
)
def test_a_file_with_indices_that_are_not_there_is_refused(name, indices, tmp_path):
    fields = {
        "query": AffineMap.identity(2), "slopes": np.eye(3, 2), "offsets": np.zeros(3),
        "starts": np.array([0, 1, 2, 3]), "slots": np.array([0, 0, 0]), "gains": np.zeros(3),
        "values": np.ones((3, 2)), "output": AffineMap.identity(2), "residual": False,
        "reads": np.array([[0, 1], [0, 1], [0, 1]]),
    }  # fmt: skip
    ArgmaxLayer(**fields)
    # No constructor makes such a layer, but a file may hold one.
    layer = ArgmaxLayer.trusted({}, **{**fields, name: np.array(indices)})
    network = ArgmaxNetwork.trusted((layer,), AffineMap.identity(2), AffineMap.identity(2))
    save_model(network, tmp_path / "model.safetensors")
    with pytest.raises(RecordFormatError, match=f"`{name}` must"):
        load_model(tmp_path / "model.safetensors")


def test_a_file_of_another_kind_says_which_function_reads_it(tmp_path):
    import hardmax as hm

    net, square = hm.ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]]]), hm.Box([-1], [1])
    hm.constructions.compile_relu(net, square).save(tmp_path / "compiled.safetensors")
    knots = hm.constructions.Knots([0.0, 1.0], [0.0, 1.0])
    hm.constructions.compile_cpwl(knots, square).save(tmp_path / "function.safetensors")
    wanted = {
        "compiled.safetensors": "`hm.constructions.load_compiled` reads it",
        "function.safetensors": "`hm.constructions.load_function` reads it",
    }
    for name, hint in wanted.items():
        for call in (load_model, lambda path: hm.enumerate_regions(path, "box:-1,1")):
            with pytest.raises(RecordFormatError) as refused:
                call(tmp_path / name)
            assert name in str(refused.value)
            assert hint in str(refused.value)


def test_files_have_the_bytes_that_the_safetensors_library_writes():
    tensors = {
        "b": np.ones((2, 3)),
        "a": np.arange(3),
        'q"\\\n': np.zeros(1),
        "é": np.zeros((0, 4)),
        "scalar": np.array(3.0),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "foreign order": np.arange(3, dtype=">f8"),
        "narrow": np.ones(3, np.float32),
        "bytes": np.zeros(3, np.uint8),
    }
    header = {"format": 'é" </ \x00'}
    fields = {**header, "content": content_hash(header, tensors)}
    native = {
        name: np.array(array, array.dtype.newbyteorder("="), order="C")
        for name, array in tensors.items()
    }
    wanted = save(native, {"hardmax": json.dumps(fields, sort_keys=True)})
    assert tensor_bytes(header, tensors) == wanted
