"""Representations of objects: one short line at a prompt, and a small card in a notebook.

A card is HTML without scripts. It inherits the colours of the page, so that it is readable on light
and dark pages. All text in it is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

import numpy as np

LONGEST = 200
"""Maximum number of characters of a `repr`."""
_LONGEST_PART = 60
_SHOWN_NUMBERS = 6
_SHOWN_ITEMS = 6
MOST_DRAWN = 400
"""Maximum number of cells in the picture of a card; more would dominate the size of a notebook."""
_SIDE = 220.0
_FRAME = "display:inline-block;vertical-align:top;margin:0 1em 0 0"
_LINE = "1px solid rgba(128,128,128,0.35)"
_CELL = f"text-align:left;vertical-align:top;padding:2px 10px 2px 0;border-bottom:{_LINE}"


def short_repr(obj: Any) -> str:
    """Format a dataclass as `Name(field=value, ...)` on one short line.

    Small arrays are written in full, and large arrays as their shape. Long strings and sequences
    are truncated. Fields whose names begin with an underscore are omitted.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(repr=False)
        ... class Example:
        ...     weight: Any
        ...     bias: Any
        ...     __repr__ = short_repr
        >>> Example(np.zeros((40, 2)), np.array([0.5, -1.0]))
        Example(weight=<40 x 2 float64>, bias=[0.5, -1.0])
    """
    parts = [f"{name}={summarize(value)}" for name, value in public_fields(obj).items()]
    name = type(obj).__name__
    while parts and len(text := f"{name}({', '.join(parts)})") > LONGEST:
        parts = [*parts[:-2], "..."] if parts[-1] == "..." else [*parts[:-1], "..."]
    return text if parts else f"{name}()"


def html_card(obj: Any) -> str:
    """Format a dataclass as an HTML card: its `repr`, with a table of its fields below."""
    return format_card(repr(obj), public_fields(obj))


def format_card(title: str, rows: Mapping[str, Any], picture: str = "") -> str:
    """Format a card as HTML: a title, a table of names and values, and a picture beside it.

    Args:
        title: One line of text.
        rows: The values to show, by name. Strings are shown in full, arrays by their shape or
            entries, other objects by their `repr`, and sequences of objects one per line.
        picture: A picture as HTML, which is not escaped.

    Examples:
        >>> "a &lt; b" in format_card("a < b", {}), "<td" in format_card("", {"n": 3})
        (True, True)
    """
    lines = "".join(
        f'<tr><td style="{_CELL};opacity:0.7">{escape(name.replace("_", " "))}</td>'
        f'<td style="{_CELL}">{_format_html(value)}</td></tr>'
        for name, value in rows.items()
        if value is not None
    )
    table = f'<table style="border-collapse:collapse;border:0">{lines}</table>' if lines else ""
    head = f'<div style="font-weight:600;margin:2px 0 4px">{escape(title)}</div>'
    beside = f'<div style="{_FRAME}">{picture}</div>' if picture else ""
    return f'<div>{beside}<div style="{_FRAME}">{head}{table}</div></div>'


def format_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format a title and a table as HTML; numbers are aligned to the right.

    Examples:
        >>> format_table("counts", ["n"], [[92]]).count("<td")
        1
    """
    head = "".join(f'<th style="{_CELL}">{escape(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(_format_cell(value) for value in row) + "</tr>" for row in rows)
    return (
        f'<div><div style="font-weight:600;margin:2px 0 4px">{escape(title)}</div>'
        f'<table style="border-collapse:collapse;border:0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def draw_svg(
    polygons: Sequence[Any],
    fills: Sequence[str],
    low: Any,
    high: Any,
    *,
    ink: str,
    keys: Iterable[tuple[Any, str]] = (),
) -> str:
    """Draw polygons in a rectangle of the plane as SVG, for a card.

    Args:
        polygons: The corners of each, shape `(n, 2)`.
        fills: Their colours.
        low: The lower left corner of the rectangle, shape `(2,)`.
        high: The upper right one.
        ink: The colour of outlines.
        keys: Points to mark with circles, each with its colour.

    Examples:
        >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> picture = draw_svg([square], ["#73aceb"], square[0], square[2], ink="#000000")
        >>> picture.count("<polygon"), 'points="0.0,220.0 220.0,220.0 220.0,0.0 0.0,0.0"' in picture
        (1, True)
    """
    spans = high - low
    width, height = (_SIDE * spans / spans.max()).tolist()

    def place(points: Any) -> Any:
        x, y = ((points - low) / spans).T
        return np.stack([x * width, height - y * height], axis=-1)

    drawn = []
    for fill, polygon in zip(fills, polygons, strict=True):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in place(polygon).tolist())
        drawn.append(f'<polygon points="{corners}" fill="{fill}"/>')
    circles = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}" stroke="{edge}"/>'
        for (x, y), fill in ((place(point).tolist(), fill) for point, fill in keys)
        # A white rim keeps the outline apart from walls.
        for r, colour, edge in ((5.0, "#ffffff", "none"), (3.6, fill, ink))
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="the cells" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}">'
        # On white, so that the colours are the same on a dark page.
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>'
        f'<g stroke="{ink}" stroke-width="0.6" stroke-linejoin="round">'
        f"{''.join(drawn)}{''.join(circles)}</g></svg>"
    )


def public_fields(obj: Any) -> dict[str, Any]:
    """Return the public fields of a dataclass or named tuple by name.

    Fields that have not been set are omitted.
    """
    given = [f.name for f in fields(obj)] if is_dataclass(obj) else obj._fields
    names = [name for name in given if not name.startswith("_")]
    return {name: getattr(obj, name) for name in names if hasattr(obj, name)}


def summarize(value: Any) -> str:
    """Format a value in at most a few words.

    Examples:
        >>> summarize(np.zeros(3)), summarize(np.zeros((9, 9)))
        ('[0.0, 0.0, 0.0]', '<9 x 9 float64>')
        >>> summarize([1] * 50), summarize({"a": 1})
        ('<50 items>', '<1 entry>')
        >>> summarize("word " * 50)
        "'word word word word word word word word word word word wo...'"
    """
    if isinstance(value, np.ndarray):
        return _format_array(value)
    if isinstance(value, str):
        return repr(shorten(value))
    if isinstance(value, Mapping):
        return f"<{len(value)} entr{'y' if len(value) == 1 else 'ies'}>"
    if isinstance(value, list | tuple | set | frozenset):
        items = ", ".join(summarize(item) for item in list(value)[:_SHOWN_NUMBERS])
        if isinstance(value, list):
            text = f"[{items}]"
        elif isinstance(value, tuple):
            text = f"({items}{',' * (len(value) == 1)})"
        else:
            text = f"{{{items}}}"
        short = len(value) <= _SHOWN_NUMBERS and len(text) <= _LONGEST_PART
        return text if short else f"<{len(value)} item{'s' * (len(value) != 1)}>"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    if len(text) <= _LONGEST_PART:
        return text
    return f"<{type(value).__name__}>" if is_dataclass(value) else shorten(text)


def shorten(text: str, longest: int = _LONGEST_PART) -> str:
    """Return a text as one line of at most `longest` characters.

    Examples:
        >>> shorten("one  and two", 9)
        'one an...'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def pluralize(n: Any, noun: str) -> str:
    """Format a number with a noun, which gets a plural s unless the number is 1.

    Examples:
        >>> pluralize(1, "cell"), pluralize(0, "cell")
        ('1 cell', '0 cells')
    """
    return f"{n} {noun}{'s' * (n != 1)}"


def format_widths(widths: Sequence[int]) -> str:
    """Format the widths of layers, in words if there are many.

    Examples:
        >>> format_widths([16, 16]), format_widths([40] * 60)
        ('[16, 16]', '60 layers of 40')
        >>> format_widths([8, *[40] * 60])
        '61 layers of 8 to 40'
    """
    text = str(list(widths))
    if len(text) <= _LONGEST_PART:
        return text
    low, high = min(widths), max(widths)
    return f"{len(widths)} layers of {low}" + (f" to {high}" if high > low else "")


def _format_array(value: Any) -> str:
    if value.size <= _SHOWN_NUMBERS and (text := str(value.tolist())) and len(text) <= 80:
        return text
    return f"<{' x '.join(map(str, value.shape))} {value.dtype.name}>"


def _format_html(value: Any) -> str:
    """Format one value of a card: sequences of objects one per line, other values on one line."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        lines = [escape(shorten(summarize(item), LONGEST)) for item in value[:_SHOWN_ITEMS]]
        more = len(value) - _SHOWN_ITEMS
        return "<br>".join([*lines, f"... {more} more"] if more > 0 else lines)
    if is_dataclass(value):
        return escape(shorten(repr(value), LONGEST))
    return escape(summarize(value))


def _format_cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        style = _CELL.replace("text-align:left", "text-align:right")
        return f'<td style="{style}">{escape(str(value))}</td>'
    return f'<td style="{_CELL}">{escape(str(value))}</td>'
