"""JSON from files that nobody vouches for: read at once or refused with the reason."""

import json
from collections import Counter
from math import isfinite
from typing import Any

from hardmax.errors import RecordFormatError

MOST_NESTED = 100
"""How deep lists and objects may stand in each other, written or read."""


def parse_json(text: str | bytes, *, floats: bool = True) -> Any:
    """Read JSON text; what comes back is safe to walk through by recursion.

    Stricter than `json.loads`: NaN, infinities and numbers that overflow to them are refused, and
    so are a name that stands twice in an object, half of a surrogate pair in a string, and nesting
    deeper than `MOST_NESTED`.

    Args:
        text: The text, or its bytes.
        floats: Whether numbers may have a point or an exponent.

    Raises:
        RecordFormatError: If the text is not such JSON.

    Examples:
        >>> parse_json('{"cells": [3, 4]}')
        {'cells': [3, 4]}
        >>> parse_json("[" * 600 + "]" * 600)
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `text` must be JSON nested at most 100 deep; this is
        deeper.
    """
    if not isinstance(text, str | bytes):
        raise RecordFormatError(f"`text` must be text; got {type(text).__name__}.")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite if floats else _refuse_float,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        raise RecordFormatError(_TOO_DEEP) from None
    except ValueError as error:
        raise RecordFormatError(f"`text` must be JSON; {error}.") from None
    _refuse_nesting(value)
    return value


_TOO_DEEP = f"`text` must be JSON nested at most {MOST_NESTED} deep; this is deeper."


def _refuse_nesting(value: Any) -> None:
    """Go through the levels of a value one after the other, without recursion."""
    level = [[value]]
    for _ in range(MOST_NESTED + 1):
        entries = [entry for container in level for entry in container]
        for entry in entries:
            if isinstance(entry, str) and not entry.isascii():
                _refuse_half_characters(entry)
        level = [entry for entry in entries if type(entry) is list]
        level += [[*entry, *entry.values()] for entry in entries if type(entry) is dict]
        if not level:
            return
    raise RecordFormatError(_TOO_DEEP)


def _refuse_half_characters(entry: str) -> None:
    try:
        entry.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordFormatError(f"`text` must be JSON of whole characters; {error}.") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice!r:.60} stands twice in one object")
    return content


def _finite(word: str) -> float:
    value = float(word)
    if not isfinite(value):
        raise ValueError(f"{word:.60} is beyond float64")
    return value


def _refuse_float(word: str) -> float:
    raise ValueError(f"{word:.60} is not an integer")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
