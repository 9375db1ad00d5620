"""`plot(obj, ax=None)`: one function draws every object; each subject registers its own way."""

import inspect
import re
from functools import singledispatch
from textwrap import fill
from typing import Any

from hardmax.errors import DtypeError


@singledispatch
def plot(obj: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a diagram, a polytope, a sum, a polynomial or a partition; return the matplotlib axes.

    Inside `with hm.plotting.house_style("dark"):` it is drawn on dark paper.

    Args:
        obj: What to draw. Its type decides how.
        ax: Axes to draw into (3-D axes for objects in space); made if None.
        **options: What the drawing of that type accepts; see the list below.

    Returns:
        The axes.

    Raises:
        DtypeError: If nothing is known about drawing such an object.
        ArgumentError: If the object's dimension cannot be drawn.

    Examples:
        >>> import hardmax as hm
        >>> diagram = hm.PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
        >>> ax = hm.plot(diagram, box=hm.Box([-2, -1], [2, 1]))
        >>> [float(x) for x in ax.get_xlim()]
        [-2.0, 2.0]
    """
    known = sorted(cls.__name__ for cls in plot.registry if cls is not object)
    raise DtypeError(f"`obj` must be one of {', '.join(known)}; got {type(obj).__name__}.")


def list_options() -> None:
    """Add to the documentation of `plot` what it can draw, and the options of each type.

    Called once, when all types are registered: the list is read off their own functions, so it
    cannot say anything else than they do.
    """
    found = {cls.__name__: draw for cls, draw in plot.registry.items() if cls is not object}
    parts = [_options_of(name, draw) for name, draw in sorted(found.items())]
    plot.__doc__ = f"{inspect.getdoc(plot)}\n\nOptions, by the type of `obj`:\n" + "\n".join(parts)


def _options_of(name: str, draw: Any) -> str:
    """Write what one function draws, and a line or more for each of its options."""
    text = inspect.getdoc(draw) or ""
    first = f"{name}: {text.partition(chr(10))[0]}"
    lines = [fill(first, 96, initial_indent=" " * 4, subsequent_indent=" " * 8)]
    described = _arguments(text)
    for option in inspect.signature(draw).parameters.values():
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
