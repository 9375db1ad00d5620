"""`hardmax reproduce` and `hardmax query`: every result again, and questions about them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

_OUT = Path("results")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which experiments; all of them if none is named.")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments and stop.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: under a minute.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The largest sizes: takes long.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for records, figures, tables and the report.")
    ] = _OUT,
    again: Annotated[
        bool, typer.Option("--again", help="Run also what is already done and unchanged.")
    ] = False,
) -> None:
    """Regenerate the papers' figures, tables and examples, the ledger, and one page of it all."""
    from hardmax.cli.audit_beside import audit_beside, audit_summary
    from hardmax.errors import ArgumentError
    from hardmax.experiments.registry import Level, experiment_titles
    from hardmax.experiments.runner import run_experiments
    from hardmax.report.assembly import build_report

    if quick and full:
        raise ArgumentError("`--quick` and `--full` exclude each other; give one of them.")
    if list_only:
        for name, title in experiment_titles().items():
            print(f"{name:<16}{title}")
        return
    level: Level = "quick" if quick else "full" if full else "default"
    try:
        if names:
            run_experiments(names, out, level=level, again=again)
        else:
            # Verdicts are recomputed every time; it takes seconds.
            with audit_beside(out / "audit") as audit:
                run_experiments(list(experiment_titles()), out, level=level, again=again)
                print(f"audit: {audit_summary(audit)}")
        print(f"report: {build_report(out)}")
    except OSError as error:
        raise ArgumentError(f"`out` must be a folder that can be written; {error}.") from None
    except KeyboardInterrupt:
        print(
            f"hardmax: interrupted; what is finished is in {out}, and the same command goes on "
            "from there",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def query(
    sql: Annotated[str, typer.Argument(help="A query over the tables, for example 'SHOW TABLES'.")],
    out: Annotated[Path, typer.Option(help="The results folder.")] = _OUT,
) -> None:
    """Ask the results a question in SQL."""
    from rich.console import Console
    from rich.table import Table

    from hardmax.experiments.store import query as run_query

    columns, rows = run_query(out, sql)
    table = Table()
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    Console(markup=False).print(table)
