"""Pickling without cached properties, which may contain flint integers."""

from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_attribute(cached_property[Value], Generic[Value]):  # noqa: N801 (used as a decorator)
    """A cached property without the lock that Python uses before version 3.12.

    Two threads may both compute the value. For values that are fast to compute, this costs less
    than the lock.

    Examples:
        >>> class Square:
        ...     @cached_attribute
        ...     def area(self) -> float:
        ...         return 4.0
        >>> Square().area
        4.0
    """

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Value: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


class DropsCachesOnPickle:
    """A base class for objects that are pickled and copied without their cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }
