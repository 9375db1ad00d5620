"""`hardmax reproduce` and `hardmax query`: recompute all results, and query them with SQL."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hardmax.papers.registry import Level

_OUT = Path("results")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="The experiments to run (default: all).")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments and exit.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small sizes; takes less than a minute.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Use the largest sizes; takes a long time.")
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Write records, figures, tables and the report to this folder. --quick and --full "
            "use the subfolders quick and full."
        ),
    ] = _OUT,
    again: Annotated[
        bool,
        typer.Option("--again", help="Run experiments again even if their results are up to date."),
    ] = False,
) -> None:
    """Regenerate the papers' figures, tables and examples, the ledger, and a report on one page."""
    from hardmax.errors import ArgumentError
    from hardmax.papers.experiment_runs import run_experiments
    from hardmax.papers.registry import experiment_titles
    from hardmax.papers.report import build_report

    level = _choose_level(quick, full)
    if list_only:
        for name, title in experiment_titles().items():
            print(f"{name:<16}{title}")
        return
    try:
        if names:
            run_experiments(names, out, level=level, again=again)
        else:
            _run_all(out, level, again)
        print(f"report: {build_report(out, level)}")
    except OSError as error:
        where = f"{error.filename}: {error.strerror}" if error.filename else error
        raise ArgumentError(f"`out` must be a writable folder; {where}.") from None
    except KeyboardInterrupt:
        print(
            f"hardmax: interrupted; finished results are in {out}, and the same command resumes "
            "from there",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def _run_all(out: Path, level: "Level", again: bool) -> None:
    """Run every experiment and the audit; results that are up to date are kept."""
    from hardmax.cli.audit_beside import start_audit, wait_for_audit
    from hardmax.papers.audit import read_current_summary
    from hardmax.papers.experiment_runs import run_experiments
    from hardmax.papers.registry import experiment_titles

    names = list(experiment_titles())
    kept = None if again else read_current_summary(out / "audit")
    if kept is not None:
        run_experiments(names, out, level=level, again=again)
        print(f"audit: {kept} (up to date)")
        return
    with start_audit(out / "audit") as audit:
        run_experiments(names, out, level=level, again=again)
        print(f"audit: {wait_for_audit(audit)}")


def _choose_level(quick: bool, full: bool) -> "Level":
    from hardmax.errors import ArgumentError

    if quick and full:
        raise ArgumentError("`--quick` and `--full` exclude each other; give only one of them.")
    return "quick" if quick else "full" if full else "default"


def query(
    sql: Annotated[str, typer.Argument(help="The SQL query, for example 'SHOW TABLES'.")],
    out: Annotated[Path, typer.Option(help="The folder of the results.")] = _OUT,
    quick: Annotated[
        bool, typer.Option("--quick", help="Query the results of `reproduce --quick`.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Query the results of `reproduce --full`.")
    ] = False,
) -> None:
    """Run an SQL query on the results."""
    from rich.console import Console
    from rich.table import Table

    from hardmax.papers.experiment_runs import level_folder
    from hardmax.papers.store import query as run_query

    columns, rows = run_query(level_folder(out, _choose_level(quick, full)), sql)
    table = Table()
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    Console(markup=False).print(table)
