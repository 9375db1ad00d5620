"""`hardmax audit`: every claim of the papers, checked by running it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hardmax.papers.audit import Result

_COLOURS = {
    "holds": "green",
    "holds with conditions": "yellow",
    "loose": "yellow",
    "false": "red",
    "not checkable": "dim",
}


def audit(
    claim: Annotated[
        str | None,
        typer.Option(help="Explain one claim. V.2 stands for V.2a, V.2b and so on as well."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the claims and exit.")] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Write the record (JSON), the page (HTML) and the pictures (SVG) to this folder."
        ),
    ] = Path("results/audit"),
) -> None:
    """Recompute the verdict on every claim of the papers."""
    from rich.console import Console

    from hardmax._ground.files import make_folder
    from hardmax.papers.audit import run_audit, write_audit
    from hardmax.papers.ledger import all_claims, find_claims

    console = Console(highlight=False)
    if list_only:
        for entry in all_claims():
            print(f"{entry.id:<10}{entry.where}")
        return
    claims = all_claims() if claim is None else find_claims(claim)
    make_folder(out)
    results = run_audit(claims)
    name = "audit"
    if claim is not None:
        # The record of the whole ledger stays: one claim has files of its own.
        name = claims[0].id[: len(claim)]
        for result in results:
            _explain(console, result)
    else:
        _print_table(console, results)
    written = write_audit(results, out, name)
    console.print(f"written: {', '.join(str(path) for path in written[:2])}", soft_wrap=True)
    for path in written[2:] if claim is not None else []:
        console.print(f"picture: {path}", soft_wrap=True)


def _print_table(console: Any, results: "Sequence[Result]") -> None:
    from rich.table import Table

    from hardmax.papers.audit import summary

    table = Table(title="The claims, checked by running them", show_lines=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("what it says", ratio=3, overflow="fold")
    table.add_column("verdict", ratio=1)
    table.add_column("what was found", ratio=4, overflow="fold")
    for result in results:
        row = result.row
        style = _COLOURS[row["verdict"]]
        table.add_row(
            row["id"],
            _plain(row["statement"]),
            f"[{style}]{row['verdict']}[/]",
            _plain(row["explanation"]),
        )
    console.print(table)
    console.print(summary(results))


def _explain(console: Any, result: "Result") -> None:
    row = result.row
    style = _COLOURS[row["verdict"]]
    console.print(f"[bold]{row['id']}[/]  {_plain(row['where'])} ({row['source']})")
    console.print(f"claimed   {_plain(row['statement'])}")
    console.print(f"verdict   [{style}]{row['verdict']}[/]")
    console.print(f"found     {_plain(row['explanation'])}")
    if row["corrected"]:
        console.print(f"instead   {_plain(row['corrected'])}")
    for trial in result.finding.trials:
        word = {True: "true", False: "false", None: "open"}[trial.holds]
        if trial.tight is not None:
            word += ", attained" if trial.tight else ", not attained"
        if not trial.condition:
            word += " (outside the condition)"
        numbers = "; ".join(
            f"{'true value' if key == 'true' else key.replace('_', ' ')} = {_short(value)}"
            for key, value in trial.numbers.items()
        )
        line = f"  {trial.instance}: {word}" + (f"; {numbers}" if numbers else "")
        console.print(_plain(line))
    console.print()


def _plain(text: str) -> str:
    """Square brackets are citations and lists here, not rich's markup."""
    return text.replace("[", r"\[")


def _short(value: Any) -> str:
    text = " ".join(_written(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def _written(value: Any) -> str:
    """Write lists entry by entry, so that fractions in them read as fractions do."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
