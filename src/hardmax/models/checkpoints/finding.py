"""Search for a checkpoint: in a file or folder, a package, or the Hugging Face cache.

A cached model is a folder `models--ORG--NAME`. Its file `refs/main` names a revision, and the files
of that revision are symbolic links from `snapshots/REVISION` to `blobs`. The cache is never
modified.
"""

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from hardmax.errors import ArgumentError, RecordFormatError

SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".onnx")
"""The suffixes of files that can hold weights, in order of preference."""
INDEX = ".index.json"
BUNDLED = "hardmax"
"""The name of the checkpoint in this package; as a source, it never means a file or folder."""
_BUNDLED_FOLDER = Path(__file__).parent / "sorter"
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""The files that identify a Python environment."""
_MODEL_ID = re.compile(r"(?:[\w-][\w.-]{0,95}/)?[\w-][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w-]{1,64}", re.ASCII)
_MOST_LISTED = 5


def find_weights_file(source: str | os.PathLike[str], select: str | None) -> Path:
    """Return the file of weights that `source` and `select` of `load_checkpoint` specify."""
    if source != BUNDLED and Path(source).is_file():
        if select is not None:
            raise ArgumentError(f"`select` must be None if `source` is a file; got {select!r}.")
        return Path(source)
    root = _find_folder(source)
    below = list(_iter_weights_files(root))
    if select is None:
        files = _select_preferred_files([file for file in below if file.parent == root] or below)
    else:
        wanted = f"/{select.strip('/')}/"
        files = [file for file in below if wanted in f"/{file.relative_to(root).as_posix()}/"]
        files = _select_preferred_files(files)
        if not files:
            raise ArgumentError(
                f"`select` must name a checkpoint in {os.fspath(source)!r:.200}, which holds "
                f"{_format_names(_select_preferred_files(below), root)}; got {select!r:.200}."
            )
    if len(files) != 1:
        raise ArgumentError(
            f"`source` must hold one checkpoint; {os.fspath(source)!r:.200} holds {len(files)}: "
            f"{_format_names(files, root)}. Choose one with `select`."
        )
    return files[0]


def _find_folder(source: str | os.PathLike[str]) -> Path:
    """Return the folder with weights that a source specifies."""
    if source == BUNDLED:
        return _BUNDLED_FOLDER
    path, found = Path(source), ""
    if path.is_dir():
        if any(_iter_weights_files(path)):
            return path
        found = " This folder contains no weights."
    if isinstance(source, str):
        package = _find_package_folder(source)
        if package is not None and any(_iter_weights_files(package)):
            return package
        if package is not None:
            found += " The installed package of this name contains no weights."
        if _MODEL_ID.fullmatch(source) and not source.endswith(SUFFIXES) and "--" not in source:
            snapshot = _find_snapshot(source)
            if snapshot is not None:
                return snapshot
            found += _describe_cache(source)
    raise ArgumentError(
        "`source` must be a file, a folder with weights, an installed package with weights or a "
        f"model in the Hugging Face cache; got {os.fspath(source)!r:.200}.{found}"
    )


def _find_package_folder(name: str) -> Path | None:
    spec = None
    if name.replace("-", "_").isidentifier() and name != "__main__":
        spec = find_spec(name.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _hub_cache_folder() -> Path:
    """Return the folder in which Hugging Face libraries cache downloads."""

    def read_variable(variable: str, default: str) -> str:
        return os.path.expandvars(os.path.expanduser(os.environ.get(variable) or default))

    home = read_variable(
        "HF_HOME", os.path.join(read_variable("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    )
    older = read_variable("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub"))
    return Path(read_variable("HF_HUB_CACHE", older))


def _find_snapshot(name: str) -> Path | None:
    """Return the snapshot of a model in the Hugging Face cache, or None if it is not there.

    Raises:
        ArgumentError: If the cached model has no weights, or several snapshots but no main
            revision.
        RecordFormatError: If a link points outside the model's blobs, or the main revision is not
            the name of a snapshot.
    """
    model = _hub_cache_folder() / f"models--{name.replace('/', '--')}"
    if not os.path.isdir(model):
        return None
    model = place = model.resolve()
    main, snapshots = model / "refs" / "main", model / "snapshots"
    revisions = sorted(path.name for path in snapshots.glob("*") if path.is_dir())
    if main.is_file():
        with main.open("rb") as file:
            revision = file.read(100).decode("utf-8", "replace").strip()
        if not _REVISION.fullmatch(revision):
            raise RecordFormatError(
                f"`source` has a damaged cache: {main} does not name a revision."
            )
        revisions = [revision]
    if len(revisions) > 1:  # Without a main revision, each was downloaded by its commit hash.
        raise ArgumentError(
            f"`source` must have a main revision or exactly one snapshot in the cache; {name!r} "
            f"has {len(revisions)}. Pass the folder of a snapshot, such as "
            f"{snapshots / revisions[0]}."
        )
    for revision in revisions:
        place = snapshots / revision
        _check_links(place, model / "blobs")
        if any(_iter_weights_files(place)):
            return place
    raise ArgumentError(
        f"`source` must be a model with weights in the cache; {name!r} has none in {place}. "
        f"hardmax does not download; complete the cached model with 'hf download {name}'."
    )


def _check_links(snapshot: Path, blobs: Path) -> None:
    """Raise if a snapshot, or a link in it, points outside the model's blobs."""
    places = [snapshot]
    for folder, folders, files in os.walk(snapshot):
        places += (Path(folder, name) for name in (*folders, *files))
    for place in places:
        if place.is_symlink():
            try:
                target = place.resolve()
            except (OSError, RuntimeError):  # The link points to itself.
                target = place
            if not target.is_relative_to(blobs):
                raise RecordFormatError(
                    f"`source` must have a snapshot that only links to the blobs of its model; "
                    f"{place} points to {target}."
                )


def _describe_cache(name: str) -> str:
    """Describe the cache that was searched, similar names in it, and how to add the model."""
    cache = _hub_cache_folder()
    cached = (p.name.removeprefix("models--").replace("--", "/") for p in cache.glob("models--*"))
    last = name.rpartition("/")[2].lower()
    similar = sorted(other for other in cached if other.rpartition("/")[2].lower() == last)
    hint = f", but has {', '.join(similar[:_MOST_LISTED])}" if similar else ""
    return (
        f" The cache, {cache}, does not have it{hint}. hardmax does not download; run 'pip install "
        f"huggingface_hub' and 'hf download {name}', or set HF_HUB_CACHE or HF_HOME to another "
        "cache."
    )


def _iter_weights_files(root: Path) -> Iterator[Path]:
    """Yield the files of weights below a folder, except in hidden folders and environments."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and not any(Path(folder, name, mark).exists() for mark in _ENVIRONMENTS)
        )
        for name in sorted(files):
            if not name.startswith(".") and _is_weights_file(Path(folder, name)):
                yield Path(folder, name)


def _is_weights_file(file: Path) -> bool:
    is_index = file.name.endswith(tuple(f"{suffix}{INDEX}" for suffix in SUFFIXES))
    is_weights = file.suffix in SUFFIXES and not file.name.startswith(_NOT_WEIGHTS)
    return (is_index or is_weights) and file.is_file()


def _select_preferred_files(files: list[Path]) -> list[Path]:
    """Return the index files of each folder or, without any, its files of the preferred kind."""
    chosen: list[Path] = []
    for folder in sorted({file.parent for file in files}):
        inside = [file for file in files if file.parent == folder]
        kinds = [[f for f in inside if f.name.endswith(f"{s}{INDEX}")] for s in SUFFIXES]
        kinds += [[f for f in inside if f.suffix == s] for s in SUFFIXES]
        chosen += next(kind for kind in kinds if kind)
    return chosen


def _format_names(files: list[Path], root: Path) -> str:
    names = sorted(file.relative_to(root).as_posix() for file in files)
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"{', '.join(names[:_MOST_LISTED])}{more}"
