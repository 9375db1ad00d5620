"""A table of measurements, and its Markdown for pages.

A module `bench_NAME` has a function `tables` that measures and yields its results.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SPACE = "\xa0"
"""The nonbreaking space between thousands."""


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes:
        title: The title, including units.
        columns: The names of the columns; the first column contains the cases.
        rows: Numbers and text for each case; None for an empty entry.
        remarks: An explanation of the table, as one paragraph.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    remarks: str = ""


def format_entry(value: Any) -> str:
    r"""Format an entry: counts in full, other numbers with three digits, text unchanged.

    Examples:
        >>> [format_entry(one) for one in (12271, 1234.5, 0.25, 2.0, None, "a | b")]
        ['12\xa0271', '1\xa0230', '0.25', '2', '', 'a \\| b']
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("|", r"\|")
    if isinstance(value, int):
        return f"{value:,}".replace(",", _SPACE)
    short = float(f"{value:.3g}")
    return f"{short:,.0f}".replace(",", _SPACE) if abs(short) >= 1000.0 else f"{short:.3g}"


def to_markdown(table: Table, level: int = 3) -> str:
    """Return a table under its title, with aligned columns for readers of the source."""
    lines = [[*table.columns], *([format_entry(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = (
        "| " + " | ".join(word.ljust(n) for word, n in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
    rule = "|" + "|".join("-" * (n + 2) for n in widths) + "|"
    title = f"{'#' * level} {table.title}" if table.title else ""
    parts = title, " ".join(table.remarks.split()), "\n".join([head, rule, *body])
    return "\n\n".join(part for part in parts if part) + "\n"


def replace_between_marks(path: Path, name: str, text: str) -> None:
    """Replace the text in a file between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    page = path.read_text(encoding="utf-8")
    if page.count(first) != 1 or page.count(last) != 1:
        raise SystemExit(f"{path.name} has no place for {name}")
    between = re.compile(f"(?<={re.escape(first)}).*?(?={re.escape(last)})", re.DOTALL)
    path.write_text(between.sub(lambda _: f"\n{text}\n", page), encoding="utf-8")
