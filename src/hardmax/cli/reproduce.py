"""`hardmax reproduce` and `hardmax query`: every result again, and questions about them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
    from hardmax.audit.runner import run_audit, summary, write_audit
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
        with nullcontext() if names else _compiling_ahead():
            run_experiments(names or list(experiment_titles()), out, level=level, again=again)
        if not names:
            # Verdicts are recomputed every time; it takes seconds.
            results = run_audit()
            write_audit(results, out / "audit")
            print(f"audit: {summary(results)}")
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


@contextmanager
def _compiling_ahead() -> Iterator[None]:
    """Compile in a second process what later experiments need, while the first ones run.

    On a fresh machine compiling takes most of the time; what is compiled is kept on disk.
    """
    code = (
        "from hardmax.constructions.extremal_points import extremal_heads, extremal_points\n"
        "from hardmax.geometry.minkowski import minkowski_vertices\n"
        "from hardmax.geometry.refinement import common_refinement\n"
        "minkowski_vertices(extremal_points(3, 3, 3))\n"
        "common_refinement([head.forms for head in extremal_heads(3, 2, 2)])"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


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
