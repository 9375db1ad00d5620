"""Files: whole or untouched."""

import pytest

from hardmax._ground.files import read_text, replacing, write_text
from hardmax.errors import RecordFormatError


def test_a_failed_write_leaves_the_old_file_and_no_scratch(tmp_path):
    write_text(tmp_path / "f", "old")

    def fail_half_way():
        with replacing(tmp_path / "f") as stream:
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
    with pytest.raises(RecordFormatError, match="`path` must name a text file"):
        read_text(tmp_path / "f")


def test_a_new_file_has_the_permissions_any_new_file_gets(tmp_path):
    (tmp_path / "plain").touch()
    write_text(tmp_path / "written", "text")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "written").chmod(0o640)
    write_text(tmp_path / "written", "again")
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o640
