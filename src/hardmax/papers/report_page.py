"""The page of all results, each with its figure, its caption and the verdicts on related claims.

The page is made only from the files of a results folder: records, figures and tables.
"""

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from hardmax._ground.files import write_text
from hardmax._ground.records import Record
from hardmax.errors import ArgumentError
from hardmax.papers.findings import BIBLIOGRAPHY, FINDINGS, Finding
from hardmax.papers.ledger import is_part_of
from hardmax.papers.pages import (
    Ruling,
    bibliography_html,
    embed_figure,
    format_sentence,
    format_table,
    ledger_html,
    page,
    verdict_badge,
)

_MOST_ENTRIES = 8
_MOST_RULINGS = 3

_HEADLINES = {"What holds": "holds", "What is false": "false", "What is new": "new"}

Tables = Mapping[str, tuple[Sequence[str], Sequence[Sequence[Any]]]]
"""The columns and rows of each table, by the name of the table."""


@dataclass(frozen=True)
class Chapter:
    """Experiments under one heading: the title, and the names of the experiments in order."""

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
        chapters: The headings with the names of their experiments; experiments without a record
            are left out.
        rulings: The ledger.
        tables: Tables named `NAME_TABLE`, each shown with the experiment NAME.
        levels: The level of each record, `"quick"`, `"default"` or `"full"`, by the name of the
            record. If it is None or absent, the caption has no command.

    Returns:
        The path of the page.

    Raises:
        ArgumentError: If `records` is empty.
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
    body = [
        _header_html(),
        _findings_html(verdicts, by_name),
        _contents_html(shown, by_name, bool(rulings)),
    ]
    body.append(_outcomes_html(shown, by_name, verdicts))
    for chapter in shown:
        body.append(f"<h2>{escape(chapter.title)}</h2>")
        body += [
            _section_html(by_name[name], out, verdicts, tables or {}, known.get(name))
            for name in chapter.names
        ]
    if rulings:
        body.append(f'<section id="ledger"><h2>The ledger</h2>{ledger_html(rulings)}</section>')
    body += [bibliography_html(), _footer_html(out, records, known)]
    path = out / "report.html"
    title = "hardmax: the exact geometry of transformers at zero temperature"
    write_text(path, page(title, "\n".join(body)))
    return path


def _header_html() -> str:
    papers = " and ".join(
        f'<a href="{BIBLIOGRAPHY[key].address}">{escape(BIBLIOGRAPHY[key].title)}</a> '
        f'(<a href="#work-{key}">{key}</a>)'
        for key in ("SL26", "GYZ26")
    )
    return (
        "<header><h1>The exact geometry of transformers at zero temperature</h1>"
        f'<p class="lead">Two papers, {papers}, recomputed: every figure, table and example, with '
        "the claims of the papers next to the true statements, and the verdicts of checks that "
        "anyone can run. Where no paper is named, the paper is [SL26].</p></header>"
    )


def _footer_html(out: Path, records: Sequence[Record], levels: Mapping[str, str | None]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in records[0].versions.items())
    seconds = sum(record.seconds for record in records)
    n_quick = sum(levels.get(record.name) == "quick" for record in records)
    quick = (
        f"{n_quick} of them were computed at the small sizes of <code>--quick</code>; run "
        "<code>hardmax reproduce</code> for the default sizes. "
        if n_quick
        else ""
    )
    return (
        f'<footer class="small">{len(records)} results, {seconds:.0f} seconds of computation. '
        f"{quick}{_format_dates(out, records)}{platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores; "
        f"{escape(versions)}.</footer>"
    )


def _format_dates(out: Path, records: Sequence[Record]) -> str:
    """Return the dates on which the records were written; empty if they have no files."""
    paths = [out / f"{record.name}.json" for record in records]
    found = sorted(date.fromtimestamp(path.stat().st_mtime) for path in paths if path.exists())
    return " to ".join(dict.fromkeys(f"{day}" for day in found[:1] + found[-1:])) + "; " * bool(
        found
    )


def _findings_html(verdicts: Mapping[str, str], by_name: Mapping[str, Record]) -> str:
    """Write the headlines, grouped by the verdicts on their claims; "" without a ledger."""
    lists: dict[str, list[str]] = {title: [] for title in _HEADLINES}
    for finding in FINDINGS:
        known = [verdicts[claim] for claim in finding.claims if claim in verdicts]
        if len(known) == len(finding.claims):
            title = "What is new"
            if known:
                title = "What holds" if known[0].startswith("holds") else "What is false"
            lists[title].append(_finding_html(finding, verdicts, by_name))
    if not verdicts:
        return ""
    blocks = [
        f'<div class="{mark}"><h2>{title}</h2><ul>{"".join(lists[title])}</ul></div>'
        for title, mark in _HEADLINES.items()
    ]
    return f'<section id="findings" class="findings">{"".join(blocks)}</section>'


def _finding_html(
    finding: Finding, verdicts: Mapping[str, str], by_name: Mapping[str, Record]
) -> str:
    links = [f'<a href="#claim-{escape(claim)}">{escape(claim)}</a>' for claim in finding.claims]
    if finding.experiment in by_name:
        words = "figure" if finding.claims else "result"
        links.append(f'<a href="#{escape(finding.experiment)}">{words}</a>')
    more = f' <span class="small">({", ".join(links)})</span>' if links else ""
    return f"<li>{format_sentence(finding.sentence)}{more}</li>"


def _outcomes_html(
    chapters: Sequence[Chapter], by_name: Mapping[str, Record], verdicts: Mapping[str, str]
) -> str:
    """Write a table with the verdicts on the claims of each figure and example."""
    rows = []
    for chapter in chapters:
        for name in chapter.names:
            results = by_name[name].results
            found = _find_rulings(results["claims"], verdicts)
            if len(found) > _MOST_RULINGS:
                found = _count_verdicts(results["claims"], verdicts)
            if results["claimed"] and found:
                # The titles of figures start with the figure number.
                label = escape(results["title"].partition(":")[0])
                rows.append(
                    f'<tr><td><a href="#{escape(name)}">{label}</a></td>'
                    f"<td>{format_sentence(_capitalize(results['claimed']))}</td>"
                    f"<td>{'<br>'.join(found)}</td></tr>"
                )
    if not rows:
        return ""
    return (
        '<section id="outcomes"><h2>Verdicts by figure and example</h2><div class="table">'
        '<table class="ledger"><thead><tr><th>figure or example</th>'
        "<th>claim of the paper</th><th>verdict</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _find_rulings(claims: Sequence[str], verdicts: Mapping[str, str]) -> list[str]:
    """Return links to all entries of the ledger that are (parts of) the claims, with verdicts."""
    return [
        f'<a href="#claim-{escape(claim)}">{escape(claim)}</a>: {verdict_badge(verdict)}'
        for claim, verdict in _answered_claims(claims, verdicts)
    ]


def _count_verdicts(claims: Sequence[str], verdicts: Mapping[str, str]) -> list[str]:
    """Count the verdicts on the claims, the most frequent first."""
    counts = Counter(verdict for _, verdict in _answered_claims(claims, verdicts))
    return [f"{n} × {verdict_badge(verdict)}" for verdict, n in counts.most_common()]


def _answered_claims(claims: Sequence[str], verdicts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (claim, verdict)
        for claim, verdict in verdicts.items()
        if any(is_part_of(claim, name) for name in claims)
    ]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _contents_html(
    chapters: Sequence[Chapter], by_name: Mapping[str, Record], has_ledger: bool
) -> str:
    lines = ["<nav><strong>Contents</strong>"]
    for chapter in chapters:
        links = "".join(
            f'<li><a href="#{escape(name)}">{escape(by_name[name].results["title"])}</a></li>'
            for name in chapter.names
        )
        lines.append(f"<div>{escape(chapter.title)}</div><ul>{links}</ul>")
    if has_ledger:
        lines.append('<div><a href="#ledger">The ledger: all claims with their verdicts</a></div>')
    return "\n".join([*lines, "</nav>"])


def _section_html(
    record: Record,
    out: Path,
    verdicts: Mapping[str, str],
    tables: Tables,
    level: str | None,
) -> str:
    results = record.results
    parts = [f'<section id="{escape(record.name)}"><h3>{format_sentence(results["title"])}</h3>']
    drawn = embed_figure(out / record.name, f"{results['title']}. {results['summary']}")
    framed = f'<div class="scroll">{drawn}</div>' if drawn else ""
    found = " · ".join(_find_rulings(results["claims"], verdicts))
    caption = f"<figcaption>{found}</figcaption>" if found else ""
    if framed or caption:
        parts.append(f"<figure>{framed}{caption}</figure>")
    said = [("Claim of the paper", results["claimed"]), ("Result", results["summary"])]
    boxes = "".join(
        f"<div><h4>{heading}</h4><p>{format_sentence(_capitalize(text))}</p></div>"
        for heading, text in said
        if text
    )
    parts.append(f'<div class="pair">{boxes}</div>')
    stem = record.name.replace("-", "_") + "_"
    for table, (columns, rows) in tables.items():
        if table.startswith(stem):
            words = f"table {table.removeprefix(stem).replace('_', ' ')}, {len(rows)} rows"
            shown = format_table(columns, rows)
            parts.append(f"<details><summary>{escape(words)}</summary>{shown}</details>")
    parts.append(f"<details><summary>settings</summary>{_format_settings(record, level)}</details>")
    return "\n".join([*parts, "</section>"])


def _format_settings(record: Record, level: str | None) -> str:
    """Write the parameters of a result, and the command that recomputes it."""
    words = [
        f"{_format_name(key)} {_format_parameter(value)}"
        for key, value in record.parameters.items()
    ]
    parts = [escape("; ".join(words)), f"{record.seconds:.1f} s"]
    if level is not None:
        option = "" if level == "default" else f" --{level}"
        parts.append(f"<code>hardmax reproduce {escape(record.name + option)}</code>")
    return f'<p class="small">{" · ".join(parts)}</p>'


def _format_name(parameter: str) -> str:
    """Write the name of a parameter in words: `n_keys` becomes "number of keys"."""
    words = parameter.replace("_", " ")
    return f"number of {words.removeprefix('n ')}" if words.startswith("n ") else words


def _format_parameter(value: Any) -> str:
    """Write the value of a parameter; long lists are truncated."""
    if isinstance(value, list | tuple):
        entries = map(_format_parameter, value[:_MOST_ENTRIES])
        return f"({', '.join(entries)}{', ...' * (len(value) > _MOST_ENTRIES)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
