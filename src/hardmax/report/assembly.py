"""The report of a results folder: what the experiments and the audit left there, on one page."""

from pathlib import Path

from hardmax.audit.runner import read_audit
from hardmax.experiments.registry import experiment_chapters, level_of
from hardmax.experiments.runner import load_records
from hardmax.experiments.store import read_tables
from hardmax.report.page import Chapter, write_report


def build_report(out: Path) -> Path:
    """Write `OUT/report.html` and return its path.

    Raises:
        ArgumentError: If the folder holds no results.
    """
    chapters = [Chapter(title, names) for title, names in experiment_chapters().items()]
    records = load_records(out)
    levels = {record.name: level_of(record) for record in records}
    return write_report(out, records, chapters, read_audit(out / "audit"), read_tables(out), levels)
