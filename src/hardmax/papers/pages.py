"""Self-contained HTML pages: no scripts, no external files, and all text escaped."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from hardmax._ground.display import html_card, short_repr
from hardmax.papers.findings import BIBLIOGRAPHY
from hardmax.papers.mathematics import typeset

LARGEST_DRAWING = 400_000
"""Figures larger than this many bytes are embedded as PNG, which keeps the page small."""
_MOST_ROWS = 40
_WIDE = 1.6
_WORK = re.compile(rf"\[({'|'.join(BIBLIOGRAPHY)})\]")
_VERDICTS = ("holds", "holds with conditions", "loose", "false", "not checkable")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class Ruling:
    """One entry of the ledger, as a page shows it.

    Attributes:
        id: The id of the claim, for example `"V.2"`.
        where: The place of the claim in the paper.
        statement: Our paraphrase of the claim.
        verdict: The verdict of the check, for example `"false"`.
        explanation: The reason for the verdict, with the numbers that the check computed.
        corrected: The corrected or sharp statement; may be empty.
        repeats: The id of the claim that this one repeats, which is counted instead; empty if there
            is none.

    Examples:
        >>> line = Ruling("V.2", "Theorem V.2", "At most 216.", "loose", "There are 92.")
        >>> line.verdict, line.corrected
        ('loose', '')
    """

    id: str
    where: str
    statement: str
    verdict: str
    explanation: str
    corrected: str = ""
    repeats: str = ""

    __repr__ = short_repr
    _repr_html_ = html_card


def page(title: str, body: str, more_style: str = "") -> str:
    """Return a page with this title and HTML body, the style sheet, and `more_style`."""
    style = files("hardmax.papers").joinpath("page.css").read_text(encoding="utf-8") + more_style
    return _PAGE.format(title=escape(title), style=style, body=body)


def embed_figure(stem: Path, alternative: str) -> str:
    """Embed `STEM.svg`, or `STEM.png` if the SVG is too large; return "" if there is neither.

    On a narrow page, `STEM-narrow` replaces it if that file exists.
    """
    wide = _read_figure(stem)
    if wide is None:
        return ""
    narrow = _read_figure(stem.with_name(f"{stem.name}-narrow"))
    shown = embed_image(*wide, alternative)
    if narrow is None:
        return shown
    source = f'<source media="(max-width: 40rem)" srcset="{_data_uri(*narrow)}">'
    return "<picture>" + source + shown.replace(' class="wide"', "") + "</picture>"


def _read_figure(stem: Path) -> tuple[bytes, str] | None:
    """Read a figure and return it with its kind: SVG if that is small enough, else PNG."""
    svg, png = stem.with_name(stem.name + ".svg"), stem.with_name(stem.name + ".png")
    if svg.is_file() and svg.stat().st_size <= LARGEST_DRAWING:
        return svg.read_bytes(), "svg+xml"
    return (png.read_bytes(), "png") if png.is_file() else None


def embed_image(data: bytes, kind: str, alternative: str) -> str:
    """Embed a picture of a kind, `"png"` or `"svg+xml"`.

    A picture much wider than high has the class `wide`: on a narrow screen it scrolls, while other
    pictures shrink.
    """
    wide = ' class="wide"' if _aspect_ratio(data, kind) > _WIDE else ""
    return f'<img{wide} alt="{escape(alternative)}" src="{_data_uri(data, kind)}">'


def _data_uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode('ascii')}"


def format_sentence(text: str) -> str:
    """Write a text as HTML with formulas typeset and works linked to the bibliography.

    Examples:
        >>> format_sentence("the bound of [Mon17]")
        'the bound of <a href="#work-Mon17">[Mon17]</a>'
    """
    return _WORK.sub(r'<a href="#work-\1">[\1]</a>', typeset(text))


def bibliography_html() -> str:
    """List the cited works, each with a link if there is one."""
    lines = []
    for key, work in BIBLIOGRAPHY.items():
        short = work.address.removeprefix("https://")
        link = f' <a href="{work.address}">{short}</a>' if short else ""
        words = escape(f"{work.authors}: {work.title}. {work.where}.")
        lines.append(f'<li id="work-{key}"><strong>[{key}]</strong> {words}{link}</li>')
    works = f'<ul class="works">{"".join(lines)}</ul>'
    return f'<section id="works"><h2>Bibliography</h2>{works}</section>'


def _aspect_ratio(data: bytes, kind: str) -> float:
    """Read the ratio of width to height from the start of a picture; 1 if it is not given."""
    if kind == "png":
        width, height = (int.from_bytes(data[k : k + 4]) for k in (16, 20))
        return width / height if height else 1.0
    found = re.search(rb'viewBox="0 0 ([0-9]+)[0-9.]* ([1-9][0-9]*)', data[:2000])
    return int(found[1]) / int(found[2]) if found else 1.0


def format_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = _MOST_ROWS
) -> str:
    """Write the first `most` rows of a table, with numbers aligned to the right.

    Examples:
        >>> format_table(["n_cells"], [(92,)]).count("<td")
        1
    """
    head = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(_table_cell(value) for value in row) + "</tr>" for row in rows[:most]
    )
    more = (
        f'<p class="small">the first {most} of {len(rows)} rows; all rows are in the folder '
        "<code>tables</code></p>"
        if len(rows) > most
        else ""
    )
    return (
        f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{more}"
    )


def verdict_badge(verdict: str) -> str:
    """Write a verdict, highlighted in its colour."""
    return f'<span class="verdict {escape(verdict.replace(" ", "-"))}">{escape(verdict)}</span>'


def ledger_html(rulings: Sequence[Ruling], pictures: Mapping[str, bytes] | None = None) -> str:
    """Write the claims with their verdicts and SVG pictures, and the counts of verdicts."""
    drawn = pictures or {}
    here = {ruling.id for ruling in rulings}
    first = [ruling for ruling in rulings if ruling.repeats not in here]
    tally = Counter(ruling.verdict for ruling in first)
    order = {verdict: k for k, verdict in enumerate(_VERDICTS)}
    ranked = sorted(tally, key=lambda verdict: order.get(verdict, len(order)))
    counts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in ranked)
    rows = "".join(_ruling_html(ruling, drawn.get(ruling.id)) for ruling in rulings)
    again = len(rulings) - len(first)
    total = f"{len(first)} claim{'s' * (len(first) != 1)}{repetition_remark(again)}"
    return (
        f"<p>{total}, each with a check that recomputes its verdict: "
        f'{escape(counts)}.</p>\n<div class="table"><table class="ledger"><thead><tr>'
        "<th>claim</th><th>statement (paraphrased)</th><th>verdict</th><th>reason</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _ruling_html(ruling: Ruling, picture: bytes | None) -> str:
    found = format_sentence(ruling.explanation)
    if ruling.corrected:
        found += f'<div class="corrected">{format_sentence(ruling.corrected)}</div>'
    if picture is not None:
        drawn = embed_image(picture, "svg+xml", f"picture for claim {ruling.id}")
        found += f"<details><summary>picture</summary>{drawn}</details>"
    return (
        f'<tr id="claim-{escape(ruling.id)}"><td><strong>{escape(ruling.id)}</strong>'
        f'<div class="small">{escape(ruling.where)}{_repetition_note(ruling)}</div></td>'
        f"<td>{format_sentence(ruling.statement)}</td>"
        f"<td>{verdict_badge(ruling.verdict)}</td><td>{found}</td></tr>\n"
    )


def repetition_remark(count: int) -> str:
    """Return a remark on the number of claims that only repeat others; empty for none.

    Examples:
        >>> repetition_remark(1), repetition_remark(2)
        (' (1 more repeats another claim)', ' (2 more repeat other claims)')
    """
    words = "repeats another claim" if count == 1 else "repeat other claims"
    return f" ({count} more {words})" if count else ""


def _repetition_note(ruling: Ruling) -> str:
    return f"; repeats {escape(ruling.repeats)}" if ruling.repeats else ""


def _table_cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f'<td class="number">{text}</td>'
