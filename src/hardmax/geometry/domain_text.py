r"""Domains written as one line of text, for the command line and for files.

The table `KINDS` is the only list of kinds of domains in the code: its rows read and write text,
and `hardmax regions --help` prints it. Tests compare the pages that list kinds with it.

A decimal number stands for the nearest float64, as in Python. A `polytope` may also contain
integers of any length, which are exact. `x^n` repeats `x` `n` times, as in `segment:0^784;1^784`.
Spaces are allowed between the parts.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import isfinite, lcm
from typing import Any, NamedTuple

import numpy as np

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.exact.dyadic import nearest_float
from hardmax.geometry.domain_protocol import CheckedDomain, Domain, check_domain
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.simplices import Simplex
from hardmax.typing import FloatArray, WideArray


class Example(NamedTuple):
    """A domain as text, its meaning in a line of help, and the same domain in Python."""

    text: str
    meaning: str
    python: str


@dataclass(frozen=True)
class DomainKind:
    """A kind of domain as text: a word, a colon, and numbers.

    Attributes:
        word: The word.
        cls: The class of the domain.
        read: Reads the text after the colon.
        write: Writes a domain of the class, the word included. None if another word writes it.
        examples: Examples, the first for error messages.
        fits_slice: Whether the coordinates of a `Slice` can lie in such a domain.
    """

    word: str
    cls: type[CheckedDomain]
    read: Callable[[str], CheckedDomain]
    write: Callable[[Any], str] | None
    examples: tuple[Example, ...]
    fits_slice: bool = False


INEXACT_CHART = (
    "`domain` cannot be written as text, because float64 cannot represent its chart, given as "
    "`exact_chart`. Pass a `Simplex`, or a `Slice` with an origin and directions in float64 and "
    "the inequalities as its `box`, a `Polytope`, instead."
)
_MOST_NUMBERS = 1 << 20
_MOST_LETTERS = 60
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,4})?", re.ASCII | re.I)
_INTEGER = re.compile(r"[+-]?(0x[0-9a-f]+|[0-9]+)", re.ASCII | re.I)
_DECIMAL_BITS = 1 << 13


def parse_domain(text: str) -> Domain:
    """Parse a domain from text.

    Args:
        text: A line such as `box:-1,1^2`: one of the words `box`, `space`, `segment`, `line`,
            `ray`, `hull`, `polytope`, `simplex` and `slice`, a colon, and numbers, as
            `hardmax regions --help` shows. `x^n` repeats `x` `n` times.

    Raises:
        ArgumentError: If the text is not a domain; the message quotes the part that is wrong.
        DtypeError: If `text` is not a string.

    Examples:
        >>> parse_domain("box:-1,1^2").high.tolist()
        [1.0, 1.0]
        >>> parse_domain("slice:0,0,1;1,0,0;0,1,0|box:-1,1^2").dim
        2
        >>> parse_domain("box:1,-1")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `text` must be a domain, such as 'box:-1,1^2'. In 'box:1,-1':
        `low` must be below `high` in every coordinate; got low[0] = 1.0 and high[0] = -1.0.
    """
    if not isinstance(text, str):
        raise DtypeError(f"`text` must be a string; got {type(text).__name__}.")
    kind, colon, rest = text.partition(":")
    kind = _as_word(kind)
    if kind not in _BY_WORD or not colon:
        raise ArgumentError(
            f"`text` must be a domain: one of {', '.join(_BY_WORD)}, then a colon and numbers, "
            f"such as {KINDS[0].examples[0].text!r}; got {_quote(text)}."
        )
    try:
        return _BY_WORD[kind].read(rest)
    except HardmaxError as error:
        example = _BY_WORD[kind].examples[0].text
        raise ArgumentError(
            f"`text` must be a domain, such as {example!r}. In {_quote(text)}: {error}"
        ) from None


def read_domain(domain: Any, name: str = "domain") -> Any:
    """Parse a domain given as text, and return any other argument unchanged.

    All public functions read their argument `domain` with this function.

    Args:
        domain: A domain, or its text.
        name: The name of the argument in error messages.

    Raises:
        ArgumentError: If the text is not a domain; the message quotes it.

    Examples:
        >>> read_domain("box:-1,1^2").dim
        2
        >>> read_domain("square:-1,1")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `domain` must be a domain: one of box, space, segment, line,
        ray, hull, polytope, simplex, slice, then a colon and numbers, such as 'box:-1,1^2'; got
        'square:-1,1'.
    """
    if not isinstance(domain, str):
        return domain
    try:
        return parse_domain(domain)
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("`text`", f"`{name}`", 1)) from None


def read_checked_domain(domain: Any, name: str = "domain") -> CheckedDomain:
    """Return a domain that is given as text or as an object, with checked members.

    Args:
        domain: A domain, or its text.
        name: The name of the argument in error messages.

    Raises:
        ArgumentError: If the text is not a domain, or a member of the object is malformed.

    Examples:
        >>> read_checked_domain("space:2").dim
        2
    """
    return check_domain(read_domain(domain, name), name)


def read_box(box: Any, name: str = "box") -> Box:
    """Return a box that is given as a `Box` or as text.

    Args:
        box: A `Box`, or its text.
        name: The name of the argument in error messages.

    Raises:
        ArgumentError: If `box` is text that is not a domain.
        DtypeError: If `box` is not a box.

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
        given = _quote(box) if isinstance(box, str) else type(box).__name__
        raise DtypeError(f"`{name}` must be a Box, or its text such as 'box:-1,1^2'; got {given}.")
    return found


def domain_text(domain: Domain | str) -> str:
    """Return a domain as one line of text, which the commands and files read back exactly.

    If `domain` is already text, the result is its shortest form. A domain of a class that is not
    part of this package is written as a `polytope` or a `slice`.

    Raises:
        ArgumentError: If no text describes `domain`, because its exact chart is not in float64.
        DtypeError: If `domain` is not a domain.

    Examples:
        >>> domain_text(Box([-1, -1, 0], [1, 1, 0.1]))
        'box:-1,1^2;0,0.1'
        >>> domain_text(Slice([0, 0, 0, 1], [[1, 0, 0, 0]]))
        'slice:0^3,1;1,0^3'
    """
    found = read_checked_domain(domain)
    for kind in KINDS:
        if kind.write and isinstance(found, kind.cls):
            return kind.write(found)
    if getattr(found, "exact_chart", None) is not None:
        raise ArgumentError(INEXACT_CHART)
    inner = Polytope.from_rows([tuple(row) for row in found.exact_rows.tolist()], found.dim)
    if found.chart is None:
        return _write_polytope(inner)
    weight, bias = found.chart
    return _write_slice(Slice(bias, weight, inner))


def list_kinds() -> list[str]:
    """Return a line for each example of each kind: the text and its meaning, in two columns.

    Examples:
        >>> print(list_kinds()[0])
        box:-1,1^2                    the box [-1, 1]^2
    """
    examples = [example for kind in KINDS for example in kind.examples]
    width = max(len(example.text) for example in examples) + 2
    return [f"{example.text:<{width}}{example.meaning}" for example in examples]


def box_of_rows(rows: WideArray) -> Box | None:
    r"""Return the box with the given inequalities $\langle a, t\rangle \le b$.

    Args:
        rows: The inequalities in the order of `Box.inequalities`, as primitive integers `(a, b)`,
            shape `(n_rows, dim + 1)`.

    Returns:
        The box, or None if the rows do not describe a box whose corners are float64 numbers.
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
        interval, times = _split_power(part)
        ends = [_read_decimal(word) for word in interval.split(",")]
        if len(ends) != 2:
            raise ArgumentError(
                f"an interval must have two ends, low,high; got {_quote(interval)} with "
                f"{len(ends)} number{'s' * (len(ends) != 1)}."
            )
        _refuse_many(len(low) + times)
        low += [ends[0]] * times
        high += [ends[1]] * times
    return Box(np.array(low), np.array(high))


def _read_space(rest: str) -> WholeSpace:
    return WholeSpace(_read_count(rest))


def _read_segment(rest: str) -> Segment:
    return Segment(*_read_two(rest, "two points"))


def _read_line(rest: str) -> Line:
    return Line(*_read_two(rest, "a point and a direction"))


def _read_ray(rest: str) -> Ray:
    return Ray(*_read_two(rest, "a point and a direction"))


def _read_hull(rest: str) -> Polytope:
    return Polytope.from_points(_read_vectors(rest))


def _read_simplex(rest: str) -> Simplex:
    return Simplex(_read_vectors(rest))


def _read_polytope(rest: str) -> Polytope:
    rows = []
    for part in rest.split(";"):
        left, sign, right = part.partition("<=")
        if not sign:
            raise ArgumentError(
                f"an inequality must have the form numbers<=number; got {_quote(part)}."
            )
        row = [*_read_list(left, _read_exact), _read_exact(right)]
        scale = lcm(*(entry.denominator for entry in row))
        rows.append(tuple(int(entry * scale) for entry in row))
        if len(row) != len(rows[0]):
            raise ArgumentError(
                f"every inequality must have {len(rows[0]) - 1} numbers on the left, like the "
                f"first; got {_quote(part)}."
            )
        _refuse_many(len(rows) * len(row))
    return Polytope.from_rows(rows, len(rows[0]) - 1)


def _read_slice(rest: str) -> Slice:
    plane, bar, inner = rest.partition("|")
    vectors = _read_vectors(plane)
    origin, directions = vectors[0], vectors[1:]
    if not len(directions):
        raise ArgumentError("a slice must have a point and one or more directions; got a point.")
    if not bar:
        return Slice(origin, directions)
    *words, last = [kind.word for kind in KINDS if kind.fits_slice]
    if _as_word(inner.partition(":")[0]) not in (*words, last):
        raise ArgumentError(
            f"the coordinates of a slice must lie in a {', '.join(words)} or {last}; got "
            f"{_quote(inner)}."
        )
    return Slice(origin, directions, parse_domain(inner))


def _read_two(rest: str, what: str) -> FloatArray:
    vectors = _read_vectors(rest)
    if len(vectors) != 2:
        raise ArgumentError(
            f"it must consist of {what}, separated by a semicolon; got {len(vectors)} "
            f"part{'s' * (len(vectors) != 1)}."
        )
    return vectors


def _read_vectors(rest: str) -> FloatArray:
    """Read points or directions, which must all have the same length."""
    vectors: list[list[float]] = []
    for part in rest.split(";"):
        vectors.append(_read_list(part, _read_decimal))
        if len(vectors[-1]) != len(vectors[0]):
            raise ArgumentError(
                f"all points and directions must have {len(vectors[0])} coordinates, like the "
                f"first; got {_quote(part)}."
            )
        _refuse_many(len(vectors) * len(vectors[0]))
    return np.array(vectors)


def _read_list(part: str, read: Callable[[str], Any]) -> list[Any]:
    """Read numbers separated by commas; `x^n` stands for `n` copies of `x`."""
    entries: list[Any] = []
    for word in part.split(","):
        number, times = _split_power(word)
        _refuse_many(len(entries) + times)
        entries += [read(number)] * times
    return entries


def _split_power(part: str) -> tuple[str, int]:
    body, hat, power = part.partition("^")
    return body, _read_count(power) if hat else 1


def _read_count(word: str) -> int:
    stripped = word.strip()
    if not (stripped.isascii() and stripped.isdigit() and len(stripped) <= 8 and int(stripped)):
        raise ArgumentError(f"a count must be a positive integer; got {_quote(word)}.")
    _refuse_many(int(stripped))
    return int(stripped)


def _read_decimal(word: str) -> float:
    stripped = word.strip()
    if not _DECIMAL.fullmatch(stripped):
        raise ArgumentError(f"a number was expected; got {_quote(word)}.")
    value = float(stripped)
    if not isfinite(value):
        raise ArgumentError(f"numbers must be finite in float64; {_quote(word)} is too large.")
    return value


def _read_exact(word: str) -> Fraction:
    stripped = word.strip()
    if not _INTEGER.fullmatch(stripped):
        return Fraction(_read_decimal(word))
    try:
        return Fraction(int(stripped, 16 if "x" in stripped.lower() else 10))
    except ValueError:
        raise ArgumentError(
            f"an integer as long as {_quote(word)} must be written in hexadecimal, such as 0x1f."
        ) from None


def _refuse_many(n_numbers: int) -> None:
    if n_numbers > _MOST_NUMBERS:
        raise ArgumentError(f"it must have at most {_MOST_NUMBERS} numbers; got {n_numbers}.")


def _write_box(box: Box) -> str:
    pairs = zip(box.low.tolist(), box.high.tolist(), strict=True)
    return "box:" + _write_runs(
        [f"{_write_number(low)},{_write_number(high)}" for low, high in pairs], ";"
    )


def _write_space(space: WholeSpace) -> str:
    return f"space:{space.dim}"


def _write_segment(segment: Segment) -> str:
    return f"segment:{_write_points([segment.start, segment.end])}"


def _write_line(line: Line) -> str:
    return f"line:{_write_points([line.origin, line.direction])}"


def _write_ray(ray: Ray) -> str:
    return f"ray:{_write_points([ray.origin, ray.direction])}"


def _write_simplex(simplex: Simplex) -> str:
    return f"simplex:{_write_points([*simplex.vertices])}"


def _write_slice(plane: Slice) -> str:
    inner = plane.box
    assert isinstance(inner, CheckedDomain), "`Slice` checks its box"
    where = "" if isinstance(inner, WholeSpace) else f"|{domain_text(inner)}"
    return f"slice:{_write_points([plane.origin, *plane.directions])}{where}"


def _write_polytope(polytope: Polytope) -> str:
    if not len(polytope.rows):
        return f"space:{polytope.ambient_dim}"
    rows = []
    for row in polytope.rows.tolist():
        *left, right = map(_write_integer, row)
        rows.append(f"{_write_runs(left, ',')}<={right}")
    return f"polytope:{';'.join(rows)}"


def _write_points(vectors: Sequence[Any]) -> str:
    return ";".join(
        _write_runs([_write_number(x) for x in vector.tolist()], ",") for vector in vectors
    )


def _write_runs(words: list[str], separator: str) -> str:
    """Join words, and write a word that is repeated in a row once, with a power."""
    least = 2 if separator == ";" else 3
    parts = []
    for word, group in groupby(words):
        times = len(list(group))
        parts += [f"{word}^{times}"] if times >= least else [word] * times
    return separator.join(parts)


def _write_number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _write_integer(value: int) -> str:
    return str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)


def _quote(text: str) -> str:
    return repr(text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}...")


def _as_word(text: str) -> str:
    return text.strip().lower()


KINDS: tuple[DomainKind, ...] = (
    DomainKind(
        "box",
        Box,
        _read_box,
        _write_box,
        (
            Example("box:-1,1^2", "the box [-1, 1]^2", "hm.Box([-1, -1], [1, 1])"),
            Example("box:-1,1;0,5", "one interval for each coordinate", "hm.Box([-1, 0], [1, 5])"),
        ),
        fits_slice=True,
    ),
    DomainKind(
        "space",
        WholeSpace,
        _read_space,
        _write_space,
        (Example("space:3", "all of R^3", "hm.WholeSpace(3)"),),
        fits_slice=True,
    ),
    DomainKind(
        "segment",
        Segment,
        _read_segment,
        _write_segment,
        (
            Example(
                "segment:0,0;1,2",
                "the segment from one point to another",
                "hm.Segment([0, 0], [1, 2])",
            ),
        ),
    ),
    DomainKind(
        "line",
        Line,
        _read_line,
        _write_line,
        (
            Example(
                "line:0,0;1,2",
                "the line through a point in a direction",
                "hm.Line([0, 0], [1, 2])",
            ),
        ),
    ),
    DomainKind(
        "ray",
        Ray,
        _read_ray,
        _write_ray,
        (Example("ray:0,0;1,2", "the ray from a point in a direction", "hm.Ray([0, 0], [1, 2])"),),
    ),
    DomainKind(
        "hull",
        Polytope,
        _read_hull,
        None,
        (
            Example(
                "hull:0,0;1,0;0,1;1,1",
                "the convex hull of points",
                "hm.Polytope.from_points([[0, 0], [1, 0], [0, 1], [1, 1]])",
            ),
        ),
        fits_slice=True,
    ),
    DomainKind(
        "polytope",
        Polytope,
        _read_polytope,
        _write_polytope,
        (
            Example(
                "polytope:1,0<=1;-1,-1<=0",
                "the points that satisfy inequalities",
                "hm.Polytope([[1, 0], [-1, -1]], [1, 0])",
            ),
        ),
        fits_slice=True,
    ),
    DomainKind(
        "simplex",
        Simplex,
        _read_simplex,
        _write_simplex,
        (
            Example(
                "simplex:0,0;1,0;0,1",
                "the triangle (or simplex) with given vertices",
                "hm.Simplex([[0, 0], [1, 0], [0, 1]])",
            ),
        ),
        fits_slice=True,
    ),
    DomainKind(
        "slice",
        Slice,
        _read_slice,
        _write_slice,
        (
            Example(
                "slice:0,0,1;1,0,0;0,1,0",
                "the plane through a point along two directions",
                "hm.Slice([0, 0, 1], [[1, 0, 0], [0, 1, 0]])",
            ),
            Example(
                "slice:0,0,1;1,0,0|box:-1,1",
                "a part of a slice, in its own coordinates",
                "hm.Slice([0, 0, 1], [[1, 0, 0]], hm.Box([-1], [1]))",
            ),
        ),
    ),
)
"""Every kind of domain: a new kind needs a class and a row here."""

_BY_WORD = {kind.word: kind for kind in KINDS}
EXAMPLES = tuple(example.text for kind in KINDS for example in kind.examples)
"""The text of every example."""
