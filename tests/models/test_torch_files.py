"""Files of torch.save: what torch writes is read, everything else is refused and nothing runs."""

import os
import pickle
import zipfile
from functools import partial

import numpy as np
import pytest

from hardmax.errors import RecordFormatError
from hardmax.models.formats.torch.files import read_torch_tensors
from tests.script_archives import name, tensor, text
from tests.torch_saves import (
    dictionary,
    pickled_tensors,
    small_state_dict,
    write_legacy_state_dict,
    write_state_dict,
)

WRITERS = (write_state_dict, write_legacy_state_dict)


@pytest.mark.parametrize("write", WRITERS)
def test_what_torch_writes_is_read(tmp_path, write):
    arrays = small_state_dict()
    write(tmp_path / "net.pt", arrays)
    found = read_torch_tensors(tmp_path / "net.pt")
    assert list(found) == list(arrays)
    for key, array in arrays.items():
        assert found[key].dtype == array.dtype
        assert np.array_equal(found[key], array)


@pytest.mark.parametrize("write", WRITERS)
def test_transposed_and_tied_tensors_share_a_storage(tmp_path, write):
    stored = np.arange(12, dtype="<f4").reshape(3, 4)
    whole = tensor("0", stored, storage="FloatStorage")
    turned = tensor("0", stored, storage="FloatStorage", size=(4, 3), stride=(1, 4))
    part = tensor("0", stored, storage="FloatStorage", size=(2,), stride=(4,), offset=5)
    content = dictionary({"whole": whole, "turned": turned, "part": part})
    write(tmp_path / "net.pt", {"": stored}, content=content)
    found = read_torch_tensors(tmp_path / "net.pt")
    assert np.array_equal(found["turned"], stored.T)
    assert found["part"].tolist() == [5.0, 9.0]
    assert np.shares_memory(found["whole"], found["turned"])


def test_bfloat16_is_widened(tmp_path):
    bits = np.array([0x3F80, 0xC000], dtype="<u2")
    content = dictionary({"a": tensor("0", bits, storage="BFloat16Storage")})
    write_state_dict(tmp_path / "net.pt", {}, content=content, storages=[bits.tobytes()])
    found = read_torch_tensors(tmp_path / "net.pt")["a"]
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, -2.0]


def test_a_dictionary_in_a_dictionary_is_found_if_there_is_one(tmp_path):
    arrays = small_state_dict()
    inner = dictionary(pickled_tensors(arrays))
    content = dictionary({"epoch": b"K\x03", "state_dict": inner})
    write_state_dict(tmp_path / "net.pt", arrays, content=content)
    assert set(read_torch_tensors(tmp_path / "net.pt")) == set(arrays)
    content = dictionary({"model": inner, "average": inner})
    write_state_dict(tmp_path / "net.pt", arrays, content=content)
    with pytest.raises(RecordFormatError, match="one dictionary of tensors; got 2: average, model"):
        read_torch_tensors(tmp_path / "net.pt")


class Runs:
    """Leaves a file behind if it is ever called."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("protocol", range(6))
def test_what_would_run_is_refused_by_name(tmp_path, write, protocol):
    proof = tmp_path / "it-ran"
    content = pickle.dumps({"a": Runs(proof)}, protocol)
    content = content.removeprefix(b"\x80\x02").removesuffix(b".")
    write(tmp_path / "net.pt", {}, content=content)
    with pytest.raises(RecordFormatError, match=r"contains `\w+\.mkdir`|unsupported operation"):
        read_torch_tensors(tmp_path / "net.pt")
    assert not proof.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (name("builtins", "eval") + b"(" + text("1") + b"tR", "contains `builtins.eval`"),
        (name("torch", "load") + b"(tR", "contains `torch.load`"),
        (b"(i__builtin__\neval\n", "operation INST"),
        (b"\x82\x01", "operation EXT1"),
        (b"\x96" + (1 << 60).to_bytes(8, "little"), "damaged"),
        (b"\x8e" + (1 << 60).to_bytes(8, "little"), "damaged"),
        (b"}r\xff\xff\xff\xff0", "damaged"),
        (b")" + b"\x85" * 100_000 + b"}" + b"h\x00", "damaged"),
        (b"}" + b")" + b"\x85" * 100_000 + b"Ns", "a key must be .*; got tuple"),
        (b"]", "list instead of a dictionary"),
        (b"}", "one dictionary of tensors; got 0"),
        (b"tR", "damaged"),
        (b"u", "damaged"),
    ],
    ids=repr,
)
def test_hostile_pickles_are_refused(tmp_path, content, message):
    write_state_dict(tmp_path / "net.pt", {}, content=content)
    with pytest.raises(RecordFormatError, match=message):
        read_torch_tensors(tmp_path / "net.pt")


ENTRY = np.arange(6, dtype="<f4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (7,), "stride": (1,)}, "beyond its storage"),
        ({"size": (2**30, 2**30), "stride": (0, 0)}, "beyond its storage"),
        ({"size": (2,), "stride": (-1,), "offset": 1}, "not what torch writes"),
        ({"size": (2,), "stride": (1,), "offset": 5}, "beyond its storage"),
        ({"size": (2, 3), "stride": (1,)}, "not what torch writes"),
        ({"n": 2**31 - 1}, "6 numbers instead of 2147483647"),
        ({"storage": "ComplexFloatStorage"}, "stored as torch.ComplexFloatStorage"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path, options, message):
    one = tensor("0", ENTRY, **{"storage": "FloatStorage", **options})
    write_state_dict(tmp_path / "net.pt", {"": ENTRY}, content=dictionary({"a": one}))
    with pytest.raises(RecordFormatError, match=message):
        read_torch_tensors(tmp_path / "net.pt")


def test_compressed_and_overlapping_members_are_refused(tmp_path):
    path = tmp_path / "net.pt"
    write_state_dict(path, {"a": np.zeros(10**6, "<f4")}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(RecordFormatError, match="compressed"):
        read_torch_tensors(path)
    write_state_dict(path, {"a": ENTRY})
    with zipfile.ZipFile(path, "a") as archive:
        # The list names one member a hundred times.
        info = archive.getinfo("net/data/0")
        for i in range(100):
            again = zipfile.ZipInfo(f"net/data/{i + 1}")
            again.header_offset, again.CRC = info.header_offset, info.CRC
            again.file_size = again.compress_size = info.file_size
            archive.filelist.append(again)
        archive._didModify = True
    with pytest.raises(RecordFormatError, match="overlap"):
        read_torch_tensors(path)


@pytest.mark.parametrize("write", WRITERS)
def test_damaged_files_are_refused_or_read(tmp_path, write):
    path = tmp_path / "net.pt"
    write(path, small_state_dict())
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    for n in rng.integers(0, len(whole), 60):
        path.write_bytes(whole[:n])
        with pytest.raises(RecordFormatError, match="`path` must be a state dict"):
            read_torch_tensors(path)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            found = read_torch_tensors(path)
        except RecordFormatError:
            continue
        assert sum(array.nbytes for array in found.values()) <= 10 * len(whole)


def test_a_missing_file_is_reported_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_torch_tensors(tmp_path / "none.pt")


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_agrees(tmp_path, legacy):
    torch = pytest.importorskip("torch")
    save = partial(torch.save, _use_new_zipfile_serialization=not legacy)
    net = torch.nn.TransformerEncoderLayer(8, 2, 16).to(torch.bfloat16)
    save(net.state_dict(), tmp_path / "net.pt")
    found = read_torch_tensors(tmp_path / "net.pt")
    for key, value in net.state_dict().items():
        assert np.array_equal(found[key], value.float().numpy())
