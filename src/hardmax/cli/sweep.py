"""`hardmax sweep`: the cells of random transformers over a grid of sizes."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.cli.flags import calling
from hardmax.cli.regions import Executor
from hardmax.errors import ArgumentError

_LIST = "a list as 2,4,8 or a range as 1:5, both ends included"


def sweep(
    out: Annotated[Path, typer.Option(help="The table, a CSV file; rows it has are kept.")],
    keys: Annotated[str, typer.Option(help=f"Keys N: {_LIST}.")] = "8",
    heads: Annotated[str, typer.Option(help="Heads H, likewise.")] = "2",
    dim: Annotated[str, typer.Option(help="Dimensions d, likewise.")] = "2",
    depth: Annotated[str, typer.Option(help="Blocks L, likewise.")] = "1",
    d_ff: Annotated[str, typer.Option("--d-ff", help="Units of a block, likewise.")] = "8",
    seeds: Annotated[str, typer.Option(help="Seeds, likewise.")] = "0",
    bias: Annotated[str, typer.Option(help="Scales of the query biases: a list as 0,0.5.")] = "0.5",
    domain: Annotated[
        str, typer.Option(help="Where to count; d stands for the dimension: box:-1,1^d.")
    ] = "space:d",
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop the search for one model after this time.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many models at once.")] = None,
    executor: Executor = None,
) -> None:
    """Count the cells of random transformers over a grid, exactly; a row of a table for each.

    A sweep that was ended, by Ctrl-C or otherwise, goes on where it was.

    \b
    Exit status:
      0 if all rows are in the table
      1 if a limit stopped some of the searches
      2 for a refusal, or if models failed
      130 after Ctrl-C
    """  # noqa: D301
    from hardmax.papers.sweeps import sweep, sweep_points

    texts = {"N": keys, "H": heads, "d": dim, "L": depth, "d_ff": d_ff, "seed": seeds}
    grid = {name: _numbers(name, text) for name, text in texts.items()}
    scales = _scales(bias)
    flags = {"n_keys": "--keys", "n_heads": "--heads", "seed": "--seeds"}
    with calling(**flags):
        points = sweep_points({**grid, "bias": scales}, domain)
    rows = sweep(points, out=out, max_seconds=max_seconds, workers=workers, executor=executor)
    n_stopped = sum(not row.is_complete for row in rows)
    print(f"{'rows':<14}{len(rows)}")
    print(f"{'written':<14}{out}")
    if n_stopped:
        print(f"{'incomplete':<14}--max-seconds stopped {n_stopped} searches")
        raise typer.Exit(1)


def _numbers(name: str, text: str) -> list[int]:
    """Read a list of numbers and ranges."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition(":")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ArgumentError(f"`{name}` must be {_LIST}; got {text!r:.60}.") from None
    return numbers


def _scales(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"`bias` must be a list as 0,0.5; got {text!r:.60}.") from None
