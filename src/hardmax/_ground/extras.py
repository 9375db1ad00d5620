"""Libraries that are not installed with hardmax: loaded when needed, and named when missing."""

import importlib
import os
from pathlib import Path
from typing import Any

from hardmax.errors import MissingExtraError


def load_extra(library: str, *, extra: str, purpose: str) -> Any:
    """Import a library of an optional group of dependencies.

    Args:
        library: The module to import, such as `pyarrow.parquet`.
        extra: The group it is in.
        purpose: What needs it, for the message: "Arrow tables".

    Raises:
        MissingExtraError: If it is not installed; the message has the command that installs it. A
            library that is there and fails to load raises its own error.

    Examples:
        >>> load_extra("json", extra="web", purpose="Pages").dumps([1])
        '[1]'
        >>> load_extra("no_such_library", extra="web", purpose="Pages")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        hardmax.errors.MissingExtraError: Pages need no_such_library, which is not installed; run
        `pip install ...[web]'`.
    """
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        name = library.partition(".")[0]
        # What the library itself misses is another problem, with another remedy.
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise MissingExtraError(
            f"{purpose} need {name}, which is not installed; run `{install_command(extra)}`."
        ) from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra where this package came from.

    A package registry need not have this version: a checkout installs from itself, and a package
    that was installed from a folder or a file installs from there again.
    """
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "hardmax").is_dir():
        return f"pip install -e '{_spelled(checkout)}[{extra}]'"
    origin = _origin()
    return f"pip install '{'hardmax' if origin is None else _spelled(origin)}[{extra}]'"


def _origin() -> Path | None:
    """The folder or file that pip installed this package from, if it is still there."""
    # Imported here: they take longer than the imports of most callers.
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution("hardmax").read_text("direct_url.json")
        url = urlsplit(json.loads(text or "{}").get("url", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return None
    path = Path(unquote(url.path))
    return path if url.scheme == "file" and path.exists() else None


def _spelled(path: Path) -> str:
    """A path as it is typed from the working directory."""
    return "." if path == Path.cwd() else os.fspath(path)
