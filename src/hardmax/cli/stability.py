"""`hardmax stability`: a table of bounds for a head at finite temperature."""

import json
from typing import Annotated

import typer


def stability(
    keys: Annotated[int, typer.Option(help="The number of keys N of the head.")],
    margin: Annotated[
        float, typer.Option(help="The margin: the winner's score minus the next best.")
    ],
    d_k: Annotated[int, typer.Option("--d-k", help="The head size d_k.")],
    tau: Annotated[
        float | None, typer.Option(help="An additional temperature, in the units of the margin.")
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="The largest share of the attention that the rivals may have.")
    ] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the bounds at finite temperature: as claimed in the papers, and corrected."""
    from hardmax.stability.tables import QUANTITIES, stability_table

    table = stability_table(keys, margin, d_k, tau=tau, epsilon=epsilon)
    if as_json:
        print(json.dumps(table.as_mapping(), indent=1, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    shape = f"N = {keys}, margin {margin:g}, d_k = {d_k}, epsilon = {epsilon:g}"
    shown = Table(title=f"A head at finite temperature: {shape}")
    shown.add_column("bound on")
    for column in table.columns:
        # Escape square brackets: they are citations here, not rich markup.
        name = column.name.replace("[", r"\[")
        style = "yellow" if column.is_claim else None
        shown.add_column(f"{name}\ntau = {column.tau:g}", justify="right", style=style)
    for field, title in QUANTITIES:
        shown.add_row(title, *(f"{getattr(column, field):.5g}" for column in table.columns))
    console = Console()
    console.print(shown)
    for remark in table.remarks:
        console.print(remark, soft_wrap=True, markup=False, highlight=False)
