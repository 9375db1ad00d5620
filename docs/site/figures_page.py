"""The page with the recomputed figures and examples of the papers, from `make reproduce`."""

import contextlib
import io
import shutil
from pathlib import Path

from ledger_page import SECTIONS, first_said, marked_up

from hardmax._ground.records import Record
from hardmax.papers.audit import read_audit
from hardmax.papers.experiment_runs import run_experiments
from hardmax.papers.ledger import is_part_of
from hardmax.papers.pages import LARGEST_DRAWING
from hardmax.papers.registry import experiment_chapters, experiment_titles
from hardmax.papers.report import build_report

INTRODUCTION = """# The papers' figures, recomputed

This page recomputes every figure, table and example of [SL26] and [GYZ26]. Each entry has the claim
of the paper, the result, and the verdicts of [the ledger](right_and_wrong.md). `make reproduce`
computes all of it and writes a single self-contained page, <a href="report.html">the report</a>,
with the tables and settings behind every picture. Where no paper is named, the paper is [SL26].

"""


def figures_pages(folder: Path) -> dict[str, str | bytes]:
    """Return the page and its pictures; results in `folder` that are up to date are reused."""
    with contextlib.redirect_stdout(io.StringIO()):
        records = run_experiments(list(experiment_titles()), folder)
    by_name = {record.name: record for record in records}
    rulings = first_said(read_audit(folder / "audit"))
    verdicts = {ruling.id: ruling.verdict for ruling in rulings}
    pages: dict[str, str | bytes] = {}
    text = INTRODUCTION
    for title, names in experiment_chapters().items():
        text += f"## {title}\n\n"
        for name in names:
            wide, narrow = (_picture(folder, f"{name}{end}") for end in ("", "-narrow"))
            pages |= {f"papers/{path.name}": path.read_bytes() for path in (wide, narrow) if path}
            text += _entry(by_name[name], wide, narrow, verdicts)
    pages["papers/figures.md"] = text
    return pages


def write_report(folder: Path, path: Path) -> None:
    """Put the report among the pages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build_report(folder), path)


def _picture(folder: Path, stem: str) -> Path | None:
    """Return the SVG, or the PNG if the SVG is too large."""
    svg, png = folder / f"{stem}.svg", folder / f"{stem}.png"
    if svg.is_file() and svg.stat().st_size <= LARGEST_DRAWING:
        return svg
    return png if png.is_file() else None


def _entry(record: Record, wide: Path | None, narrow: Path | None, verdicts: dict[str, str]) -> str:
    results = record.results
    text = f"### {marked_up(results['title'])}\n\n"
    for path, width in ((wide, "wide"), (narrow, "narrow")):
        if path:
            shown = f"only-{width}" if narrow else "figure"
            text += f"```{{image}} {path.name}\n:alt: {results['title']}\n:class: {shown}\n```\n\n"
    said = {"Claim of the paper.": results["claimed"], "Result.": results["summary"]}
    for words, sentences in said.items():
        if sentences:
            text += f"**{words}** {marked_up(sentences[:1].upper() + sentences[1:])}\n\n"
    found = [
        f"{{ref}}`{claim} <claim-{claim.lower()}>`: {SECTIONS[verdict][1]}"
        for claim, verdict in verdicts.items()
        if any(is_part_of(claim, name) for name in results["claims"])
    ]
    return text + (f"*{'; '.join(found)}.*\n\n" if found else "")
