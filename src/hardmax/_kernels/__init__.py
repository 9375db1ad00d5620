"""Compiled loops: no checks, buffers passed in. Each has a pure definition in `tests/reference`.

Compiled code is cached beside the sources. numba renews what was compiled from a file that has
changed, but not what other files compiled from functions of it, which can then meet arrays of
another shape. So the cache is dropped whenever any of the sources has changed.
"""

import hashlib
from pathlib import Path


def drop_stale_cache(folder: Path) -> bool:
    """Delete what numba cached in a folder of sources that are not those it was compiled from.

    Returns:
        Whether anything was stale. A folder that cannot be written is left alone.
    """
    sources = sorted(folder.glob("*.py"))
    digest = hashlib.sha256()
    for path in sources:
        state = path.stat()
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns};".encode())
    stamp = folder / "__pycache__" / "sources.sha256"
    try:
        if stamp.is_file() and stamp.read_text() == digest.hexdigest():
            return False
        stamp.parent.mkdir(exist_ok=True)
        compiled = [*stamp.parent.glob("*.nbi"), *stamp.parent.glob("*.nbc")]
        for path in compiled:
            path.unlink(missing_ok=True)
        stamp.write_text(digest.hexdigest())
    except OSError:
        return False
    return bool(compiled)


drop_stale_cache(Path(__file__).parent)
