"""Contents of claims moved a little: what a check has to tell from the content itself."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
from flint import arb

from hardmax.papers.claims import Claim, Finding
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap

STEP = Fraction(1, 1000)
"""Relative size of a move of a number that is no integer."""


def moved_contents(claim: Claim, which: str, around: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return contents next to `claim.content` or `claim.repaired`, by what was done to them."""
    content = getattr(claim, which)
    moved = dict(_moved(content, claim.check, lambda other: other, around))
    return {f"{which}{name}": other for name, other in moved.items()}


def _moved(
    content: Any,
    check: Callable[[Any], Finding],
    embed: Callable[[Any], Any],
    around: tuple[Any, ...],
) -> Iterator[tuple[str, Any]]:
    """Move a content that `embed` makes part of the whole one; functions by what they return."""
    if is_dataclass(content) and not isinstance(content, type):
        for field in fields(content):
            part = getattr(content, field.name)

            def put(other: Any, name: str = field.name) -> Any:
                return embed(replace(content, **{name: other}))

            others = tuple(getattr(one, field.name) for one in around)
            for name, other in _moved(part, check, put, others):
                yield f".{field.name}{name}", other
    elif isinstance(content, frozenset):
        for element in sorted(content):
            yield f" without {element!r}", embed(content - {element})
        for element in sorted(set().union(*around) - content):
            yield f" with {element!r}", embed(content | {element})
    elif isinstance(content, tuple):
        for i, part in enumerate(content):

            def put(other: Any, at: int = i) -> Any:
                return embed((*content[:at], other, *content[at + 1 :]))

            for name, other in _moved(part, check, put, ()):
                yield f"[{i}]{name}", other
    elif callable(content):
        outputs: list[Any] = []

        def recording(*arguments: Any) -> Any:
            outputs.append(content(*arguments))
            return outputs[-1]

        check(embed(recording))
        for name in {name: None for output in outputs for name in moves(output)}:
            yield name, embed(_moving(content, name))
    else:
        for name, other in moves(content).items():
            yield name, embed(other)


def _moving(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def moving(*arguments: Any) -> Any:
        output = function(*arguments)
        return moves(output).get(name, output)

    moving.__name__ = getattr(function, "__name__", "content")
    return moving


@singledispatch
def moves(value: Any) -> dict[str, Any]:
    """Return values next to a value; none for a kind that only a claim itself can move."""
    return {}


@moves.register
def _(value: bool) -> dict[str, Any]:
    return {" negated": not value}


moves.register(np.bool_, lambda value: {" negated": not value})


@moves.register
def _(value: int) -> dict[str, Any]:
    return {" + 1": value + 1, " - 1": value - 1}


moves.register(np.integer, lambda value: {" + 1": value + 1, " - 1": value - 1})


@moves.register(Fraction)
@moves.register(float)
def _(value: Any) -> dict[str, Any]:
    if value in (np.inf, -np.inf):
        return {" finite": type(value)(0)}
    step = (Fraction(value) if value else 1) * STEP
    up, down = type(value)(value + step), type(value)(value - step)
    return {" + 0.1 %": up, " - 0.1 %": down}


@moves.register
def _(value: arb) -> dict[str, Any]:
    step = arb(1) / 1000
    if value == 0:
        return {" + 0.1 %": step, " - 0.1 %": -step}
    return {" + 0.1 %": value * (1 + step), " - 0.1 %": value * (1 - step)}


@moves.register
def _(value: str) -> dict[str, Any]:
    """Move the last digit of a printed number; words have no neighbours."""
    digits, e, exponent = value.partition("e")
    if not digits.replace(".", "", 1).isdigit():
        return {}
    places = len(digits.partition(".")[2])
    last = Fraction(1, 10**places)
    found = {}
    for sign, step in (("+", last), ("-", -last)):
        moved = f"{float(Fraction(digits) + step):.{places}f}"
        found[f" {sign} one in the last digit"] = f"{moved}{e}{exponent}"
    return found


@moves.register(list)
@moves.register(tuple)
def _(value: Any) -> dict[str, Any]:
    found = {}
    for i in dict.fromkeys((0, len(value) - 1)) if len(value) else ():
        for name, other in moves(value[i]).items():
            changed = [*value[:i], other, *value[i + 1 :]]
            found[f"[{'first' if i == 0 else 'last'}]{name}"] = type(value)(changed)
    return found


@moves.register(set)
@moves.register(frozenset)
def _(value: Any) -> dict[str, Any]:
    return {" without one": type(value)(sorted(value)[1:])} if value else {}


@moves.register
def _(value: np.ndarray) -> dict[str, Any]:
    found = {}
    for place, at in (("first", 0), ("last", -1)) if value.size else ():
        other = value.copy()
        other.flat[at] = not other.flat[at] if value.dtype == bool else other.flat[at] + 1
        found[f"[{place}] moved"] = other
    return found


@moves.register
def _(value: TropicalRationalMap) -> dict[str, Any]:
    one = TropicalPolynomial.constant(1.0, value.dim_in)
    raised = [numerator * one for numerator in value.numerators]
    return {" + 1": TropicalRationalMap(tuple(raised), value.denominator)}
