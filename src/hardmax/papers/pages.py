"""HTML pages that need no other file: they run no scripts, load nothing, and escape every text."""

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
"""Above this many bytes a figure goes in as PNG, so that the page stays light."""
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
    """One line of the ledger, as a page shows it.

    Attributes:
        id: The claim, for example `"V.2"`.
        where: Where it stands.
        statement: The claim in our own words.
        verdict: What the check found, for example `"false"`.
        explanation: Why, with the numbers just computed.
        corrected: The corrected or sharp statement; may be empty.
        repeats: The claim that says the same and is counted in its place; empty if none does.

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
    """Put a body of HTML into a page with the one style sheet, and what it needs besides."""
    style = files("hardmax.papers").joinpath("page.css").read_text(encoding="utf-8") + more_style
    return _PAGE.format(title=escape(title), style=style, body=body)


def figure_image(stem: Path, alternative: str) -> str:
    """Embed `STEM.svg`, or where that is heavy `STEM.png`; nothing if there is neither.

    On a narrow page `STEM-narrow` takes its place, if there is one.
    """
    wide = _lightest(stem)
    if wide is None:
        return ""
    narrow = _lightest(stem.with_name(f"{stem.name}-narrow"))
    shown = image(*wide, alternative)
    if narrow is None:
        return shown
    source = f'<source media="(max-width: 40rem)" srcset="{_data(*narrow)}">'
    return "<picture>" + source + shown.replace(' class="wide"', "") + "</picture>"


def _lightest(stem: Path) -> tuple[bytes, str] | None:
    """Read a figure and say of which kind it is: a drawing, if it is not too heavy, or pixels."""
    svg, png = stem.with_name(stem.name + ".svg"), stem.with_name(stem.name + ".png")
    if svg.is_file() and svg.stat().st_size <= LARGEST_DRAWING:
        return svg.read_bytes(), "svg+xml"
    return (png.read_bytes(), "png") if png.is_file() else None


def image(data: bytes, kind: str, alternative: str) -> str:
    """Embed a picture of a kind, `"png"` or `"svg+xml"`.

    One much wider than high has the class `wide`: on a narrow screen it scrolls, the others shrink.
    """
    wide = ' class="wide"' if _aspect(data, kind) > _WIDE else ""
    return f'<img{wide} alt="{escape(alternative)}" src="{_data(data, kind)}">'


def _data(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode('ascii')}"


def sentence(text: str) -> str:
    """Write a text as HTML, formulas set, works linked to the bibliography.

    Examples:
        >>> sentence("the bound of [Mon17]")
        'the bound of <a href="#work-Mon17">[Mon17]</a>'
    """
    return _WORK.sub(r'<a href="#work-\1">[\1]</a>', typeset(text))


def bibliography() -> str:
    """List the works that pages name, each with a link where there is one."""
    lines = []
    for key, work in BIBLIOGRAPHY.items():
        short = work.address.removeprefix("https://")
        link = f' <a href="{work.address}">{short}</a>' if short else ""
        words = escape(f"{work.authors}: {work.title}. {work.where}.")
        lines.append(f'<li id="work-{key}"><strong>[{key}]</strong> {words}{link}</li>')
    works = f'<ul class="works">{"".join(lines)}</ul>'
    return f'<section id="works"><h2>Bibliography</h2>{works}</section>'


def _aspect(data: bytes, kind: str) -> float:
    """Read width over height off the start of a picture; 1 where it does not say."""
    if kind == "png":
        width, height = (int.from_bytes(data[k : k + 4]) for k in (16, 20))
        return width / height if height else 1.0
    found = re.search(rb'viewBox="0 0 ([0-9]+)[0-9.]* ([1-9][0-9]*)', data[:2000])
    return int(found[1]) / int(found[2]) if found else 1.0


def data_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = _MOST_ROWS
) -> str:
    """Write the first rows of a table, `most` of them; numbers stand to the right.

    Examples:
        >>> data_table(["n_cells"], [(92,)]).count("<td")
        1
    """
    head = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(_entry(value) for value in row) + "</tr>" for row in rows[:most]
    )
    more = (
        f'<p class="small">the first {most} of {len(rows)} rows; all of them are in the '
        "folder <code>tables</code></p>"
        if len(rows) > most
        else ""
    )
    return (
        f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{more}"
    )


def badge(verdict: str) -> str:
    """Write a verdict in its colour."""
    return f'<span class="verdict {escape(verdict.replace(" ", "-"))}">{escape(verdict)}</span>'


def ledger(rulings: Sequence[Ruling], pictures: Mapping[str, bytes] | None = None) -> str:
    """Write the claims with their verdicts, counted, and SVG pictures by claim where there are."""
    drawn = pictures or {}
    here = {ruling.id for ruling in rulings}
    first = [ruling for ruling in rulings if ruling.repeats not in here]
    tally = Counter(ruling.verdict for ruling in first)
    order = {verdict: k for k, verdict in enumerate(_VERDICTS)}
    ranked = sorted(tally, key=lambda verdict: order.get(verdict, len(order)))
    counts = ", ".join(f"{tally[verdict]} {verdict}" for verdict in ranked)
    rows = "".join(_ruling(ruling, drawn.get(ruling.id)) for ruling in rulings)
    again = len(rulings) - len(first)
    repeated = f" ({again} more are said again elsewhere)" if again else ""
    return (
        f"<p>{len(first)} claims{repeated}, each with a check that recomputes its verdict: "
        f'{escape(counts)}.</p>\n<div class="table"><table class="ledger"><thead><tr>'
        "<th>claim</th><th>in our words</th><th>verdict</th><th>why</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _ruling(ruling: Ruling, picture: bytes | None) -> str:
    found = sentence(ruling.explanation)
    if ruling.corrected:
        found += f'<div class="corrected">{sentence(ruling.corrected)}</div>'
    if picture is not None:
        drawn = image(picture, "svg+xml", f"the picture of {ruling.id}")
        found += f"<details><summary>picture</summary>{drawn}</details>"
    return (
        f'<tr id="claim-{escape(ruling.id)}"><td><strong>{escape(ruling.id)}</strong>'
        f'<div class="small">{escape(ruling.where)}{_repeated(ruling)}</div></td>'
        f"<td>{sentence(ruling.statement)}</td>"
        f"<td>{badge(ruling.verdict)}</td><td>{found}</td></tr>\n"
    )


def _repeated(ruling: Ruling) -> str:
    return f"; says again what {escape(ruling.repeats)} says" if ruling.repeats else ""


def _entry(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    text = str(value) if isinstance(value, int) else f"{value:.4g}"
    return f'<td class="number">{text}</td>'
