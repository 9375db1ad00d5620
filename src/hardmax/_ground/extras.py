"""Optional dependencies: imported when needed, with a clear error if they are not installed."""

import importlib
import os
from pathlib import Path
from typing import Any

from hardmax.errors import MissingExtraError


def load_extra(library: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an optional dependency.

    Args:
        library: The module to import, such as `pyarrow.parquet`.
        extra: The group of dependencies that contains the library.
        purpose: A plural noun for the error message that names what needs the library, such as
            "Arrow tables".

    Raises:
        MissingExtraError: If the library is not installed; the message contains the command that
            installs it. If it is installed but cannot be imported, its own error is raised.

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
        # If a dependency of the library is missing, the remedy is different.
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise MissingExtraError(
            f"{purpose} need {name}, which is not installed; run `{install_command(extra)}`."
        ) from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra from the source of this package.

    A package registry need not have this version. Hence a checkout is installed from itself, and a
    package that was installed from a folder or a file is installed from there again.
    """
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "hardmax").is_dir():
        return f"pip install -e '{_format_path(checkout)}[{extra}]'"
    origin = _origin()
    return f"pip install '{'hardmax' if origin is None else _format_path(origin)}[{extra}]'"


def _origin() -> Path | None:
    """Return the folder or file from which pip installed this package, if it still exists."""
    # Imported here, because these imports take longer than all other imports of most callers.
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


def _format_path(path: Path) -> str:
    """Return `.` for the working directory, and other paths in full."""
    return "." if path == Path.cwd() else os.fspath(path)
