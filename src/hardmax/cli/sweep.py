"""`hardmax sweep`: count the cells of random transformers over a grid of sizes."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.cli.flags import rename_arguments
from hardmax.cli.regions import Executor
from hardmax.errors import ArgumentError

_LIST = "a list such as 2,4,8 or a range such as 1:5, both ends included"


def sweep(
    out: Annotated[
        Path, typer.Option(help="The table to write, a CSV file. Existing rows are kept.")
    ],
    keys: Annotated[str, typer.Option(help=f"The numbers of keys N: {_LIST}.")] = "8",
    heads: Annotated[str, typer.Option(help="The numbers of heads H, likewise.")] = "2",
    dim: Annotated[str, typer.Option(help="The dimensions d, likewise.")] = "2",
    depth: Annotated[str, typer.Option(help="The numbers of blocks L, likewise.")] = "1",
    d_ff: Annotated[str, typer.Option("--d-ff", help="The feed-forward widths, likewise.")] = "8",
    seeds: Annotated[str, typer.Option(help="The seeds, likewise.")] = "0",
    bias: Annotated[
        str, typer.Option(help="The scales of the query biases: a list such as 0,0.5.")
    ] = "0.5",
    domain: Annotated[
        str,
        typer.Option(help="The domain, where d stands for the model dimension: box:-1,1^d."),
    ] = "space:d",
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop the search of each model after this many seconds.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="The number of models searched concurrently.")
    ] = None,
    executor: Executor = None,
) -> None:
    """Count the cells of random transformers over a grid of sizes, exactly.

    The table has one row per model. Run the same command again to resume an interrupted sweep.

    \b
    Exit status:
      0 if all rows are in the table
      1 if a limit stopped some of the searches
      2 if the input was refused or a model failed
      130 after Ctrl-C
    """  # noqa: D301
    from hardmax.papers.sweeps import sweep, sweep_points

    texts = {"N": keys, "H": heads, "d": dim, "L": depth, "d_ff": d_ff, "seed": seeds}
    grid = {name: _parse_numbers(name, text) for name, text in texts.items()}
    scales = _parse_scales(bias)
    flags = {"n_keys": "--keys", "n_heads": "--heads", "seed": "--seeds"}
    with rename_arguments(**flags):
        points = sweep_points({**grid, "bias": scales}, domain)
    rows = sweep(points, out=out, max_seconds=max_seconds, workers=workers, executor=executor)
    n_stopped = sum(not row.is_complete for row in rows)
    print(f"{'rows':<14}{len(rows)}")
    print(f"{'written':<14}{out}")
    if n_stopped:
        print(f"{'incomplete':<14}--max-seconds stopped {n_stopped} searches")
        raise typer.Exit(1)


def _parse_numbers(name: str, text: str) -> list[int]:
    """Parse a list of integers and ranges."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition(":")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ArgumentError(f"`{name}` must be {_LIST}; got {text!r:.60}.") from None
    return numbers


def _parse_scales(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"`bias` must be a list such as 0,0.5; got {text!r:.60}.") from None
