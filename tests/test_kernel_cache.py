"""Compiled code never outlives the sources it was compiled from."""

from hardmax._kernels import drop_stale_cache


def folder_with_cache(tmp_path):
    (tmp_path / "loops.py").write_text("first")
    (tmp_path / "__pycache__").mkdir()
    assert not drop_stale_cache(tmp_path)
    (tmp_path / "__pycache__" / "loops.search.nbi").touch()
    (tmp_path / "__pycache__" / "loops.search.1.nbc").touch()
    (tmp_path / "__pycache__" / "loops.cpython-311.pyc").touch()
    return tmp_path


def cached(folder):
    return sorted(p.suffix for p in (folder / "__pycache__").iterdir())


def test_a_cache_of_unchanged_sources_is_kept(tmp_path):
    folder = folder_with_cache(tmp_path)
    assert not drop_stale_cache(folder)
    assert cached(folder) == [".nbc", ".nbi", ".pyc", ".sha256"]


def test_a_changed_source_drops_what_was_compiled(tmp_path):
    folder = folder_with_cache(tmp_path)
    (folder / "loops.py").write_text("second")
    assert drop_stale_cache(folder)
    assert cached(folder) == [".pyc", ".sha256"]
    assert not drop_stale_cache(folder)


def test_a_new_source_drops_what_was_compiled(tmp_path):
    folder = folder_with_cache(tmp_path)
    (folder / "more_loops.py").touch()
    assert drop_stale_cache(folder)


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path):
    folder = folder_with_cache(tmp_path)
    (folder / "__pycache__" / "sources.sha256").unlink()
    (folder / "__pycache__" / "sources.sha256").mkdir()
    assert not drop_stale_cache(folder)
