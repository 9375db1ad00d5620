"""Public names: loaded on first use, and found again when asked for in the wrong place.

A package lists its public names in its stub, `__init__.pyi`. Each of them is public in one place,
in `hardmax` itself or in one package of it; asked for elsewhere, it is answered with that place.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

import lazy_loader

PACKAGES = (
    "hardmax",
    "hardmax.models",
    "hardmax.regions",
    "hardmax.bounds",
    "hardmax.bounds.paper",
    "hardmax.constructions",
    "hardmax.stability",
    "hardmax.geometry",
    "hardmax.tropical",
    "hardmax.exact",
    "hardmax.papers",
    "hardmax.plotting",
    "hardmax.surveys",
    "hardmax.explorer",
    "hardmax.errors",
    "hardmax.typing",
)
"""Where public names are."""


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def found(name: str) -> Any:
        return load(name) if name in names else refuse(package, name)

    return found, listed, names


def refuse(package: str, name: str) -> NoReturn:
    """Raise an AttributeError that says where a name is, if it is public at all.

    Examples:
        >>> refuse("hardmax", "rotary_head")
        Traceback (most recent call last):
        AttributeError: hardmax has no attribute rotary_head: it is hardmax.models.rotary_head
        >>> refuse("hardmax.models", "ReluNetwork")
        Traceback (most recent call last):
        AttributeError: hardmax.models has no attribute ReluNetwork: it is hardmax.ReluNetwork
        >>> refuse("hardmax", "softmax")
        Traceback (most recent call last):
        AttributeError: hardmax has no attribute softmax
    """
    text = f"{package} has no attribute {name}"
    # An import of a module asks first whether the package has it already.
    if not name.startswith("_") and find_spec(f"{package}.{name}") is None:
        for home in PACKAGES:
            if name in import_module(home).__all__:
                text += f": it is {home}.{name}"
                break
    raise AttributeError(text)
