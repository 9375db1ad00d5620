"""`make bench`: run every comparison and write a page; exits with status 1 if one fails.

A comparison fails if a count of hardmax is wrong, or if hardmax is slower relative to another
program than the comparison allows; ratios within one run are comparable across machines. Missing
programs are listed with instructions for installing them. `--write` also puts the tables into
README.md and updates the picture of the growth.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparisons import SECTIONS, time_growing_networks
from benchmarks.machine import current_moment, describe, format_line
from benchmarks.measuring import Comparison, Measured
from benchmarks.peer_programs import Programs
from benchmarks.tables import Table, replace_between_marks, to_markdown
from hardmax._ground.files import write_text
from hardmax.papers.pages import embed_image, page
from hardmax.plotting.style import create_row, off_screen

_README = Path(__file__).with_name("README.md")
_PICTURE = "../docs/images/growth.svg"

Growth = Sequence[tuple[str, list[int], list[float]]]
"""For each program: its name, the number of cells of every network, and the CPU seconds."""

_GROWN = "Networks 2->[w, w, w] on the square. A wrong count has no mark."
_SET_UP = 300
"""Number of cells up to which the set-up time matters."""

_WAYS = {
    "SyReNN": "build benchmarks/drive_syrenn.cc as its first lines say, set HARDMAX_SYRENN",
    "relucent": "pip install relucent in an environment of its own, HARDMAX_PEERS is its python",
    "tropical-gemm": "pip install tropical-gemm",
    "torch": "pip install torch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--peers", default=os.environ.get("HARDMAX_PEERS"))
    parser.add_argument("--syrenn", default=os.environ.get("HARDMAX_SYRENN"))
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    parser.add_argument("sections", nargs="*", help="words that titles begin with; all if none")
    chosen = parser.parse_args()
    if chosen.write and chosen.sections:
        parser.error("--write needs all sections")
    programs = Programs(chosen.peers, chosen.syrenn)
    began = current_moment()
    tables = []
    for title, counted, section in SECTIONS:
        if chosen.sections and not title.lower().startswith(tuple(chosen.sections)):
            continue
        print(f"== {title}", flush=True)
        found = section(programs)
        for comparison in found:
            print("\n".join(_read_lines(comparison)), flush=True)
        tables.append((title, counted, (section.__doc__ or "").strip(), found))
    growth = [] if chosen.sections else time_growing_networks(programs)
    failures = [text for *_, found in tables for one in found for text in one.failures]
    facts = describe(began)
    chosen.out.mkdir(parents=True, exist_ok=True)
    target = chosen.out / "benchmarks.html"
    write_text(target, page("hardmax: benchmarks", _page_body(facts, tables, growth, failures)))
    kept = {
        "machine": facts,
        "tables": {title: [asdict(one) for one in found] for title, *_, found in tables},
        "growth": growth,
        "failures": failures,
    }
    write_text(chosen.out / "benchmarks.json", json.dumps(kept, indent=1))
    if chosen.write:
        replace_between_marks(_README, "side by side", _format_markdown(facts, tables, growth))
        (_README.parent / _PICTURE).write_bytes(_draw_growth(growth))
    print(f"page: {target}")
    if failures:
        sys.exit("\n".join(["failed:", *failures]))


def _read_lines(comparison: Comparison) -> list[str]:
    return [
        f"{comparison.case:36}{one.program:28}{_format_count(one):>9}{one.seconds:12.5f} "
        f"{_format_verdict(comparison, one)}"
        for one in comparison.found
    ]


def _format_count(one: Measured) -> str:
    return "" if one.count is None else str(one.count)


def _format_verdict(comparison: Comparison, one: Measured) -> str:
    if one.count is None:
        return one.remark
    if one.count != comparison.truth:
        return f"WRONG: {comparison.truth}"
    ratio = comparison.ratio(one)
    if one is comparison.found[0] or ratio is None:
        return one.remark
    return f"{ratio:.3g} times as long" + (f" ({one.remark})" if one.remark else "")


def _page_body(
    facts: dict[str, str],
    tables: Sequence[tuple[str, str, str, list[Comparison]]],
    growth: Growth,
    failures: Sequence[str],
) -> str:
    where = "; ".join(facts.values())
    everyone = {one for *_, found in tables for row in found for one in row.found}
    absent = sorted({one.program for one in everyone if one.remark == "not there"})
    parts = [
        "<header><h1>Benchmarks</h1>"
        '<p class="lead">CPU seconds from arrays to the answer, models built anew each time, every '
        "program on the same input in one run. A program that counts wrongly gets no "
        "ratio. hardmax proves every sign; the others round, except where a table says so.</p>"
        f'<p class="small">{escape(where)}</p></header>'
    ]
    if absent:
        ways = "".join(f"<li>{escape(name)}: {escape(_WAYS[name])}</li>" for name in absent)
        parts.append(f"<p>Not there in this run:</p><ul>{ways}</ul>")
    if failures:
        words = "".join(f"<li>{escape(text)}</li>" for text in failures)
        parts.append(f'<p class="verdict false">What fell short:</p><ul>{words}</ul>')
    for title, counted, words, found in tables:
        parts.append(
            f"<h2>{escape(title)}</h2><p>{escape(words)}</p>{_format_table(counted, found)}"
        )
    if growth:
        parts.append(f"<h2>Growth</h2>{_growth_section(growth)}")
    parts.append(f"<p>{escape(_list_faster(tables))}</p>")
    return "\n".join(parts)


def _format_table(counted: str, found: Sequence[Comparison]) -> str:
    head = "".join(
        f"<th>{word}</th>"
        for word in ("case", "program", counted, "CPU s", "times as long", "MB", "")
    )
    rows = "".join(_format_row(comparison, one) for comparison in found for one in comparison.found)
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="table">{inner}</div>'


def _format_row(comparison: Comparison, one: Measured) -> str:
    is_ours = one is comparison.found[0]
    case = escape(comparison.case.replace("->", "→")) if is_ours else ""
    name = f"<strong>{escape(one.program)}</strong>" if is_ours else escape(one.program)
    if one.count is None:
        return f'<tr><td>{case}</td><td>{name}</td><td colspan="5">{escape(one.remark)}</td></tr>'
    is_right = one.count == comparison.truth
    remark = escape(one.remark)
    if not is_right:
        remark = f'<span class="verdict false">wrong: there are {comparison.truth}</span>'
    ratio = None if is_ours else comparison.ratio(one)
    numbers = (
        str(one.count),
        f"{one.seconds:.3g}",
        "" if ratio is None else f"{ratio:.3g}",
        _format_megabytes(one.megabytes),
    )
    cells = "".join(f'<td class="number">{escape(number)}</td>' for number in numbers)
    return f"<tr><td>{case}</td><td>{name}</td>{cells}<td>{remark}</td></tr>"


def _format_megabytes(risen: float | None) -> str:
    if risen is None:
        return ""
    return f"{risen:.0f}" if risen >= 1.0 else "< 1"


def _growth_section(growth: Growth) -> str:
    """Return the section that shows seconds against cells."""
    words = f"{_GROWN} {_format_exponents(growth)}"
    drawn = embed_image(_draw_growth(growth), "svg+xml", "CPU seconds against cells")
    return f"<p>{escape(words)}</p><figure>{drawn}</figure>"


def _draw_growth(growth: Growth) -> bytes:
    """Draw seconds against cells with the fitted lines."""
    with off_screen():
        figure, (ax,) = create_row(1)
        for (name, cells, seconds), mark in zip(growth, "os^Dv", strict=False):
            (points,) = ax.loglog(cells, seconds, mark, label=name, ms=5)
            if (line := _fit_line(cells, seconds)) is not None:
                ends = np.array([_SET_UP, max(cells)])
                ax.loglog(ends, np.exp(np.polyval(line, np.log(ends))), color=points.get_color())
        ax.set_xlabel("cells")
        ax.set_ylabel("CPU seconds")
        ax.legend()
        stream = BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def _fit_line(cells: list[int], seconds: list[float]) -> Any:
    """Fit a line to the logarithms, from the size where set-up becomes negligible."""
    many = np.array(cells) > _SET_UP
    if many.sum() < 2:
        return None
    return np.polyfit(np.log(np.array(cells)[many]), np.log(np.array(seconds)[many]), 1)


def _format_exponents(growth: Growth) -> str:
    """Describe the exponents with which the seconds grow with the cells."""
    lines = {name: _fit_line(cells, seconds) for name, cells, seconds in growth}
    slopes = [f"{name} {line[0]:.2f}" for name, line in lines.items() if line is not None]
    return f"Fitted exponents: {', '.join(slopes)}."


def _format_markdown(
    facts: dict[str, str],
    tables: Sequence[tuple[str, str, str, list[Comparison]]],
    growth: Growth,
) -> str:
    """Write the tables as Markdown, each case once."""
    parts = [
        to_markdown(
            Table(
                title,
                ("case", "program", counted, "CPU s", "times as long", "MB"),
                [
                    _format_entries(comparison, one)
                    for comparison in found
                    for one in comparison.found
                ],
                words,
            )
        )
        for title, counted, words, found in tables
    ]
    if growth:
        parts.append(
            f"### Growth\n\n![CPU seconds against cells, with fitted lines]({_PICTURE})\n\n"
            f"{_GROWN} {_format_exponents(growth)}\n"
        )
    parts.append(f"{_list_faster(tables)}\n")
    return "\n".join([*parts, format_line("python -m benchmarks.page", facts), ""])


def _list_faster(tables: Sequence[tuple[str, str, str, list[Comparison]]]) -> str:
    """Describe where other programs are correct and faster, and by which factor."""
    ratios = [
        (one.program, comparison.case, ratio)
        for *_, found in tables
        for comparison in found
        for one in comparison.found[1:]
        if (ratio := comparison.ratio(one)) is not None and ratio < 1.0
    ]
    said = "; ".join(f"{name} on {case}, {1 / ratio:.3g} times" for name, case, ratio in ratios)
    return f"Cases in which another program is correct and faster: {said or 'none'}."


def _format_entries(comparison: Comparison, one: Measured) -> Sequence[Any]:
    is_ours = one is comparison.found[0]
    case = comparison.case if is_ours else ""
    if one.count is None:
        return case, one.program, None, None, one.remark, None
    said = f"wrong: {comparison.truth}" if one.count != comparison.truth else None
    ratio = None if is_ours else comparison.ratio(one)
    return (
        case,
        one.program,
        one.count,
        one.seconds,
        said or ratio,
        _format_megabytes(one.megabytes),
    )


if __name__ == "__main__":
    main()
