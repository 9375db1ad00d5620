"""The page of all results: each with its figure, its caption and the verdict on what was claimed.

Everything a page shows comes from the files of a results folder: records, figures, tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hardmax._ground.files import write_text
from hardmax._ground.records import Record
from hardmax.errors import ArgumentError
from hardmax.papers.ledger import is_part_of
from hardmax.papers.pages import Ruling, badge, data_table, figure_image, ledger, page

_MOST_ENTRIES = 8

Tables = Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""Columns and rows of each table by name."""


@dataclass(frozen=True)
class Chapter:
    """Some experiments under one heading: its title and their names, in order."""

    title: str
    names: tuple[str, ...]


def write_report(
    out: Path,
    records: Sequence[Record],
    chapters: Sequence[Chapter],
    rulings: Sequence[Ruling] = (),
    tables: Tables | None = None,
    levels: Mapping[str, str | None] | None = None,
) -> Path:
    """Write `OUT/report.html` from records, their figures and the ledger.

    Args:
        out: The folder with `NAME.svg` and `NAME.png` for each record that has a figure.
        records: The experiments' records.
        chapters: Which experiments stand under which heading; what is not there is left out.
        rulings: The ledger.
        tables: Tables `NAME_TABLE`, shown with the experiment they belong to.
        levels: The level of each record's sizes by name, `"quick"`, `"default"` or `"full"`; None
            or absent where it is not known, which leaves the command out of the caption.

    Returns:
        The path of the page.

    Raises:
        ArgumentError: If there is no record to show.
    """
    by_name = {record.name: record for record in records}
    if not by_name:
        raise ArgumentError("`records` must hold at least one result; got none.")
    present = [
        Chapter(chapter.title, tuple(name for name in chapter.names if name in by_name))
        for chapter in chapters
    ]
    shown = [chapter for chapter in present if chapter.names]
    verdicts = {ruling.id: ruling.verdict for ruling in rulings}
    known = levels or {}
    body = [_header(records, known), _contents(shown, by_name, bool(rulings))]
    for chapter in shown:
        body.append(f"<h2>{escape(chapter.title)}</h2>")
        body += [
            _section(by_name[name], out, verdicts, tables or {}, known.get(name))
            for name in chapter.names
        ]
    if rulings:
        body.append(f'<section id="ledger"><h2>The ledger</h2>{ledger(rulings)}</section>')
    path = out / "report.html"
    title = "hardmax: the exact geometry of transformers at zero temperature"
    write_text(path, page(title, "\n".join(body)))
    return path


def _header(records: Sequence[Record], levels: Mapping[str, str | None]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in records[0].versions.items())
    seconds = sum(record.seconds for record in records)
    n_quick = sum(levels.get(record.name) == "quick" for record in records)
    quick = (
        f"{n_quick} of them at the small sizes of <code>--quick</code>: run <code>hardmax "
        "reproduce</code> for the full picture. "
        if n_quick
        else ""
    )
    return (
        "<header><h1>The exact geometry of transformers at zero temperature</h1>"
        '<p class="lead">Every figure, table and example of the papers, recomputed exactly: what '
        "they show or claim beside what is true, with the verdict of an executable check.</p>"
        f'<p class="small">{len(records)} results, {seconds:.0f} seconds of computing. {quick}'
        f"Made with {escape(versions)}.</p></header>"
    )


def _contents(chapters: Sequence[Chapter], by_name: Mapping[str, Record], ledger: bool) -> str:
    lines = ["<nav><strong>Contents</strong>"]
    for chapter in chapters:
        links = "".join(
            f'<li><a href="#{escape(name)}">{escape(by_name[name].results["title"])}</a></li>'
            for name in chapter.names
        )
        lines.append(f"<div>{escape(chapter.title)}</div><ul>{links}</ul>")
    if ledger:
        lines.append('<div><a href="#ledger">The ledger: every claim and its verdict</a></div>')
    return "\n".join([*lines, "</nav>"])


def _section(
    record: Record,
    out: Path,
    verdicts: Mapping[str, str],
    tables: Tables,
    level: str | None,
) -> str:
    results = record.results
    parts = [f'<section id="{escape(record.name)}"><h3>{escape(results["title"])}</h3>']
    drawn = figure_image(out / record.name, f"{results['title']}. {results['summary']}")
    framed = f'<div class="scroll">{drawn}</div>' if drawn else ""
    parts.append(
        f"<figure>{framed}<figcaption>{_caption(record, verdicts, level)}</figcaption></figure>"
    )
    said = [("The paper", results["claimed"]), ("What is true", results["summary"])]
    boxes = "".join(
        f"<div><h4>{heading}</h4><p>{escape(text[:1].upper() + text[1:])}</p></div>"
        for heading, text in said
        if text
    )
    parts.append(f'<div class="pair">{boxes}</div>')
    stem = record.name.replace("-", "_") + "_"
    for table, (columns, rows) in tables.items():
        if table.startswith(stem):
            words = f"table {table.removeprefix(stem).replace('_', ' ')}, {len(rows)} rows"
            shown = data_table(columns, rows)
            parts.append(f"<details><summary>{escape(words)}</summary>{shown}</details>")
    return "\n".join([*parts, "</section>"])


def _caption(record: Record, verdicts: Mapping[str, str], level: str | None) -> str:
    words = [f"{key} = {_short(value)}" for key, value in record.parameters.items()]
    parts = [escape("; ".join(words)), f"{record.seconds:.1f} s"]
    named = record.results["claims"]
    for claim, verdict in verdicts.items():
        if any(is_part_of(claim, name) for name in named):
            link = f'<a href="#claim-{escape(claim)}">{escape(claim)}</a>'
            parts.append(f"{link}: {badge(verdict)}")
    if level is not None:
        option = "" if level == "default" else f" --{level}"
        parts.append(f"<code>hardmax reproduce {escape(record.name + option)}</code>")
    return " · ".join(parts)


def _short(value: Any) -> str:
    """Write a parameter; long lists are cut."""
    if isinstance(value, list | tuple):
        entries = map(_short, value[:_MOST_ENTRIES])
        return f"({', '.join(entries)}{', ...' * (len(value) > _MOST_ENTRIES)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
