"""Pickles read as data: a small machine that knows numbers, texts and containers.

A pickle is a program for a stack machine, and `pickle.load` calls whatever the program names. Here
a name is only a `Name`: what "calling" it means is up to the reader, who is given the name and the
arguments and knows a handful of them. Nothing is looked up, imported or called otherwise. Memory
stays within a small multiple of the length of the pickle: lengths are those of bytes that are
there, and a memo is a dictionary.
"""

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hardmax._ground.size_limits import MOST_TENSORS
from hardmax.errors import RecordFormatError

_MOST_OPERATIONS = 40 * MOST_TENSORS
"""A tensor of a state dict takes some thirty operations."""


@dataclass(frozen=True)
class Name:
    """What a pickle calls by name, such as `collections.OrderedDict`. It does nothing."""

    dotted: str

    def __str__(self) -> str:
        return self.dotted


Call = Callable[[str, tuple[Any, ...]], Any]
"""What a call of a name with arguments stands for."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    )
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(
    stream: io.BytesIO,
    call: Call,
    persistent: Callable[[Any], Any],
    build: Callable[[Any, Any], None] = lambda made, state: None,
) -> Any:
    """Read one pickle from where a stream stands; the stream stands behind it afterwards.

    Args:
        stream: The bytes.
        call: Returns what a name and its arguments stand for, or refuses them.
        persistent: Returns what stands for an object that is stored elsewhere.
        build: Takes the state of an object that `call` made.

    Raises:
        RecordFormatError: If the pickle is damaged, or does something else.

    Examples:
        >>> import pickle
        >>> def call(name, arguments):
        ...     raise RecordFormatError(f"`{name}` is not plain data")
        >>> read_pickle(io.BytesIO(pickle.dumps({"a": [1, 2.5], "b": ("x", None)})), call, str)
        {'a': [1, 2.5], 'b': ('x', None)}
        >>> read_pickle(io.BytesIO(pickle.dumps(print)), call, str)
        Name(dotted='builtins.print')
    """
    machine = _Machine(call, persistent, build)
    try:
        for n, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if n > _MOST_OPERATIONS:
                raise RecordFormatError(
                    f"a pickle in it must have at most {_MOST_OPERATIONS:,} operations"
                )
            if opcode.name == "STOP":
                break
            machine.step(opcode.name, argument)
        return machine.result()
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, RecordFormatError):
            raise
        reason = f"{type(error).__name__}: {error!s:.100}"
        raise RecordFormatError(f"a pickle in it is damaged: {reason}") from None


class _Machine:
    """The stack, the marks on it, and the memo of a pickle."""

    def __init__(
        self, call: Call, persistent: Callable[[Any], Any], build: Callable[[Any, Any], None]
    ) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._call, self._persistent, self._build = call, persistent, build

    def result(self) -> Any:
        if len(self._stack) != 1:
            raise ValueError("it does not end with one object")
        return self._stack[0]

    def step(self, name: str, argument: Any) -> None:
        """Do what one operation says, if it is one of those for data."""
        stack, memo = self._stack, self._memo
        match name:
            case "PROTO" | "FRAME":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append(_CONSTANTS[name])
            case _ if name in _LITERALS:
                stack.append(argument)
            case "MARK":
                self._marks.append(len(stack))
            case "POP":
                stack.pop()
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "LIST":
                stack.append(self._above_mark())
            case "TUPLE":
                stack.append(tuple(self._above_mark()))
            case "DICT":
                stack.append(_filled({}, self._above_mark()))
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._popped(_TUPLES[name])))
            case "APPEND" | "APPENDS":
                items = self._above_mark() if name == "APPENDS" else [stack.pop()]
                _of_type(stack[-1], list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._above_mark() if name == "SETITEMS" else self._popped(2)
                _filled(_of_type(stack[-1], dict), items)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(Name(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                module, attribute = self._popped(2)
                stack.append(Name(f"{_of_type(module, str)}.{_of_type(attribute, str)}"))
            case "REDUCE" | "NEWOBJ":
                called, arguments = self._popped(2)
                made = self._call(_of_type(called, Name).dotted, _of_type(arguments, tuple))
                stack.append(made)
            case "BUILD":
                made, state = self._popped(2)
                self._build(made, state)
                stack.append(made)
            case "BINPERSID":
                stack.append(self._persistent(stack.pop()))
            case _:
                raise RecordFormatError(f"a pickle in it has the operation {name}, not read here")

    def _popped(self, n: int) -> list[Any]:
        if n > len(self._stack):
            raise ValueError("it takes more than there is")
        at = len(self._stack) - n
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _above_mark(self) -> list[Any]:
        return self._popped(len(self._stack) - self._marks.pop())


def _filled(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    """Add keys and values in turn; a key is a text or a number, which hash at once."""
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, str | int | float | Name):
            raise ValueError(f"a key is a {type(key).__name__}")
        target[key] = value
    return target


def _of_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {kind.__name__} is needed in place of a {type(value).__name__}")
    return value
