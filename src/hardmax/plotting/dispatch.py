"""`draw(obj, ax=None)`: a generic function for which each module registers its own types.

The public function `drawing.plot` reads its arguments and then calls `draw`.
"""

import inspect
import re
from collections.abc import Callable
from functools import singledispatch
from textwrap import fill
from typing import Any

from hardmax.errors import DtypeError


@singledispatch
def draw(obj: Any, ax: Any = None, **options: Any) -> Any:
    """Draw an object and return the matplotlib axes.

    Raises:
        DtypeError: If no drawing function is registered for the type of the object.
    """
    known = sorted(cls.__name__ for cls in draw.registry if cls is not object)
    raise DtypeError(
        f"`obj` must be a model with a domain, or one of {', '.join(known)}; got "
        f"{type(obj).__name__}."
    )


def is_drawable(obj: Any) -> bool:
    """Return whether a drawing function is registered for the type of an object."""
    return draw.dispatch(type(obj)) is not draw.dispatch(object)


def list_options(plot: Callable[..., Any]) -> None:
    """Append the supported types and their options to the docstring of `plot`.

    This is called once, after all types are registered. The list is taken from the docstrings of
    the registered functions, so the two cannot disagree.
    """
    found = {cls.__name__: drawing for cls, drawing in draw.registry.items() if cls is not object}
    parts = [_describe_options(name, drawing) for name, drawing in sorted(found.items())]
    plot.__doc__ = f"{inspect.getdoc(plot)}\n\nOptions, by the type of `obj`:\n" + "\n".join(parts)


def _describe_options(name: str, drawing: Any) -> str:
    """Return the summary of one drawing function, followed by its options."""
    text = inspect.getdoc(drawing) or ""
    first = f"{name}: {text.partition(chr(10))[0]}"
    lines = [fill(first, 96, initial_indent=" " * 4, subsequent_indent=" " * 8)]
    described = _parse_arguments(text)
    for option in inspect.signature(drawing).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            words = f"{option.name}={option.default!r}: {described[option.name]}"
            lines.append(fill(words, 96, initial_indent=" " * 8, subsequent_indent=" " * 12))
    return "\n".join(lines)


def _parse_arguments(text: str) -> dict[str, str]:
    """Return the entries of the section `Args` of a docstring, each joined into one line."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    entries = re.split(r"^    (?=\w)", section[1], flags=re.MULTILINE) if section else []
    pairs = [entry.partition(":") for entry in entries if entry.strip()]
    return {name.strip(): " ".join(words.split()) for name, _, words in pairs}
