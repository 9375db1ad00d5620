"""A reader of pickles as data: a small stack machine for numbers, strings and containers.

A pickle is a program for a stack machine, and `pickle.load` calls any function that the program
names. Here a name is only a `GlobalName`: to "call" it, the machine passes the name and the
arguments to a callback, which accepts a few known names. No other name is looked up, imported or
called. Memory stays within a small multiple of the length of the pickle, because every length is
checked against the bytes that follow it, and the memo is a dictionary.
"""

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hardmax._ground.size_limits import MOST_TENSORS
from hardmax.errors import RecordFormatError

_MOST_OPERATIONS = 40 * MOST_TENSORS
"""A tensor of a state dict takes about thirty operations."""


@dataclass(frozen=True)
class GlobalName:
    """The name of a global in a pickle, such as `collections.OrderedDict`; never resolved."""

    dotted: str

    def __str__(self) -> str:
        return self.dotted


Call = Callable[[str, tuple[Any, ...]], Any]
"""Takes a name and arguments, and returns the object that the call constructs."""
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
    """Read one pickle at the current position of a stream, and move the stream behind it.

    Args:
        stream: The bytes.
        call: Returns the object that a name and its arguments construct, or raises.
        persistent: Returns the object for a persistent id, which refers to data stored elsewhere.
        build: Sets the state of an object that `call` returned.

    Raises:
        RecordFormatError: If the pickle is damaged, or uses an unsupported operation.

    Examples:
        >>> import pickle
        >>> def call(name, arguments):
        ...     raise RecordFormatError(f"`{name}` is not plain data")
        >>> read_pickle(io.BytesIO(pickle.dumps({"a": [1, 2.5], "b": ("x", None)})), call, str)
        {'a': [1, 2.5], 'b': ('x', None)}
        >>> read_pickle(io.BytesIO(pickle.dumps(print)), call, str)
        GlobalName(dotted='builtins.print')
    """
    machine = _PickleMachine(call, persistent, build)
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


class _PickleMachine:
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
        """Execute one operation, if it belongs to the supported operations for data."""
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
                stack.append(self._pop_to_mark())
            case "TUPLE":
                stack.append(tuple(self._pop_to_mark()))
            case "DICT":
                stack.append(_set_items({}, self._pop_to_mark()))
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop_items(_TUPLES[name])))
            case "APPEND" | "APPENDS":
                items = self._pop_to_mark() if name == "APPENDS" else [stack.pop()]
                _check_type(stack[-1], list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._pop_to_mark() if name == "SETITEMS" else self._pop_items(2)
                _set_items(_check_type(stack[-1], dict), items)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(GlobalName(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                module, attribute = self._pop_items(2)
                stack.append(
                    GlobalName(f"{_check_type(module, str)}.{_check_type(attribute, str)}")
                )
            case "REDUCE" | "NEWOBJ":
                called, arguments = self._pop_items(2)
                made = self._call(
                    _check_type(called, GlobalName).dotted, _check_type(arguments, tuple)
                )
                stack.append(made)
            case "BUILD":
                made, state = self._pop_items(2)
                self._build(made, state)
                stack.append(made)
            case "BINPERSID":
                stack.append(self._persistent(stack.pop()))
            case _:
                raise RecordFormatError(f"a pickle in it has the unsupported operation {name}")

    def _pop_items(self, n: int) -> list[Any]:
        if n > len(self._stack):
            raise ValueError("an operation takes more objects than the stack has")
        at = len(self._stack) - n
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _pop_to_mark(self) -> list[Any]:
        return self._pop_items(len(self._stack) - self._marks.pop())


def _set_items(target: dict[Any, Any], items: list[Any]) -> dict[Any, Any]:
    """Add alternating keys and values; keys must be strings or numbers, which hash quickly."""
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, str | int | float | GlobalName):
            raise ValueError(f"a key must be a string or a number; got {type(key).__name__}")
        target[key] = value
    return target


def _check_type(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"an object must be a {kind.__name__}; got {type(value).__name__}")
    return value
