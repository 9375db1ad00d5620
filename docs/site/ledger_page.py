"""What the papers got right and wrong: the ledger of claims as a page."""

import re
from collections import Counter
from pathlib import Path

from hardmax.papers.audit import read_audit, read_current_summary, run_audit, write_audit
from hardmax.papers.mathematics import iter_parts
from hardmax.papers.pages import Ruling

INTRODUCTION = """# What the papers got right and wrong

This page lists every numbered statement, figure and table of [SL26] and [GYZ26], and every other
sentence there that makes an assertion, paraphrased. Each claim has a verdict, which a check
recomputes from trials whose correct answer is computed exactly
([how a verdict is derived](../audit.md)). The page is generated from the results of the checks;
`hardmax audit --claim V.2` runs those of one statement and prints the trials and numbers. The
correct statements, with proofs, are on the page [theorems](../theorems.md).

"""
SECTIONS = {
    "false": ("False as stated", "false"),
    "loose": ("True, but not sharp", "true but not sharp"),
    "holds with conditions": ("True under a condition", "true under a condition"),
    "holds": ("True", "true"),
    "not checkable": ("Not checkable", "not checkable"),
}
"""The title and the wording for each verdict."""


def ledger_page(folder: Path) -> str:
    """Return the page for the ledger in `folder`, which is recomputed if the code has changed."""
    if read_current_summary(folder) is None:
        write_audit(run_audit(), folder)
    return page_of(read_audit(folder))


def page_of(rulings: list[Ruling]) -> str:
    """Return the claims by verdict, the false ones first, without repetitions.

    Examples:
        >>> text = page_of([Ruling("V.2a", "Theorem V.2", "x < 1", "false", "x is 2")])
        >>> "Of 1 claims 1 are false, 0 true but not sharp" in text, "x is 2" in text
        (True, True)
    """
    first = first_said(rulings)
    tally = Counter(ruling.verdict for ruling in first)
    counts = ", ".join(f"{tally[verdict]} {words}" for verdict, (_, words) in SECTIONS.items())
    counts = counts.replace(" false", " are false", 1)
    text = f"{INTRODUCTION}**Of {len(first)} claims {counts}.**\n\n"
    for verdict, (title, _) in SECTIONS.items():
        entries = [_entry(ruling) for ruling in first if ruling.verdict == verdict]
        text += f"## {title}\n\n{''.join(entries)}"
    return text


def first_said(rulings: list[Ruling]) -> list[Ruling]:
    """Return the claims without those that repeat another claim."""
    here = {ruling.id for ruling in rulings}
    return [ruling for ruling in rulings if ruling.repeats not in here]


def _entry(ruling: Ruling) -> str:
    label = f"(claim-{ruling.id.lower()})="
    said = f"**{ruling.id}** ({ruling.where}). {marked_up(ruling.statement)}"
    instead = f"\n  *Instead:* {marked_up(ruling.corrected)}\n" if ruling.corrected else ""
    return f"{label}\n{said}\n\n: {marked_up(ruling.explanation)}\n{instead}\n"


def marked_up(text: str) -> str:
    r"""Typeset formulas, and escape the stars, dollars and brackets of plain text.

    Examples:
        >>> print(marked_up("2 * 3 in `a_b`, d_k"))
        2 \* 3 in `a_b`, <math><msub><mi>d</mi><mi>k</mi></msub></math>
    """
    written = {
        "formula": str,
        "code": lambda name: f"`{name}`",
        "plain": lambda words: re.sub(r"([*$<>_~^\\])", r"\\\1", words),
    }
    return "".join(written[kind](part) for kind, part in iter_parts(" ".join(text.split())))
