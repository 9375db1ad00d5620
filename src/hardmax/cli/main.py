"""The `hardmax` command. Each command imports what it needs when it runs, so `--help` is quick."""

import sys
from typing import Annotated

import typer

import hardmax
from hardmax.cli.audit import audit
from hardmax.cli.bounds import bounds
from hardmax.cli.compile import compile_file
from hardmax.cli.explore import explore
from hardmax.cli.flags import interrupted, naming, with_quiet
from hardmax.cli.heads import heads
from hardmax.cli.pictures import plot
from hardmax.cli.regions import regions, verify
from hardmax.cli.reproduce import query, reproduce
from hardmax.cli.stability import stability
from hardmax.cli.sweep import sweep
from hardmax.errors import FileError, HardmaxError

app = typer.Typer(
    name="hardmax",
    help="The exact geometry of transformers at zero temperature.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help in plain text comes at once; loading what colours it takes longer than a search.
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command line; a refusal is one clear line and exit status 2, not a traceback."""
    try:
        app()
    except KeyboardInterrupt:  # Before the refusals: an interrupted search is both.
        sys.exit(interrupted())
    except HardmaxError as error:
        print(f"hardmax: {error}", file=sys.stderr)
        # The system failed to write a file: the command was not at fault.
        sys.exit(1 if isinstance(error, FileError) else 2)
    except OSError as error:
        print(f"hardmax: {error}; what was finished is kept", file=sys.stderr)
        sys.exit(1)


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


_SHAPE = {"n_keys": "--keys", "n_heads": "--heads"}
# `hardmax --help` shows these, whole.
_REGIONS = "Find and count every cell of a model on a domain, exactly."
_PLOT = "Draw the cells of a model on a domain, or a saved partition."
_EXPLORE = "Open a page that shows models and counts their cells."
_HEADS = "Measure every head of a trained transformer on a text."
_BOUNDS = "Print every bound on the cells of a transformer."
_COMPILE = "Compile a network to a standard transformer."
_REPRODUCE = "Regenerate the papers' figures, tables and examples."
_STABILITY = "Print the bounds at finite temperature."
_SWEEP = "Count the cells of random transformers of many sizes."
app.command(cls=naming(), short_help=_REGIONS)(with_quiet(regions))
app.command(cls=naming())(with_quiet(verify))
app.command(cls=naming(), short_help=_PLOT)(with_quiet(plot))
app.command(cls=naming(), short_help=_EXPLORE)(with_quiet(explore))
app.command(cls=naming(), short_help=_HEADS)(with_quiet(heads))
app.command(cls=naming(id="--claim"))(with_quiet(audit))
app.command(cls=naming(**_SHAPE), short_help=_BOUNDS)(with_quiet(bounds))
app.command("compile", cls=naming(), short_help=_COMPILE)(with_quiet(compile_file))
app.command(cls=naming(), short_help=_REPRODUCE)(with_quiet(reproduce))
app.command(cls=naming())(with_quiet(query))
app.command(cls=naming(**_SHAPE), short_help=_STABILITY)(with_quiet(stability))
_SIZES = {**_SHAPE, "N": "--keys", "H": "--heads", "d": "--dim", "L": "--depth"}
app.command(cls=naming(**_SIZES), short_help=_SWEEP)(with_quiet(sweep))


@app.command()
def info() -> None:
    """Print the versions a result can depend on."""
    from hardmax._ground.records import library_versions

    for library, version in library_versions().items():
        print(f"{library:<14}{version}")
