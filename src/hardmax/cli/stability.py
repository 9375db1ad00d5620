"""`hardmax stability`: what a margin is worth at finite temperature, as a table."""

import json
from typing import Annotated

import typer

_ROWS = (
    ("value", "log-sum-exp minus maximum"),
    ("rival_mass", "share of all rivals"),
    ("gradient", "1-norm, gradient to one-hot"),
    ("hessian", "2-norm of the Hessian"),
    ("lipschitz", "Lipschitz, gradient"),
    ("taylor", "Taylor remainder"),
    ("margin_needed", "margin for epsilon"),
)


def stability(
    keys: Annotated[int, typer.Option(help="Number of keys N of the head.")],
    margin: Annotated[float, typer.Option(help="Lead of the winner over every rival.")],
    d_k: Annotated[int, typer.Option("--d-k", help="Head size d_k.")],
    tau: Annotated[
        float | None, typer.Option(help="One temperature more, in the units of the margin.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Share of the mass that rivals may have.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Print the bounds at finite temperature: as claimed, and as they are."""
    from hardmax.stability.tables import stability_table

    table = stability_table(keys, margin, d_k, tau=tau, epsilon=epsilon)
    if as_json:
        fields = {**vars(table), "columns": [column.as_mapping() for column in table.columns]}
        print(json.dumps(fields, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    shape = f"N = {keys}, margin {margin:g}, d_k = {d_k}, epsilon = {epsilon:g}"
    shown = Table(title=f"A head at finite temperature: {shape}")
    shown.add_column("bound on")
    for column in table.columns:
        # Square brackets are citations here, not rich's markup.
        name = column.name.replace("[", r"\[")
        style = "yellow" if column.is_claim else None
        shown.add_column(f"{name}\ntau = {column.tau:g}", justify="right", style=style)
    for field, title in _ROWS:
        shown.add_row(title, *(f"{getattr(column, field):.5g}" for column in table.columns))
    console = Console()
    console.print(shown)
    claim, sharp = table.columns[:2]
    if sharp.hessian > claim.hessian:
        console.print(
            f"The Hessian reaches {sharp.hessian:.5g}, more than the {claim.hessian:.5g} that "
            r"\[SL26] allows.",
            soft_wrap=True,
        )
    console.print(
        f"A margin of {margin:g} leaves rivals at most {epsilon:g} up to "
        f"tau = {table.temperature_needed:.5g}.",
        soft_wrap=True,
    )
