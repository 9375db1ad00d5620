"""What is pickled of an object: not its cached properties, which may hold integers of flint."""

from functools import cached_property
from typing import Any


class WithoutCaches:
    """Objects that are pickled and copied without their cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }
