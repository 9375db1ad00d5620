r"""Domains as one line of text: what a person types and what a file keeps.

| text | domain |
|---|---|
| `box:-1,1^2` | $[-1, 1]^2$ |
| `box:-1,1;0,5` | $[-1, 1] \times [0, 5]$ |
| `space:3` | all of $\mathbb{R}^3$ |
| `segment:0,0;1,2` | from the point (0, 0) to the point (1, 2) |
| `line:0,0;1,2` | through (0, 0) in the direction (1, 2) |
| `ray:0,0;1,2` | from (0, 0) in the direction (1, 2) |
| `hull:0,0;1,0;0,1` | the convex hull of points: a triangle |
| `polytope:1,0<=1;0,1<=1;-1,-1<=0` | inequalities: $x \le 1$, $y \le 1$, $-x - y \le 0$ |
| `slice:0,0,1;1,0,0;0,1,0` | the plane through (0, 0, 1) along two directions |
| `slice:0,0,1;1,0,0;0,1,0\|box:-1,1^2` | the part of it where the coordinates lie in a box |

Numbers are decimal and mean the nearest float64, as they do in a program; those of a `polytope` may
also be integers of any length, and mean what they say. `x^n` is `x` written `n` times:
`segment:0^784;1^784`. Blanks are allowed between the parts.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import groupby
from math import isfinite, lcm
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.exact.dyadic import nearest_float
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import FloatArray, WideArray

DomainKind = Box | WholeSpace | Polytope | Slice | Segment | Ray | Line
EXAMPLES = (
    "box:-1,1^2",
    "box:-1,1;0,5",
    "space:3",
    "segment:0,0;1,2",
    "line:0,0;1,2",
    "ray:0,0;1,2",
    "hull:0,0;1,0;0,1",
    "polytope:1,0<=1;0,1<=1;-1,-1<=0",
    "slice:0,0,1;1,0,0;0,1,0|box:-1,1^2",
)
"""One text of each kind, for messages and help."""

_MOST_NUMBERS = 1 << 20
_MOST_LETTERS = 60
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,4})?", re.ASCII | re.I)
_INTEGER = re.compile(r"[+-]?(0x[0-9a-f]+|[0-9]+)", re.ASCII | re.I)
_DECIMAL_BITS = 1 << 13


def parse_domain(text: str) -> "DomainKind":
    """Read a domain from text (the table above).

    Raises:
        ArgumentError: If the text is not such a domain; the message quotes what cannot be read.

    Examples:
        >>> parse_domain("box:-1,1^2").high.tolist()
        [1.0, 1.0]
        >>> parse_domain("slice:0,0,1;1,0,0;0,1,0|box:-1,1^2").dim
        2
        >>> parse_domain("box:1,-1")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `text` must be a domain, as 'box:-1,1^2' is; in 'box:1,-1':
        `low` must be below `high` in every coordinate; got low[0] = 1.0 and high[0] = -1.0.
    """
    if not isinstance(text, str):
        raise DtypeError(f"`text` must be text; got {type(text).__name__}.")
    kind, colon, rest = text.partition(":")
    kind = kind.strip().lower()
    if kind not in _READERS or not colon:
        raise ArgumentError(
            f"`text` must be a domain: one of {', '.join(_READERS)}, a colon and numbers, as in "
            f"{EXAMPLES[0]!r}; got {_quoted(text)}."
        )
    try:
        return _READERS[kind](rest)
    except HardmaxError as error:
        example = next(one for one in EXAMPLES if one.startswith(kind))
        raise ArgumentError(
            f"`text` must be a domain, as {example!r} is; in {_quoted(text)}: {error}"
        ) from None


def read_domain(domain: Any, name: str = "domain") -> Any:
    """Return the domain that an argument stands for: text is parsed, anything else returned as is.

    Every public function with an argument `domain` reads it here.

    Args:
        domain: A domain, or its text.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the text is not a domain; the message quotes it.

    Examples:
        >>> read_domain("box:-1,1^2").dim
        2
        >>> read_domain("square:-1,1")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `domain` must be a domain: one of box, space, segment, line,
        ray, hull, polytope, slice, a colon and numbers, as in 'box:-1,1^2'; got 'square:-1,1'.
    """
    if not isinstance(domain, str):
        return domain
    try:
        return parse_domain(domain)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("`text`", f"`{name}`", 1)) from None


def read_box(box: Any, name: str = "box") -> Box:
    """Return the box that an argument stands for: a `Box`, or its text.

    Raises:
        ArgumentError: If it is text that is not a domain.
        DtypeError: If it is not a box.

    Examples:
        >>> read_box("box:-1,1^2").high.tolist()
        [1.0, 1.0]
        >>> read_box("space:2", "window")
        Traceback (most recent call last):
            ...
        hardmax.errors.DtypeError: `window` must be a Box, or its text such as 'box:-1,1^2'; got
        'space:2'.
    """
    found = read_domain(box, name)
    if not isinstance(found, Box):
        given = _quoted(box) if isinstance(box, str) else type(box).__name__
        raise DtypeError(f"`{name}` must be a Box, or its text such as 'box:-1,1^2'; got {given}.")
    return found


def domain_text(domain: "DomainKind | str") -> str:
    """Write a domain as text that `parse_domain` reads back exactly.

    Text of a domain is written in its shortest form.

    Raises:
        DtypeError: If it is none.

    Examples:
        >>> domain_text(Box([-1, -1, 0], [1, 1, 0.1]))
        'box:-1,1^2;0,0.1'
        >>> domain_text(Slice([0, 0, 0, 1], [[1, 0, 0, 0]]))
        'slice:0^3,1;1,0^3'
    """
    domain = read_domain(domain)
    if isinstance(domain, Box):
        pairs = zip(domain.low.tolist(), domain.high.tolist(), strict=True)
        return "box:" + _runs([f"{_number(low)},{_number(high)}" for low, high in pairs], ";")
    if isinstance(domain, WholeSpace):
        return f"space:{domain.dim}"
    if isinstance(domain, Segment):
        return f"segment:{_points([domain.start, domain.end])}"
    if isinstance(domain, Line | Ray):
        return f"{type(domain).__name__.lower()}:{_points([domain.origin, domain.direction])}"
    if isinstance(domain, Polytope):
        return _polytope_text(domain)
    if isinstance(domain, Slice):
        inner = domain.box
        assert isinstance(inner, Box | WholeSpace | Polytope), "a slice lies in one of these"
        where = "" if isinstance(inner, WholeSpace) else f"|{domain_text(inner)}"
        return f"slice:{_points([domain.origin, *domain.directions])}{where}"
    raise DtypeError(f"`domain` must be a domain; got {type(domain).__name__}.")


def box_of_rows(rows: WideArray) -> Box | None:
    r"""Return the box with these inequalities $\langle a, t\rangle \le b$, in the order of a box.

    Args:
        rows: Primitive integers `(a, b)`, shape `(n_rows, dim + 1)`.

    Returns:
        The box; None if there is none with corners in float64.
    """
    dim = rows.shape[1] - 1
    if len(rows) != 2 * dim:
        return None
    corners = np.empty((2, dim))
    for i, row in enumerate(rows.tolist()):
        side, k = divmod(i, dim)
        sign = -1 if side else 1
        scale = sign * row[k]
        if scale <= 0 or any(x for j, x in enumerate(row[:-1]) if j != k):
            return None
        exact = Fraction(sign * row[-1], scale)
        corner = nearest_float(exact)
        if corner != exact:
            return None
        corners[side, k] = corner
    high, low = corners
    return Box(low, high) if (low < high).all() else None


def _read_box(rest: str) -> Box:
    low: list[float] = []
    high: list[float] = []
    for part in rest.split(";"):
        interval, times = _repeated(part)
        ends = [_decimal(word) for word in interval.split(",")]
        if len(ends) != 2:
            raise ArgumentError(
                f"an interval is its two ends, low,high; got {_quoted(interval)}, "
                f"{len(ends)} number{'s' * (len(ends) != 1)}."
            )
        _refuse_many(len(low) + times)
        low += [ends[0]] * times
        high += [ends[1]] * times
    return Box(np.array(low), np.array(high))


def _read_space(rest: str) -> WholeSpace:
    return WholeSpace(_count(rest))


def _read_segment(rest: str) -> Segment:
    return Segment(*_two(rest, "two points"))


def _read_line(rest: str) -> Line:
    return Line(*_two(rest, "a point and a direction"))


def _read_ray(rest: str) -> Ray:
    return Ray(*_two(rest, "a point and a direction"))


def _read_hull(rest: str) -> Polytope:
    return Polytope.from_points(_vectors(rest))


def _read_polytope(rest: str) -> Polytope:
    rows = []
    for part in rest.split(";"):
        left, sign, right = part.partition("<=")
        if not sign:
            raise ArgumentError(f"an inequality is numbers <= a number; got {_quoted(part)}.")
        row = [*_list(left, _exact), _exact(right)]
        scale = lcm(*(entry.denominator for entry in row))
        rows.append(tuple(int(entry * scale) for entry in row))
        if len(row) != len(rows[0]):
            raise ArgumentError(
                f"every inequality must have {len(rows[0]) - 1} numbers on the left, as the first "
                f"has; got {_quoted(part)}."
            )
        _refuse_many(len(rows) * len(row))
    return Polytope.from_rows(rows, len(rows[0]) - 1)


def _read_slice(rest: str) -> Slice:
    plane, bar, inner = rest.partition("|")
    vectors = _vectors(plane)
    origin, directions = vectors[0], vectors[1:]
    if not len(directions):
        raise ArgumentError("a slice is a point and one direction or more; got no direction.")
    if not bar:
        return Slice(origin, directions)
    if inner.partition(":")[0].strip().lower() not in ("box", "space", "hull", "polytope"):
        raise ArgumentError(
            f"the coordinates of a slice lie in a box, space, hull or polytope; got "
            f"{_quoted(inner)}."
        )
    return Slice(origin, directions, parse_domain(inner))  # type: ignore[arg-type]


_READERS: dict[str, Callable[[str], DomainKind]] = {
    "box": _read_box,
    "space": _read_space,
    "segment": _read_segment,
    "line": _read_line,
    "ray": _read_ray,
    "hull": _read_hull,
    "polytope": _read_polytope,
    "slice": _read_slice,
}


def _two(rest: str, what: str) -> FloatArray:
    vectors = _vectors(rest)
    if len(vectors) != 2:
        raise ArgumentError(f"it needs {what}, with a semicolon between; got {len(vectors)}.")
    return vectors


def _vectors(rest: str) -> FloatArray:
    """Read points or directions, all of one length."""
    vectors: list[list[float]] = []
    for part in rest.split(";"):
        vectors.append(_list(part, _decimal))
        if len(vectors[-1]) != len(vectors[0]):
            raise ArgumentError(
                f"all points and directions must have {len(vectors[0])} coordinates, as the first "
                f"has; got {_quoted(part)}."
            )
        _refuse_many(len(vectors) * len(vectors[0]))
    return np.array(vectors)


def _list(part: str, read: Callable[[str], Any]) -> list[Any]:
    """Read numbers with commas between them, `x^n` for `n` of them."""
    entries: list[Any] = []
    for word in part.split(","):
        number, times = _repeated(word)
        _refuse_many(len(entries) + times)
        entries += [read(number)] * times
    return entries


def _repeated(part: str) -> tuple[str, int]:
    body, hat, power = part.partition("^")
    return body, _count(power) if hat else 1


def _count(word: str) -> int:
    stripped = word.strip()
    if not (stripped.isascii() and stripped.isdigit() and len(stripped) <= 8 and int(stripped)):
        raise ArgumentError(f"a count must be a whole number above 0; got {_quoted(word)}.")
    _refuse_many(int(stripped))
    return int(stripped)


def _decimal(word: str) -> float:
    stripped = word.strip()
    if not _DECIMAL.fullmatch(stripped):
        raise ArgumentError(f"a number is needed; got {_quoted(word)}.")
    value = float(stripped)
    if not isfinite(value):
        raise ArgumentError(f"a number of float64 is needed; got {_quoted(word)}, which is beyond.")
    return value


def _exact(word: str) -> Fraction:
    stripped = word.strip()
    if not _INTEGER.fullmatch(stripped):
        return Fraction(_decimal(word))
    try:
        return Fraction(int(stripped, 16 if "x" in stripped.lower() else 10))
    except ValueError:
        raise ArgumentError(
            f"an integer as long as {_quoted(word)} must be in hexadecimal, as 0x1f is."
        ) from None


def _refuse_many(n_numbers: int) -> None:
    if n_numbers > _MOST_NUMBERS:
        raise ArgumentError(f"it must have at most {_MOST_NUMBERS} numbers; got {n_numbers}.")


def _polytope_text(polytope: Polytope) -> str:
    if not len(polytope.rows):
        return f"space:{polytope.ambient_dim}"
    rows = []
    for row in polytope.rows.tolist():
        *left, right = map(_integer, row)
        rows.append(f"{_runs(left, ',')}<={right}")
    return f"polytope:{';'.join(rows)}"


def _points(vectors: Sequence[Any]) -> str:
    return ";".join(_runs([_number(x) for x in vector.tolist()], ",") for vector in vectors)


def _runs(words: list[str], separator: str) -> str:
    """Join words; where one comes several times in a row, it is written once with a power."""
    least = 2 if separator == ";" else 3
    parts = []
    for word, group in groupby(words):
        times = len(list(group))
        parts += [f"{word}^{times}"] if times >= least else [word] * times
    return separator.join(parts)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _integer(value: int) -> str:
    return str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}...")
