"""An interpreter for the programs of TorchScript archives, which are parsed but never executed.

TorchScript has the syntax of Python. The interpreter follows the source of `forward` from its input
to its result, through the modules and functions that it calls. A program can be read as a chain of
affine maps and activations (`read_script_steps`) or, given the shape of one input, as a piecewise
linear network of any shape (`read_script_graph`). Modules are in evaluation mode: `training` is
false.
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
from hardmax.models.formats.graph_operations import Tensor, add, divide, multiply
from hardmax.models.formats.layered_networks import Step
from hardmax.models.formats.torch.operations import Signal, apply_operation
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    read_script_archive,
)
from hardmax.models.formats.torch.tensor_operations import (
    apply_tensor_operation,
    find_traced_tensors,
)
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork

_MOST_STEPS = 500_000
"""The maximum number of statements and expressions to interpret."""
_MOST_CALLS = 100


@dataclass(frozen=True)
class _DottedName:
    """A dotted name that is not a value: `torch.relu`, `__torch__.torch.nn.functional`."""

    dotted: str


@dataclass(frozen=True, eq=False)
class _BoundMethod:
    module: ScriptModule
    name: str


class _TensorBackend(Protocol):
    """The operations on tensors that depend on the input."""

    def depend_on_input(self, values: Sequence[Any]) -> bool:
        """Whether one of the values depends on the input."""

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        """Apply an operation of torch."""

    def fold_constants(self, name: str, left: Any, right: Any) -> Any:
        """Apply an operation to constants, at least one of which is an array."""


def read_script_steps(
    source: str | os.PathLike[str] | io.BytesIO, limit: SizeLimit | None = None
) -> list[Step]:
    """Return the affine maps and activations of a scripted or traced module, in order.

    Args:
        source: A file that `torch.jit.save` wrote, or its content.
        limit: The limit on the memory of the steps; None for the default limit of the file's size.

    Raises:
        RecordFormatError: If the file is damaged or has another format, or its program is not such
            a chain; the message names the operation and the line.
    """
    archive = read_script_archive(source)
    limit = SizeLimit(archive.n_bytes) if limit is None else limit
    result = _follow_forward(archive, _ChainBackend(), Signal(limit=limit))
    if not isinstance(result, Signal):
        raise RecordFormatError("`forward` must return one tensor that depends on its input.")
    return list(result.steps)


def read_script_graph(
    archive: ScriptArchive,
    input_shape: Sequence[int],
    limit: SizeLimit,
    build: GraphBuilder | None = None,
) -> GraphNetwork:
    """Read a scripted or traced module as a network of any shape, in evaluation mode.

    Args:
        archive: The archive.
        input_shape: The shape of one input, without the batch axis.
        limit: The limit on the memory of the nodes.
        build: An empty builder to use; by default, a new `GraphBuilder`.

    Raises:
        RecordFormatError: If an operation of the program is not piecewise linear; the message names
            the operation and the line.
    """
    build = GraphBuilder() if build is None else build
    build.limit = limit
    start = Tensor(build.input(input_shape)[np.newaxis])
    result = _follow_forward(archive, _GraphBackend(build), start)
    if not isinstance(result, Tensor):
        raise RecordFormatError("`forward` must return one tensor that depends on its input.")
    if result.omitted:
        build.note(f"the final {result.omitted} is omitted")
    slots = result.slots
    return build.finish(slots[0] if slots.ndim > 1 and slots.shape[0] == 1 else slots)


def _follow_forward(archive: ScriptArchive, tensors: _TensorBackend, start: Any) -> Any:
    """Interpret `forward`, and return its result for the given input."""
    try:
        return _Interpreter(archive, tensors).call(
            _BoundMethod(archive.root, "forward"), [start], {}
        )
    except RecursionError:
        raise RecordFormatError("its program is nested too deeply.") from None


class _ChainBackend:
    """A backend for chains of affine maps and activations."""

    def depend_on_input(self, values: Sequence[Any]) -> bool:
        return any(isinstance(value, Signal) for value in values)

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        return apply_operation(name, arguments, named)

    def fold_constants(self, name: str, left: Any, right: Any) -> Any:
        raise RecordFormatError(f"`torch.{name}` of constants is not supported.")


class _GraphBackend:
    """A backend that builds a network of any shape; tensors are slots of the network."""

    def __init__(self, build: GraphBuilder) -> None:
        self._build = build
        self._overwritten = np.zeros(0, dtype=np.bool_)

    def depend_on_input(self, values: Sequence[Any]) -> bool:
        return bool(find_traced_tensors(values))

    def apply(self, name: str, arguments: list[Any], named: dict[str, Any], at: str) -> Any:
        read = find_traced_tensors([*arguments, *named.values()])
        self._build.limit.take(_STEP_BYTES + 8 * sum(tensor.slots.size for tensor in read))
        for tensor in read:
            self._refuse_overwritten(tensor)
        if name in ("size", "dim", "len", "numel"):
            return self._measure(name, *arguments)
        word = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        try:
            found = apply_tensor_operation(self._build, word, at, arguments, named)
        except HardmaxError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecordFormatError(f"`{name}` has invalid arguments: {error}") from None
        if word != name and isinstance(found, Tensor) and isinstance(arguments[0], Tensor):
            self._overwrite(arguments[0], found)
        return found

    def fold_constants(self, name: str, left: Any, right: Any) -> Any:
        if name not in _FOLDED:
            raise RecordFormatError(f"`torch.{name}` of constants is not supported.")
        return _FOLDED[name](self._build, left, right)

    def _measure(self, name: str, tensor: Tensor, axis: int | None = None) -> Any:
        if name in ("dim", "numel"):
            return len(tensor.shape) if name == "dim" else tensor.slots.size
        if name == "len":
            return tensor.shape[0]
        return list(tensor.shape) if axis is None else tensor.shape[axis]

    def _overwrite(self, old: Tensor, new: Tensor) -> None:
        """Record the slots that an in-place operation has replaced, including slots of views."""
        slots = np.setdiff1d(old.slots, new.slots)
        if not slots.size:
            return
        grown = np.zeros(max(len(self._overwritten), int(slots.max()) + 1), dtype=np.bool_)
        grown[: len(self._overwritten)] = self._overwritten
        grown[slots] = True
        self._overwritten = grown

    def _refuse_overwritten(self, tensor: Tensor) -> None:
        known = tensor.slots[tensor.slots < len(self._overwritten)]
        if self._overwritten[known].any():
            raise RecordFormatError("a tensor is read after an in-place operation has changed it.")


_STEP_BYTES = 1 << 12
_FOLDED: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": lambda build, a, b: add(build, a, b, -1.0),
    "mul": multiply,
    "div": divide,
}


class _Interpreter:
    """An interpreter for one run of a program."""

    def __init__(self, archive: ScriptArchive, tensors: _TensorBackend) -> None:
        self._archive = archive
        self._tensors = tensors
        self._left = _MOST_STEPS
        self._depth = 0
        self._line = 0
        self._parsed = cache(self._parse)
        self._constants = {f"c{i}": value for i, value in enumerate(archive.constants)}

    def call(self, target: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Call a method, a function of the archive, or an operation."""
        if isinstance(target, _BoundMethod):
            function = self._find_definition(target.module.qualified_name, target.name)
            return self._run_function(function, [target.module, *arguments], named)
        if not isinstance(target, _DottedName):
            raise RecordFormatError("it calls an object that is not a function.")
        if target.dotted.startswith("__torch__."):
            return self._run_function(self._find_definition(target.dotted, None), arguments, named)
        return self._apply_operation(target.dotted, arguments, named)

    def _find_definition(self, dotted: str, method: str | None) -> ast.FunctionDef:
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
            raise RecordFormatError(f"its program `{place}` cannot be parsed: {error}.") from None
        found: dict[tuple[str, str | None], ast.FunctionDef] = {}
        for statement in body:
            if isinstance(statement, ast.FunctionDef):
                found.setdefault((statement.name, None), statement)
            elif isinstance(statement, ast.ClassDef):
                for inner in statement.body:
                    if isinstance(inner, ast.FunctionDef):
                        found.setdefault((statement.name, inner.name), inner)
        return found

    def _run_function(
        self, function: ast.FunctionDef, arguments: list[Any], named: dict[str, Any]
    ) -> Any:
        names = [argument.arg for argument in function.args.args]
        self._count_steps(len(names))
        defaults = function.args.defaults
        values = dict(
            zip(
                names[len(names) - len(defaults) :],
                map(self._evaluate_default, defaults),
                strict=True,
            )
        )
        values.update(zip(names, arguments, strict=False))
        values.update(named)
        if set(values) != set(names) or len(arguments) > len(names):
            raise RecordFormatError(f"`{function.name}` is called with the wrong arguments.")
        self._depth += 1
        if self._depth > _MOST_CALLS:
            raise RecordFormatError("its program is nested too deeply.")
        result = self._run_block(function.body, values)
        self._depth -= 1
        return None if result is None else result[0]

    def _run_block(self, statements: list[ast.stmt], values: dict[str, Any]) -> tuple[Any] | None:
        """Run statements; return a tuple with the result if they return, otherwise None."""
        for statement in statements:
            self._count_steps(1)
            match statement:
                case ast.Return(value=value):
                    return (None if value is None else self._evaluate(value, values),)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = self._evaluate(value, values)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    self._unpack(statement, names, self._evaluate(value, values), values)
                case ast.For(target=ast.Name(id=name), iter=listed, body=body, orelse=[]):
                    for item in self._check_iterable(statement, self._evaluate(listed, values)):
                        self._count_steps(1)
                        values[name] = item
                        result = self._run_block(body, values)
                        if result is not None:
                            return result
                case ast.If(test=test, body=body, orelse=other):
                    decided = self._evaluate(test, values)
                    if not isinstance(decided, bool):
                        raise _error_at(statement, "a branch depends on the input")
                    result = self._run_block(body if decided else other, values)
                    if result is not None:
                        return result
                case ast.Pass():
                    pass
                case ast.Expr(value=value):
                    self._evaluate(value, values)
                case _:
                    word = type(statement).__name__.lower()
                    raise _error_at(statement, f"the statement `{word}` is not supported")
        return None

    def _unpack(
        self, statement: ast.stmt, names: list[ast.expr], found: Any, values: dict[str, Any]
    ) -> None:
        if not isinstance(found, list | tuple) or len(found) != len(names):
            raise _error_at(statement, f"a tuple of {len(names)} values is required")
        for name, item in zip(names, found, strict=True):
            if not isinstance(name, ast.Name):
                raise _error_at(statement, "nested tuples are not supported")
            values[name.id] = item

    def _check_iterable(self, statement: ast.stmt, found: Any) -> Sequence[Any]:
        if not isinstance(found, list | tuple | range):
            raise _error_at(statement, "loops are only supported over lists and ranges")
        return found

    def _count_steps(self, n_steps: int) -> None:
        self._left -= n_steps
        if self._left < 0:
            raise RecordFormatError("its program is too long.")

    def _evaluate(self, node: ast.expr, values: dict[str, Any]) -> Any:
        self._count_steps(1)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return values[name] if name in values else _DottedName(name)
            case ast.Attribute(value=owner, attr=name):
                return self._get_attribute(node, self._evaluate(owner, values), name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number = self._evaluate(operand, values)
                if isinstance(number, int | float):
                    return -number
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._evaluate(item, values) for item in items]
            case ast.Subscript(value=owner, slice=index):
                listed, at = self._evaluate(owner, values), self._evaluate(index, values)
                if isinstance(listed, list | tuple) and isinstance(at, int):
                    if not -len(listed) <= at < len(listed):
                        raise _error_at(node, "an index is out of range")
                    return listed[at]
            case ast.Call(func=ast.Name(id="annotate" | "unchecked_cast"), args=[_, value]):
                return self._evaluate(value, values)
            case ast.Call(
                func=ast.Name(id="int" | "float" | "bool" | "range" as word), args=arguments
            ):
                return self._convert_number(
                    node, word, [self._evaluate(a, values) for a in arguments]
                )
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name))]):
                return self._get_attribute(node, self._evaluate(owner, values), name)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                target = self._evaluate(function, values)
                given = [self._evaluate(argument, values) for argument in arguments]
                named = {str(k.arg): self._evaluate(k.value, values) for k in keywords}
                self._line = node.lineno
                try:
                    return self.call(target, given, named)
                except RecordFormatError:
                    raise
                except HardmaxError as error:
                    raise _error_at(node, str(error).rstrip(".")) from None
        raise _error_at(node, f"`{ast.unparse(node):.60}` is not supported")

    def _get_attribute(self, node: ast.expr, owner: Any, name: str) -> Any:
        if isinstance(owner, _DottedName):
            if owner.dotted == "CONSTANTS" and name in self._constants:
                return self._constants[name]
            return _DottedName(f"{owner.dotted}.{name}")
        if isinstance(owner, ScriptModule):
            if name == "training":
                return False
            if name in owner.attributes:
                return owner.attributes[name]
            return _BoundMethod(owner, name)
        raise _error_at(node, f"`.{name:.40}` is not supported")

    def _evaluate_default(self, node: ast.expr) -> Any:
        return self._evaluate(node, {})

    def _convert_number(self, node: ast.expr, word: str, given: list[Any]) -> Any:
        """Convert a number, or return a range."""
        if not given or not all(type(value) in (int, float, bool) for value in given):
            raise _error_at(node, f"`{word}` is only supported for numbers")
        if word != "range":
            return {"int": int, "float": float, "bool": bool}[word](given[0])
        try:
            return range(*given)
        except (TypeError, ValueError) as error:
            raise _error_at(node, str(error)) from None

    def _apply_operation(self, dotted: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Apply an operation of torch to tensors that depend on the input, or to constants."""
        space, _, name = dotted.rpartition(".")
        if space not in ("torch", "ops.aten", "ops.prim"):
            raise RecordFormatError(f"`{dotted:.60}` is not supported.")
        if name == "NumToTensor" and len(arguments) == 1:
            return arguments[0]
        if name in ("__is__", "__isnot__") and len(arguments) == 2:
            return (arguments[0] is arguments[1]) == (name == "__is__")
        if name == "RaiseException":
            raise RecordFormatError(f"it raises: {arguments[0] if arguments else ''!s:.200}")
        if self._tensors.depend_on_input([*arguments, *named.values()]):
            return self._tensors.apply(name, arguments, named, f"{name}_{self._line}")
        if name.endswith("_") and not name.startswith("_"):
            raise RecordFormatError(
                f"`{name}` changes the state of the module, as in training; script or trace the "
                "module after `module.eval()`."
            )
        if len(arguments) == 1 and isinstance(arguments[0], np.ndarray):
            return _apply_to_array(name, arguments[0])
        if arguments and all(type(x) in (int, float, bool) for x in arguments):
            return _apply_to_numbers(name, arguments)
        if name == "len" and isinstance(arguments[0], list | tuple):
            return len(arguments[0])
        if name == "format":
            return arguments[0]
        if len(arguments) == 2 and isinstance(arguments[0], list) and name in ("eq", "ne"):
            return (arguments[0] == arguments[1]) == (name == "eq")
        numbers = [x for x in arguments[:2] if isinstance(x, np.ndarray | int | float)]
        if len(numbers) == 2 and not named and arguments[2:] in ([], [1]):
            return self._tensors.fold_constants(name, *numbers)
        raise RecordFormatError(f"`{dotted:.60}` is not supported.")


def _apply_to_array(name: str, array: Any) -> Any:
    """Return a property of a constant array, or the array with its axes permuted."""
    if name in ("t", "numpy_T"):
        return cast(Any, array.T)
    if name in ("detach", "contiguous"):
        return array
    if name in ("size", "dim"):
        return list(array.shape) if name == "size" else array.ndim
    raise RecordFormatError(f"`torch.{name:.60}` is not supported.")


def _apply_to_numbers(name: str, numbers: list[Any]) -> Any:
    """Return the value of an operation on numbers."""
    if name not in _ON_NUMBERS or len(numbers) != _ON_NUMBERS[name][0]:
        raise RecordFormatError(f"`torch.{name:.60}` is not supported.")
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


def _error_at(node: ast.stmt | ast.expr, reason: str) -> RecordFormatError:
    return RecordFormatError(f"in line {node.lineno} of its program: {reason}.")
