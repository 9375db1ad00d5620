"""Libraries that are not installed with hardmax: loaded when needed, and named when missing."""

import importlib
from typing import Any

from hardmax.errors import MissingExtraError


def load_extra(library: str, *, extra: str, purpose: str) -> Any:
    """Import a library of an optional group of dependencies.

    Args:
        library: The module to import, such as `pyarrow.parquet`.
        extra: The group it is in: `pip install 'hardmax[EXTRA]'` installs it.
        purpose: What needs it, for the message: "Arrow tables".

    Raises:
        MissingExtraError: If it is not installed. A library that is there and fails to load raises
            its own error.

    Examples:
        >>> load_extra("json", extra="web", purpose="Pages").dumps([1])
        '[1]'
        >>> load_extra("no_such_library", extra="web", purpose="Pages")
        Traceback (most recent call last):
            ...
        hardmax.errors.MissingExtraError: Pages need no_such_library, which is not installed; run
        `pip install 'hardmax[web]'`.
    """
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        name = library.partition(".")[0]
        # What the library itself misses is another problem, with another remedy.
        if error.name is not None and error.name.partition(".")[0] != name:
            raise
        raise MissingExtraError(
            f"{purpose} need {name}, which is not installed; run `pip install 'hardmax[{extra}]'`."
        ) from None
