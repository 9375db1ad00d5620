"""GGUF files: blocks mean what llama.cpp says they mean, and damaged files are refused."""

import struct

import numpy as np
import pytest

from hardmax.errors import RecordFormatError
from hardmax.models.formats import gguf_files
from hardmax.models.formats.gguf_files import read_gguf
from tests.gguf_archives import field, text, write_gguf

BLOCKS = {
    # type: (name, numbers in a block, bytes of a block, where its half-precision scales are)
    2: ("Q4_0", 32, 18, (0,)),
    3: ("Q4_1", 32, 20, (0, 2)),
    6: ("Q5_0", 32, 22, (0,)),
    7: ("Q5_1", 32, 24, (0, 2)),
    8: ("Q8_0", 32, 34, (0,)),
    12: ("Q4_K", 256, 144, (0, 2)),
    13: ("Q5_K", 256, 176, (0, 2)),
    14: ("Q6_K", 256, 210, (208,)),
}


def random_blocks(kind, n, seed=0):
    _, _, size, scales = BLOCKS[kind]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in scales:
        blocks[:, at : at + 2] = rng.standard_normal(n).astype("<f2").view(np.uint8).reshape(n, 2)
    return blocks.tobytes()


def half(block, at):
    return np.float32(np.frombuffer(block, "<f2", 1, at)[0])


def entry(kind, block, i):
    """One number of a block, bit by bit from the description of the format."""
    if kind == 8:
        return half(block, 0) * np.float32(np.int8(np.uint8(block[2 + i])))
    if kind in (2, 3, 6, 7):
        first = {2: 2, 3: 4, 6: 6, 7: 8}[kind]
        byte = block[first + i % 16]
        q = byte & 15 if i < 16 else byte >> 4
        if kind in (6, 7):
            q += 16 * (struct.unpack_from("<I", block, first - 4)[0] >> i & 1)
        if kind in (2, 6):
            return half(block, 0) * np.float32(q - (8 if kind == 2 else 16))
        return half(block, 0) * np.float32(q) + half(block, 2)
    if kind == 14:
        part, j = divmod(i, 128)
        row, column = divmod(j, 32)
        byte = block[64 * part + 32 * (row % 2) + column]
        q = (byte & 15 if row < 2 else byte >> 4) | (
            (block[128 + 32 * part + column] >> 2 * row & 3) << 4
        )
        scale = np.int8(np.uint8(block[192 + i // 16]))
        return half(block, 208) * np.float32(scale) * np.float32(q - 32)
    s, j = block[4:16], i // 32
    if j < 4:
        scale, least = s[j] & 63, s[j + 4] & 63
    else:
        scale = s[j + 4] & 15 | (s[j - 4] >> 6) << 4
        least = s[j + 4] >> 4 | (s[j] >> 6) << 4
    byte = block[(16 if kind == 12 else 48) + 32 * (j // 2) + i % 32]
    q = byte & 15 if j % 2 == 0 else byte >> 4
    if kind == 13:
        q += 16 * (block[16 + i % 32] >> j & 1)
    return half(block, 0) * np.float32(scale) * np.float32(q) - half(block, 2) * np.float32(least)


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: BLOCKS[kind][0])
def test_blocks_mean_what_the_format_says(tmp_path, kind):
    _, n, size, _ = BLOCKS[kind]
    blocks = random_blocks(kind, 6)
    write_gguf(tmp_path / "m.gguf", {"t": ((3, 2 * n), kind, blocks)})
    found = read_gguf(tmp_path / "m.gguf").tensors["t"]
    rows = [
        [entry(kind, blocks[k : k + size], i) for i in range(n)] for k in range(0, 6 * size, size)
    ]
    assert found.dtype == np.float32
    assert np.array_equal(found, np.array(rows).reshape(3, 2 * n))


def test_plain_tensors_and_fields_are_read(tmp_path):
    fields = [
        field("general.architecture", 8, text("llama")),
        field("n", 4, struct.pack("<I", 7)),
        field("eps", 6, struct.pack("<f", 0.5)),
        field("yes", 7, b"\x01"),
        field("words", 9, struct.pack("<IQ", 8, 2) + text("a") + text("é")),
        field("numbers", 9, struct.pack("<IQ2i", 5, 2, -1, 3)),
    ]
    single = np.arange(6, dtype="<f4")
    tensors = {
        "f32": ((2, 3), 0, single.tobytes()),
        "f16": ((3,), 1, single[:3].astype("<f2").tobytes()),
        "bf16": ((2,), 30, np.array([0x3F80, 0xC000], "<u2").tobytes()),
        "f64": ((1,), 28, np.array([0.1]).tobytes()),
    }
    write_gguf(tmp_path / "m.gguf", tensors, fields)
    found = read_gguf(tmp_path / "m.gguf")
    assert found.fields["general.architecture"] == "llama"
    assert (found.fields["n"], found.fields["eps"], found.fields["yes"]) == (7, 0.5, True)
    assert found.fields["words"] == ["a", "é"]
    assert found.fields["numbers"].tolist() == [-1, 3]
    assert found.tensors["f32"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert found.tensors["f16"].tolist() == [0.0, 1.0, 2.0]
    assert found.tensors["bf16"].tolist() == [1.0, -2.0]
    assert found.tensors["f64"].tolist() == [0.1]


ONES = np.ones(64, "<f4").tobytes()


@pytest.mark.parametrize(
    ("tensors", "fields", "message"),
    [
        (
            {"t": ((64,), 10, ONES)},
            [],
            "`t` has the unsupported type 10; supported: F32, F16, Q4_0",
        ),
        ({"t": ((65,), 0, ONES)}, [], "extend beyond the end of the file"),
        ({"t": ((2**40, 2**40), 0, ONES)}, [], "extend beyond the end of the file"),
        ({"t": ((48,), 8, ONES)}, [], "whole blocks"),
        ({"t": ((1,) * 5, 0, ONES)}, [], "5 axes"),
        ({}, [field("f", 8, struct.pack("<Q", 2**60))], "declares 1152921504606846976 entries"),
        ({}, [field("f", 9, struct.pack("<IQ", 4, 2**60))], "do not fit in the file"),
        ({}, [field("f", 9, struct.pack("<IQ", 9, 1))], "a list with entries of type 9"),
        ({}, [field("f", 77, b"")], "type 77"),
        ({}, [field("general.alignment", 4, struct.pack("<I", 0))], "alignment must be .*; got 0"),
    ],
)
def test_hostile_files_are_refused(tmp_path, tensors, fields, message):
    write_gguf(tmp_path / "m.gguf", tensors, fields)
    with pytest.raises(RecordFormatError, match=message):
        read_gguf(tmp_path / "m.gguf")


def test_tensors_may_not_share_their_bytes(tmp_path):
    tensors = {f"t{i}": ((64,), 0, ONES) for i in range(3)}
    write_gguf(tmp_path / "m.gguf", tensors, overlapping=True)
    with pytest.raises(RecordFormatError, match="overlap"):
        read_gguf(tmp_path / "m.gguf")


def test_damaged_files_are_refused_or_read(tmp_path):
    path = tmp_path / "m.gguf"
    tensors = {"a": ((2, 32), 8, random_blocks(8, 2)), "b": ((64,), 0, ONES)}
    write_gguf(path, tensors, [field("general.architecture", 8, text("llama"))])
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(RecordFormatError, match="`path` must be a valid GGUF file"):
            read_gguf(path)
    rng = np.random.default_rng(2)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.integers(200)] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            found = read_gguf(path)
        except RecordFormatError:
            continue
        assert sum(array.nbytes for array in found.tensors.values()) <= 8 * len(whole)


def test_a_tensor_without_blocks_has_no_entries():
    assert gguf_files._unpack_nibbles(np.zeros((0, 16), np.uint8), 16).shape == (0, 2, 16)
