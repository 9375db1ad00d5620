"""The report of a results folder: what the experiments and the audit left there, on one page."""

from pathlib import Path

from hardmax.audit.runner import read_audit
from hardmax.experiments.registry import experiment_chapters
from hardmax.experiments.runner import load_records
from hardmax.experiments.store import read_tables
from hardmax.report.page import Chapter, write_report


def build_report(out: Path) -> Path:
    """Write `OUT/report.html` and return its path.

    Raises:
        ArgumentError: If the folder holds no results.
    """
    chapters = [Chapter(title, names) for title, names in experiment_chapters().items()]
    rulings = read_audit(out / "audit")
    return write_report(out, load_records(out), chapters, rulings, read_tables(out))
