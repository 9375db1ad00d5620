"""Safe parsing of JSON from untrusted files."""

import json
from collections import Counter
from math import isfinite
from typing import Any

from hardmax.errors import RecordFormatError

MOST_NESTED = 100
"""Maximum nesting depth of lists and objects, both written and read."""


def parse_json(text: str | bytes, *, floats: bool = True) -> Any:
    """Parse JSON text to a value that is safe to traverse by recursion.

    The parser is stricter than `json.loads`. It rejects NaN, infinities, numbers that overflow,
    repeated names in an object, unpaired surrogates in strings, and nesting deeper than
    `MOST_NESTED`.

    Args:
        text: The text, as a string or as bytes.
        floats: Whether numbers may have a decimal point or an exponent.

    Raises:
        RecordFormatError: If the text is not valid JSON in this sense.

    Examples:
        >>> parse_json('{"cells": [3, 4]}')
        {'cells': [3, 4]}
        >>> parse_json("[" * 600 + "]" * 600)
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `text` must be JSON nested at most 100 levels deep; got
        deeper nesting.
    """
    if not isinstance(text, str | bytes):
        raise RecordFormatError(f"`text` must be a string or bytes; got {type(text).__name__}.")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite if floats else _refuse_float,
            object_pairs_hook=_refuse_duplicate_keys,
        )
    except RecursionError:
        raise RecordFormatError(_TOO_DEEP) from None
    except ValueError as error:
        raise RecordFormatError(f"`text` must be JSON; {error}.") from None
    _refuse_nesting(value)
    return value


_TOO_DEEP = f"`text` must be JSON nested at most {MOST_NESTED} levels deep; got deeper nesting."


def _refuse_nesting(value: Any) -> None:
    """Raise an error if a value is nested too deeply; traverse it level by level."""
    level = [[value]]
    for _ in range(MOST_NESTED + 1):
        entries = [entry for container in level for entry in container]
        for entry in entries:
            if isinstance(entry, str) and not entry.isascii():
                _refuse_unpaired_surrogates(entry)
        level = [entry for entry in entries if type(entry) is list]
        level += [[*entry, *entry.values()] for entry in entries if type(entry) is dict]
        if not level:
            return
    raise RecordFormatError(_TOO_DEEP)


def _refuse_unpaired_surrogates(entry: str) -> None:
    try:
        entry.encode("utf-8")
    except UnicodeEncodeError as error:
        reason = f"`text` must be JSON without unpaired surrogates; {error}."
        raise RecordFormatError(reason) from None


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice!r:.60} occurs twice in one object")
    return content


def _parse_finite(word: str) -> float:
    value = float(word)
    if not isfinite(value):
        raise ValueError(f"{word:.60} exceeds the range of float64")
    return value


def _refuse_float(word: str) -> float:
    raise ValueError(f"{word:.60} is not an integer")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON")
