"""The `hardmax` command. Each command imports what it needs when it runs, so `--help` is quick."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import hardmax
from hardmax.cli.bounds import bounds
from hardmax.errors import HardmaxError

app = typer.Typer(
    name="hardmax",
    help="The exact geometry of transformers at zero temperature.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run() -> None:
    """Run the command line; a refusal is one clear line and exit status 2, not a traceback."""
    try:
        app()
    except HardmaxError as error:
        print(f"hardmax: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("hardmax: interrupted; what was finished is kept", file=sys.stderr)
        sys.exit(130)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(hardmax.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and stop."),
    ] = False,
) -> None:
    """The exact geometry of transformers at zero temperature."""


app.command()(bounds)


@app.command()
def info() -> None:
    """Print the versions a result can depend on."""
    from hardmax.records import library_versions

    for library, version in library_versions().items():
        print(f"{library:<14}{version}")


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which experiments; all of them if none is named.")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments and stop.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for records (JSON) and figures (SVG, PNG).")
    ] = Path("results"),
    again: Annotated[
        bool, typer.Option("--again", help="Run also what is already done and unchanged.")
    ] = False,
) -> None:
    """Regenerate the papers' figures and examples, with exact numbers beside the claimed ones."""
    from hardmax.experiments.registry import experiment_titles
    from hardmax.experiments.runner import run_experiments

    if list_only:
        for name, title in experiment_titles().items():
            print(f"{name:<16}{title}")
    else:
        run_experiments(names or list(experiment_titles()), out, again=again)
