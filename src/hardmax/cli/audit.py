"""`hardmax audit`: check every claim of the papers by computation."""

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
        typer.Option(help="Check and explain one claim. V.2 also selects V.2a, V.2b and so on."),
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
        # One claim has files of its own; the record of the whole ledger is not overwritten.
        name = claims[0].id[: len(claim)]
        for result in results:
            _print_explanation(console, result)
    else:
        _print_table(console, results)
    written = write_audit(results, out, name)
    console.print(f"written: {', '.join(str(path) for path in written[:2])}", soft_wrap=True)
    for path in written[2:] if claim is not None else []:
        console.print(f"picture: {path}", soft_wrap=True)


def _print_table(console: Any, results: "Sequence[Result]") -> None:
    from rich.table import Table

    from hardmax.papers.audit import summary

    table = Table(title="The claims, checked by computation", show_lines=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement", ratio=3, overflow="fold")
    table.add_column("verdict", ratio=1)
    table.add_column("finding", ratio=4, overflow="fold")
    for result in results:
        row = result.row
        style = _COLOURS[row["verdict"]]
        table.add_row(
            row["id"],
            _escape_markup(row["statement"]),
            f"[{style}]{row['verdict']}[/]",
            _escape_markup(row["explanation"]),
        )
    console.print(table)
    console.print(summary(results))


def _print_explanation(console: Any, result: "Result") -> None:
    row = result.row
    style = _COLOURS[row["verdict"]]
    console.print(f"[bold]{row['id']}[/]  {_escape_markup(row['where'])} ({row['source']})")
    console.print(f"claimed   {_escape_markup(row['statement'])}")
    console.print(f"verdict   [{style}]{row['verdict']}[/]")
    console.print(f"found     {_escape_markup(row['explanation'])}")
    if row["corrected"]:
        console.print(f"instead   {_escape_markup(row['corrected'])}")
    for trial in result.finding.trials:
        word = {True: "true", False: "false", None: "open"}[trial.holds]
        if trial.tight is not None:
            word += ", attained" if trial.tight else ", not attained"
        if not trial.condition:
            word += " (outside the condition)"
        numbers = "; ".join(
            f"{'true value' if key == 'true' else key.replace('_', ' ')} = {_shorten(value)}"
            for key, value in trial.numbers.items()
        )
        line = f"  {trial.instance}: {word}" + (f"; {numbers}" if numbers else "")
        console.print(_escape_markup(line))
    console.print()


def _escape_markup(text: str) -> str:
    """Escape square brackets, which are citations and lists here, not rich markup."""
    return text.replace("[", r"\[")


def _shorten(value: Any) -> str:
    text = " ".join(_format_value(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def _format_value(value: Any) -> str:
    """Format a value; lists entry by entry, so that a Fraction in a list appears as p/q."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_format_value, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
