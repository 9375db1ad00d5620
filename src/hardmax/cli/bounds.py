"""`hardmax bounds`: a table of bounds on the number of cells of a transformer."""

import json
from typing import Annotated

import typer

_COLOURS = {"claim": "yellow", "estimate": "cyan"}


def bounds(
    keys: Annotated[int, typer.Option(help="The number of keys N of every head.")],
    heads: Annotated[int, typer.Option(help="The number of heads H in each layer.")],
    dim: Annotated[int, typer.Option(help="The model dimension d.")],
    d_ff: Annotated[
        int, typer.Option("--d-ff", help="The feed-forward width; 0 means no feed-forward layer.")
    ] = 0,
    depth: Annotated[int, typer.Option(help="The number of blocks L.")] = 1,
    head_dim: Annotated[
        int | None,
        typer.Option("--head-dim", help="The head size d_k. The default allows any size."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print every bound on the cells of a hard transformer of this shape."""
    from hardmax.bounds.table import transformer_table

    rows = transformer_table(keys, heads, dim, d_ff, depth, head_dim=head_dim)
    if as_json:
        print(json.dumps([row.as_mapping() for row in rows], indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    size = "any" if head_dim is None else head_dim
    shape = f"N = {keys}, H = {heads}, d = {dim}, d_k = {size}, d_ff = {d_ff}, L = {depth}"
    table = Table(title=f"Cells of a hard transformer: {shape}")
    table.add_column("counted")
    table.add_column("kind")
    table.add_column("number", justify="right", no_wrap=True)
    table.add_column("log10", justify="right", no_wrap=True)
    table.add_column("holds for")
    table.add_column("source")
    for row in rows:
        cells = (row.name, row.kind, row.text, f"{row.log10:.2f}", row.assumptions, row.source)
        # Escape square brackets: they are citations here, not rich markup.
        table.add_row(*(cell.replace("[", r"\[") for cell in cells), style=_COLOURS.get(row.kind))
    Console().print(table)
