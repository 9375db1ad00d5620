"""`draw(obj, ax=None)`: one function draws every object; each subject registers its own way.

`drawing.plot`, the public function, reads its arguments and then calls it.
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
    """Draw an object that the library can draw; return the matplotlib axes.

    Raises:
        DtypeError: If no function is registered for its type.
    """
    known = sorted(cls.__name__ for cls in draw.registry if cls is not object)
    raise DtypeError(
        f"`obj` must be a model with a domain, or one of {', '.join(known)}; got "
        f"{type(obj).__name__}."
    )


def is_drawable(obj: Any) -> bool:
    """Say whether a function is registered for the type of an object."""
    return draw.dispatch(type(obj)) is not draw.dispatch(object)


def list_options(plot: Callable[..., Any]) -> None:
    """Add to the documentation of `plot` what it can draw, and the options of each type.

    Called once, when all types are registered: the list is read off their own functions, so it
    cannot say anything else than they do.
    """
    found = {cls.__name__: drawing for cls, drawing in draw.registry.items() if cls is not object}
    parts = [_options_of(name, drawing) for name, drawing in sorted(found.items())]
    plot.__doc__ = f"{inspect.getdoc(plot)}\n\nOptions, by the type of `obj`:\n" + "\n".join(parts)


def _options_of(name: str, drawing: Any) -> str:
    """Write what one function draws, and a line or more for each of its options."""
    text = inspect.getdoc(drawing) or ""
    first = f"{name}: {text.partition(chr(10))[0]}"
    lines = [fill(first, 96, initial_indent=" " * 4, subsequent_indent=" " * 8)]
    described = _arguments(text)
    for option in inspect.signature(drawing).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            words = f"{option.name}={option.default!r}: {described[option.name]}"
            lines.append(fill(words, 96, initial_indent=" " * 8, subsequent_indent=" " * 12))
    return "\n".join(lines)


def _arguments(text: str) -> dict[str, str]:
    """Read the section `Args` of a docstring: what is said about each name, in one line."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    entries = re.split(r"^    (?=\w)", section[1], flags=re.MULTILINE) if section else []
    pairs = [entry.partition(":") for entry in entries if entry.strip()]
    return {name.strip(): " ".join(words.split()) for name, _, words in pairs}
