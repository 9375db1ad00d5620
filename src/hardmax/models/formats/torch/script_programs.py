"""The programs of TorchScript archives, read line by line as text and never run.

TorchScript is written in the syntax of Python. The text of `forward` is followed from its input to
what it returns, through the modules and functions it calls. A chain of affine maps and activations
is read as such (`script_steps`); with the shape of one input, whatever is piecewise linear is read
as a network of any shape (`script_graph`). Modules are evaluated, not trained: `training` is false.
"""

import ast
import io
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.formats.graph_operations import Traced, added, divided, multiplied
from hardmax.models.formats.layered_networks import Step
from hardmax.models.formats.torch.operations import Signal, apply_operation
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    read_script_archive,
)
from hardmax.models.formats.torch.tensor_operations import apply_tensor_operation, traced_tensors
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork

_MOST_STEPS = 500_000
"""How many statements and expressions are followed."""
_MOST_CALLS = 100


@dataclass(frozen=True)
class _Name:
    """A dotted name that is not a value: `torch.relu`, `__torch__.torch.nn.functional`."""

    dotted: str


@dataclass(frozen=True, eq=False)
class _Method:
    module: ScriptModule
    name: str


class _Tensors(Protocol):
    """What a walk does with the tensors that depend on the input."""

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether one of the values depends on the input."""

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        """Apply an operation of torch."""

    def fold(self, name: str, left: Any, right: Any) -> Any:
        """Apply an operation to constants, one of them an array."""


def script_steps(
    source: str | os.PathLike[str] | io.BytesIO, limit: SizeLimit | None = None
) -> list[Step]:
    """Return the affine maps and activations of a scripted or traced module, in order.

    Args:
        source: A file that `torch.jit.save` wrote, or its content.
        limit: The limit on what the steps may take; None for the one of its size.

    Raises:
        RecordFormatError: If it is no such file, or its program does something else; the message
            names the operation and the line.
    """
    archive = read_script_archive(source)
    limit = SizeLimit(archive.n_bytes) if limit is None else limit
    result = _walked(archive, _Chain(), Signal(limit=limit))
    if not isinstance(result, Signal):
        raise RecordFormatError("`forward` must return one tensor that depends on its input.")
    return list(result.steps)


def script_graph(
    archive: ScriptArchive,
    input_shape: Sequence[int],
    limit: SizeLimit,
    build: GraphBuilder | None = None,
) -> GraphNetwork:
    """Read a scripted or traced module as a network of any shape, as it is evaluated.

    Args:
        archive: The archive.
        input_shape: The shape of one input, without the batch.
        limit: The limit on what its nodes may take.
        build: An empty builder to use; by default, a new `GraphBuilder`.

    Raises:
        RecordFormatError: If its program does something that is not piecewise linear; the message
            names the operation and the line.
    """
    build = GraphBuilder() if build is None else build
    build.limit = limit
    start = Traced(build.input(input_shape)[np.newaxis])
    result = _walked(archive, _Graph(build), start)
    if not isinstance(result, Traced):
        raise RecordFormatError("`forward` must return one tensor that depends on its input.")
    if result.left_off:
        build.note(f"{result.left_off} at the end is left off")
    slots = result.slots
    return build.finish(slots[0] if slots.ndim > 1 and slots.shape[0] == 1 else slots)


def _walked(archive: ScriptArchive, tensors: _Tensors, start: Any) -> Any:
    """Follow `forward` from its input to what it returns."""
    try:
        return _Walk(archive, tensors).call(_Method(archive.root, "forward"), [start], {})
    except RecursionError:
        raise RecordFormatError("its program is nested too deeply.") from None


class _Chain:
    """Affine maps and activations one after another."""

    def holds(self, values: Sequence[Any]) -> bool:
        return any(isinstance(value, Signal) for value in values)

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        return apply_operation(name, arguments, named)

    def fold(self, name: str, left: Any, right: Any) -> Any:
        raise RecordFormatError(f"`torch.{name}` of constants is not read.")


class _Graph:
    """Tensors of any shape, as slots of a network that is built."""

    def __init__(self, build: GraphBuilder) -> None:
        self._build = build
        self._overwritten = np.zeros(0, dtype=np.bool_)

    def holds(self, values: Sequence[Any]) -> bool:
        return bool(traced_tensors(values))

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        read = traced_tensors([*arguments, *named.values()])
        self._build.limit.take(_STEP_BYTES + 8 * sum(tensor.slots.size for tensor in read))
        for tensor in read:
            self._refuse_overwritten(tensor)
        if name in ("size", "dim", "len", "numel"):
            return self._measured(name, *arguments)
        word = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        try:
            found = apply_tensor_operation(self._build, word, at, arguments, named)
        except HardmaxError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecordFormatError(f"`{name}` does not fit what it is given: {error}") from None
        if word != name and isinstance(found, Traced) and isinstance(arguments[0], Traced):
            self._overwrite(arguments[0], found)
        return found

    def fold(self, name: str, left: Any, right: Any) -> Any:
        if name not in _FOLDED:
            raise RecordFormatError(f"`torch.{name}` of constants is not read.")
        return _FOLDED[name](self._build, left, right)

    def _measured(self, name: str, tensor: Traced, axis: int | None = None) -> Any:
        if name in ("dim", "numel"):
            return len(tensor.shape) if name == "dim" else tensor.slots.size
        if name == "len":
            return tensor.shape[0]
        return list(tensor.shape) if axis is None else tensor.shape[axis]

    def _overwrite(self, old: Traced, new: Traced) -> None:
        """Note what an operation in place has replaced: all that shares its slots, as views do."""
        slots = np.setdiff1d(old.slots, new.slots)
        if not slots.size:
            return
        grown = np.zeros(max(len(self._overwritten), int(slots.max()) + 1), dtype=np.bool_)
        grown[: len(self._overwritten)] = self._overwritten
        grown[slots] = True
        self._overwritten = grown

    def _refuse_overwritten(self, tensor: Traced) -> None:
        known = tensor.slots[tensor.slots < len(self._overwritten)]
        if self._overwritten[known].any():
            raise RecordFormatError("a tensor is read after an operation in place has changed it.")


_STEP_BYTES = 1 << 12
_FOLDED: dict[str, Callable[..., Any]] = {
    "add": added,
    "sub": lambda build, a, b: added(build, a, b, -1.0),
    "mul": multiplied,
    "div": divided,
}


class _Walk:
    """One walk along a program."""

    def __init__(self, archive: ScriptArchive, tensors: _Tensors) -> None:
        self._archive = archive
        self._tensors = tensors
        self._left = _MOST_STEPS
        self._depth = 0
        self._line = 0
        self._parsed = cache(self._parse)
        self._constants = {f"c{i}": value for i, value in enumerate(archive.constants)}

    def call(self, target: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Follow a call of a method, a function of the archive, or an operation."""
        if isinstance(target, _Method):
            function = self._definition(target.module.qualified_name, target.name)
            return self._inside(function, [target.module, *arguments], named)
        if not isinstance(target, _Name):
            raise RecordFormatError("it calls something that is no function.")
        if target.dotted.startswith("__torch__."):
            return self._inside(self._definition(target.dotted, None), arguments, named)
        return self._operation(target.dotted, arguments, named)

    def _definition(self, dotted: str, method: str | None) -> ast.FunctionDef:
        place, _, name = dotted.rpartition(".")
        found = self._parsed(place).get((name, method))
        if found is None:
            raise RecordFormatError(f"it has no program for `{dotted:.100}`.")
        return found

    def _parse(self, place: str) -> dict[tuple[str, str | None], ast.FunctionDef]:
        """Return the functions and methods of a program by name, and by class and name."""
        source = self._archive.sources.get(place)
        if source is None:
            raise RecordFormatError(f"it has no program `{place}`.")
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError, MemoryError) as error:
            raise RecordFormatError(f"its program `{place}` cannot be read: {error}.") from None
        found: dict[tuple[str, str | None], ast.FunctionDef] = {}
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                found.setdefault((statement.name, None), statement)
            elif isinstance(statement, ast.ClassDef):
                for inner in statement.body:
                    if isinstance(inner, ast.FunctionDef):
                        found.setdefault((statement.name, inner.name), inner)
        return found

    def _inside(
        self, function: ast.FunctionDef, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        names = [argument.arg for argument in function.args.args]
        self._count(len(names))
        defaults = function.args.defaults
        values = dict(
            zip(names[len(names) - len(defaults) :], map(self._literal, defaults), strict=True)
        )
        values.update(zip(names, arguments, strict=False))
        values.update(named)
        if set(values) != set(names) or len(arguments) > len(names):
            raise RecordFormatError(f"`{function.name}` is called with other arguments.")
        self._depth += 1
        if self._depth > _MOST_CALLS:
            raise RecordFormatError("its program is nested too deeply.")
        result = self._block(function.body, values)
        self._depth -= 1
        return None if result is None else result[0]

    def _block(self, statements: list[ast.stmt], values: dict[str, Any]) -> tuple[Any] | None:
        """Follow statements; a tuple with the result if they return."""
        for statement in statements:
            self._count(1)
            match statement:
                case ast.Return(value=value):
                    return (None if value is None else self._value(value, values),)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = self._value(value, values)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    self._unpack(statement, names, self._value(value, values), values)
                case ast.For(target=ast.Name(id=name), iter=listed, body=body, orelse=[]):
                    for item in self._items(statement, self._value(listed, values)):
                        self._count(1)
                        values[name] = item
                        result = self._block(body, values)
                        if result is not None:
                            return result
                case ast.If(test=test, body=body, orelse=other):
                    decided = self._value(test, values)
                    if not isinstance(decided, bool):
                        raise _at(statement, "a branch depends on the input")
                    result = self._block(body if decided else other, values)
                    if result is not None:
                        return result
                case ast.Pass():
                    pass
                case ast.Expr(value=value):
                    self._value(value, values)
                case _:
                    word = type(statement).__name__.lower()
                    raise _at(statement, f"a statement `{word}` is not read")
        return None

    def _unpack(
        self, statement: ast.stmt, names: list[ast.expr], found: Any, values: dict[str, Any]
    ) -> None:
        if not isinstance(found, list | tuple) or len(found) != len(names):
            raise _at(statement, "it takes apart something else than so many values")
        for name, item in zip(names, found, strict=True):
            if not isinstance(name, ast.Name):
                raise _at(statement, "nested tuples are not read")
            values[name.id] = item

    def _items(self, statement: ast.stmt, found: Any) -> Sequence[Any]:
        if not isinstance(found, list | tuple | range):
            raise _at(statement, "a loop over something else than a list or a range is not read")
        return found

    def _count(self, n_steps: int) -> None:
        self._left -= n_steps
        if self._left < 0:
            raise RecordFormatError("its program is too long.")

    def _value(self, node: ast.expr, values: dict[str, Any]) -> Any:
        self._count(1)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return values[name] if name in values else _Name(name)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(node, self._value(owner, values), name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number = self._value(operand, values)
                if isinstance(number, int | float):
                    return -number
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, values) for item in items]
            case ast.Subscript(value=owner, slice=index):
                listed, at = self._value(owner, values), self._value(index, values)
                if isinstance(listed, list | tuple) and isinstance(at, int):
                    if not -len(listed) <= at < len(listed):
                        raise _at(node, "an index is out of range")
                    return listed[at]
            case ast.Call(func=ast.Name(id="annotate" | "unchecked_cast"), args=[_, value]):
                return self._value(value, values)
            case ast.Call(
                func=ast.Name(id="int" | "float" | "bool" | "range" as word), args=arguments
            ):
                return self._plain(node, word, [self._value(a, values) for a in arguments])
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name))]):
                return self._attribute(node, self._value(owner, values), name)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                target = self._value(function, values)
                given = [self._value(argument, values) for argument in arguments]
                named = {str(k.arg): self._value(k.value, values) for k in keywords}
                self._line = node.lineno
                try:
                    return self.call(target, given, named)
                except RecordFormatError:
                    raise
                except HardmaxError as error:
                    raise _at(node, str(error).rstrip(".")) from None
        raise _at(node, f"`{ast.unparse(node):.60}` is not read")

    def _attribute(self, node: ast.expr, owner: Any, name: str) -> Any:
        if isinstance(owner, _Name):
            if owner.dotted == "CONSTANTS" and name in self._constants:
                return self._constants[name]
            return _Name(f"{owner.dotted}.{name}")
        if isinstance(owner, ScriptModule):
            if name == "training":
                return False
            if name in owner.attributes:
                return owner.attributes[name]
            return _Method(owner, name)
        raise _at(node, f"`.{name:.40}` is not read")

    def _literal(self, node: ast.expr) -> Any:
        return self._value(node, {})

    def _plain(self, node: ast.expr, word: str, given: list[Any]) -> Any:
        """A conversion of a number, or a range."""
        if not given or not all(type(value) in (int, float, bool) for value in given):
            raise _at(node, f"`{word}` of something else than numbers is not read")
        if word != "range":
            return {"int": int, "float": float, "bool": bool}[word](given[0])
        try:
            return range(*given)
        except (TypeError, ValueError) as error:
            raise _at(node, str(error)) from None

    def _operation(self, dotted: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        """An operation of torch: on tensors that depend on the input, or on constants."""
        space, _, name = dotted.rpartition(".")
        if space not in ("torch", "ops.aten", "ops.prim"):
            raise RecordFormatError(f"`{dotted:.60}` is not read.")
        if name == "NumToTensor" and len(arguments) == 1:
            return arguments[0]
        if name in ("__is__", "__isnot__") and len(arguments) == 2:
            return (arguments[0] is arguments[1]) == (name == "__is__")
        if name == "RaiseException":
            raise RecordFormatError(f"it raises: {arguments[0] if arguments else ''!s:.200}")
        if self._tensors.holds([*arguments, *named.values()]):
            return self._tensors.apply(name, arguments, named, f"{name}_{self._line}")
        if name.endswith("_") and not name.startswith("_"):
            raise RecordFormatError(
                f"`{name}` changes the state of the module, as training does; script or trace it "
                "after `module.eval()`."
            )
        if len(arguments) == 1 and isinstance(arguments[0], np.ndarray):
            return _of_array(name, arguments[0])
        if arguments and all(type(x) in (int, float, bool) for x in arguments):
            return _of_numbers(name, arguments)
        if name == "len" and isinstance(arguments[0], list | tuple):
            return len(arguments[0])
        if name == "format":
            return arguments[0]
        if len(arguments) == 2 and isinstance(arguments[0], list) and name in ("eq", "ne"):
            return (arguments[0] == arguments[1]) == (name == "eq")
        numbers = [x for x in arguments[:2] if isinstance(x, np.ndarray | int | float)]
        if len(numbers) == 2 and not named and arguments[2:] in ([], [1]):
            return self._tensors.fold(name, *numbers)
        raise RecordFormatError(f"`{dotted:.60}` is not read.")


def _of_array(name: str, array: Any) -> Any:
    """A property of a constant array, or the array with its axes moved."""
    if name in ("t", "numpy_T"):
        return cast(Any, array.T)
    if name in ("detach", "contiguous"):
        return array
    if name in ("size", "dim"):
        return list(array.shape) if name == "size" else array.ndim
    raise RecordFormatError(f"`torch.{name:.60}` is not read.")


def _of_numbers(name: str, numbers: list[Any]) -> Any:
    """The value of an operation on numbers."""
    if name not in _ON_NUMBERS or len(numbers) != _ON_NUMBERS[name][0]:
        raise RecordFormatError(f"`torch.{name:.60}` is not read.")
    if any(isinstance(x, int) and abs(x) >> 64 for x in numbers):
        raise RecordFormatError("an integer is too large.")
    try:
        return _ON_NUMBERS[name][1](*numbers)
    except (ArithmeticError, ValueError) as error:
        raise RecordFormatError(f"`torch.{name}`: {error}.") from None


_ON_NUMBERS: dict[str, tuple[int, Callable[..., Any]]] = {
    "gt": (2, operator.gt),
    "ge": (2, operator.ge),
    "lt": (2, operator.lt),
    "le": (2, operator.le),
    "eq": (2, operator.eq),
    "ne": (2, operator.ne),
    "add": (2, operator.add),
    "sub": (2, operator.sub),
    "mul": (2, operator.mul),
    "div": (2, operator.truediv),
    "floordiv": (2, operator.floordiv),
    "remainder": (2, operator.mod),
    "neg": (1, operator.neg),
    "__not__": (1, operator.not_),
    "__and__": (2, lambda a, b: a and b),
    "__or__": (2, lambda a, b: a or b),
}


def _at(node: ast.stmt | ast.expr, reason: str) -> RecordFormatError:
    return RecordFormatError(f"in line {node.lineno} of its program: {reason}.")
