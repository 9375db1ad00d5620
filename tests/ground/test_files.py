"""Files are written completely or not at all."""

import os
import pickle

import pytest

import hardmax as hm
from hardmax._ground.files import atomic_write, read_text, write_text
from hardmax.errors import ArgumentError, FileError, HardmaxError, RecordFormatError


def test_a_failed_write_leaves_the_old_file_and_no_scratch(tmp_path):
    write_text(tmp_path / "f", "old")

    def fail_half_way():
        with atomic_write(tmp_path / "f") as stream:
            stream.write(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert read_text(tmp_path / "f") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_finished_write_replaces_the_file(tmp_path):
    write_text(tmp_path / "f", "old")
    write_text(tmp_path / "f", "new: Größe")
    assert read_text(tmp_path / "f") == "new: Größe"


def test_a_missing_folder_is_named_not_the_scratch_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "missing" / "f", "text")
    assert caught.value.filename == str(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused:
        write_text(tmp_path / "file" / "f", "text")
    assert refused.value.filename == str(tmp_path / "file")
    with pytest.raises(IsADirectoryError) as folder:
        write_text(tmp_path, "text")
    assert folder.value.filename == str(tmp_path)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(RecordFormatError, match="`path` must be a UTF-8 text file"):
        read_text(tmp_path / "f")


def test_a_new_file_has_the_permissions_any_new_file_gets(tmp_path):
    (tmp_path / "plain").touch()
    write_text(tmp_path / "written", "text")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "written").chmod(0o640)
    write_text(tmp_path / "written", "again")
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o640


NET = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
SQUARE = hm.Box([-1, -1], [1, 1])
PART = hm.enumerate_regions(NET, SQUARE)
COMPILED = hm.constructions.compile_relu(NET, SQUARE, epsilon=0.1)
WRITERS = {
    "model": lambda path: hm.save_model(NET, path),
    "certificate": PART.certificate().save,
    "record": hm.Record("name", {}, {}).save,
    "page": hm.explore(NET).save,
    "compiled": COMPILED.save,
    "function": hm.constructions.compile_cpwl(PART, SQUARE).save,
}


def save_partition(path):
    pytest.importorskip("pyarrow")
    hm.save_partition(PART, path)


WRITERS["partition"] = save_partition
WRITERS["table"] = lambda path: hm.save_partition(PART, path)
ENDINGS = {"partition": ".parquet", "table": ".csv", "model": ".safetensors"}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_cannot_be_written_is_refused_and_left_as_it_was(kind, tmp_path, monkeypatch):
    write, name = WRITERS[kind], f"file{ENDINGS.get(kind, '')}"
    with pytest.raises(HardmaxError, match=r"`path` must be a file that can be written; .*missing"):
        write(tmp_path / "missing" / name)
    path = tmp_path / name
    path.write_text("old")

    def fsync(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FileError) as full:
        write(path)
    assert str(full.value) == (
        f"`path` must be a file that can be written; {path}: No space left on device."
    )
    assert full.value.errno == 28
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("kind", "endings", "wrong"),
    [
        ("model", ".safetensors", ["net.onnx", "net.pt", "net.json"]),
        ("compiled", ".safetensors", ["net.onnx"]),
        ("function", ".safetensors", ["net.bin"]),
        ("table", ".csv or .parquet", ["cells", "cells.json", "cells.csv.gz", "cells.tsv"]),
    ],
)
def test_an_ending_of_another_format_is_refused_before_anything_is_written(
    kind, endings, wrong, tmp_path
):
    for name in wrong:
        with pytest.raises(ArgumentError) as refused:
            WRITERS[kind](tmp_path / name)
        assert f"must end in {endings}" in str(refused.value)
        assert name in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritten_file_is_an_error_of_the_system_too_also_in_another_process(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "missing" / "f", "text")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, FileError)
    assert isinstance(again, FileNotFoundError)
    assert str(again) == str(caught.value)
    assert str(pickle.loads(pickle.dumps(FileError("in short")))) == "in short"


def test_an_error_about_another_file_is_not_taken_for_one_about_this(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "f"):
        (tmp_path / "read").read_bytes()
    assert not isinstance(caught.value, FileError)
    assert list(tmp_path.iterdir()) == []
