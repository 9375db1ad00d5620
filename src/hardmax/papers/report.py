"""Write the report of a results folder: all experiments and the ledger on one page."""

from pathlib import Path

from hardmax.papers.audit import read_audit
from hardmax.papers.experiment_runs import level_folder, load_records
from hardmax.papers.registry import Level, experiment_chapters, level_of
from hardmax.papers.report_page import Chapter, write_report
from hardmax.papers.store import read_tables


def build_report(out: Path, level: Level = "default") -> Path:
    """Write `report.html` to the folder of a level and return its path.

    Args:
        out: The folder of all levels, with the ledger in `OUT/audit`.
        level: The level to show.

    Raises:
        ArgumentError: If the folder holds no results.
    """
    folder = level_folder(out, level)
    chapters = [Chapter(title, names) for title, names in experiment_chapters().items()]
    records = load_records(folder)
    levels = {record.name: level_of(record) for record in records}
    rulings = read_audit(out / "audit")
    return write_report(folder, records, chapters, rulings, read_tables(folder), levels)
