"""Public names: imported on first use, with a hint if they are looked up in the wrong package.

A package lists its public names in its stub, `__init__.pyi`. Each name is exported from exactly one
package, `hardmax` itself or one of its subpackages. The error for a name that is looked up in
another package states where it is.
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
"""The modules that export public names."""


def attach(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def get_public(name: str) -> Any:
        return load(name) if name in names else raise_attribute_error(package, name)

    return get_public, listed, names


def raise_attribute_error(package: str, name: str) -> NoReturn:
    """Raise an AttributeError that states where a name is exported, if it is public.

    Examples:
        >>> raise_attribute_error("hardmax", "rotary_head")
        Traceback (most recent call last):
        AttributeError: hardmax has no attribute rotary_head: it is hardmax.models.rotary_head
        >>> raise_attribute_error("hardmax.models", "ReluNetwork")
        Traceback (most recent call last):
        AttributeError: hardmax.models has no attribute ReluNetwork: it is hardmax.ReluNetwork
        >>> raise_attribute_error("hardmax", "softmax")
        Traceback (most recent call last):
        AttributeError: hardmax has no attribute softmax
    """
    text = f"{package} has no attribute {name}"
    # The import system looks up a submodule as an attribute before it imports the submodule.
    if not name.startswith("_") and find_spec(f"{package}.{name}") is None:
        for home in PACKAGES:
            if name in import_module(home).__all__:
                text += f": it is {home}.{name}"
                break
    raise AttributeError(text)
