"""`plot(obj, ax=None)`: one function draws every object; each subject registers its own way."""

from functools import singledispatch
from typing import Any

from hardmax.errors import DtypeError


@singledispatch
def plot(obj: Any, ax: Any = None, **options: Any) -> Any:
    """Draw a diagram, a polytope, a sum or a polynomial, and return the matplotlib axes.

    Args:
        obj: What to draw. Its type decides how.
        ax: Axes to draw into (3-D axes for objects in space); made if None.
        **options: What the drawing of that type accepts, for example `box` for a diagram.

    Returns:
        The axes.

    Raises:
        DtypeError: If nothing is known about drawing such an object.
        ArgumentError: If the object's dimension cannot be drawn.
    """
    known = sorted(cls.__name__ for cls in plot.registry if cls is not object)
    raise DtypeError(f"`obj` must be one of {', '.join(known)}; got {type(obj).__name__}.")
