"""The programs of TorchScript archives, read line by line as text and never run.

TorchScript is written in the syntax of Python. The text of `forward` is followed from its input to
what it returns, through the modules and functions it calls; each operation on the way must be
affine or an activation that is a maximum. Loops, skip connections and everything else are refused.
"""

import ast
import io
import os
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.formats.layered_networks import Step
from hardmax.models.formats.torch.operations import Signal, apply_operation
from hardmax.models.formats.torch.script_files import (
    ScriptArchive,
    ScriptModule,
    read_script_archive,
)

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
    try:
        signal = Signal(limit=limit)
        result = _Walk(archive).call(_Method(archive.root, "forward"), [signal], {})
        if not isinstance(result, Signal):
            raise RecordFormatError("`forward` must return one tensor that depends on its input.")
    except RecursionError:
        raise RecordFormatError("its program is nested too deeply.") from None
    return list(result.steps)


class _Walk:
    """One walk along a program."""

    def __init__(self, archive: ScriptArchive) -> None:
        self._archive = archive
        self._left = _MOST_STEPS
        self._depth = 0
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
        return _operation(target.dotted, arguments, named)

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
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name))]):
                return self._attribute(node, self._value(owner, values), name)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                target = self._value(function, values)
                given = [self._value(argument, values) for argument in arguments]
                named = {str(k.arg): self._value(k.value, values) for k in keywords}
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
            if name in owner.attributes:
                return owner.attributes[name]
            return _Method(owner, name)
        raise _at(node, f"`.{name:.40}` is not read")

    def _literal(self, node: ast.expr) -> Any:
        return self._value(node, {})


def _operation(dotted: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """An operation of torch: on a signal, or one of the few on constants."""
    space, _, name = dotted.rpartition(".")
    if space not in ("torch", "ops.aten"):
        raise RecordFormatError(f"`{dotted:.60}` is not read.")
    if any(isinstance(value, Signal) for value in (*arguments, *named.values())):
        return apply_operation(name, arguments, named)
    if len(arguments) == 1 and isinstance(arguments[0], np.ndarray) and name in ("t", "numpy_T"):
        return cast(Any, arguments[0].T)
    if len(arguments) == 2 and all(isinstance(x, int | float) for x in arguments):
        left, right = arguments
        compared = {"gt": left > right, "lt": left < right, "eq": left == right}
        if name in compared:
            return compared[name]
    raise RecordFormatError(f"`{dotted:.60}` is not read.")


def _at(node: ast.stmt | ast.expr, reason: str) -> RecordFormatError:
    return RecordFormatError(f"in line {node.lineno} of its program: {reason}.")
