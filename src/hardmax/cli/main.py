"""The `hardmax` command. Each command imports what it needs when it runs, so `--help` is quick."""

import sys
from typing import Annotated

import typer

import hardmax
from hardmax.cli.audit import audit
from hardmax.cli.bounds import bounds
from hardmax.cli.compile import compile_file
from hardmax.cli.explore import explore
from hardmax.cli.flags import add_quiet_option, command_class, report_interrupt
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
    # Plain-text help appears at once; importing rich would take longer than most searches.
    rich_markup_mode=None,
)


def run() -> None:
    """Run the command line. A refusal prints one line, without a traceback, and exits with 2."""
    try:
        app()
    except KeyboardInterrupt:  # First, because errors.Interrupted is also a HardmaxError.
        sys.exit(report_interrupt())
    except HardmaxError as error:
        print(f"hardmax: {error}", file=sys.stderr)
        # A FileError is a failure of the system to write a file, not a fault of the command.
        sys.exit(1 if isinstance(error, FileError) else 2)
    except OSError as error:
        print(f"hardmax: {error}; finished results are kept", file=sys.stderr)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(hardmax.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The exact geometry of transformers at zero temperature."""


_SHAPE = {"n_keys": "--keys", "n_heads": "--heads"}
# The one-line descriptions in `hardmax --help`; longer ones would be truncated.
_REGIONS = "Find and count every cell of a model on a domain, exactly."
_PLOT = "Draw the cells of a model on a domain, or a saved partition."
_EXPLORE = "Open a page that shows models and counts their cells."
_HEADS = "Measure every head of a trained transformer on a text."
_BOUNDS = "Print every bound on the cells of a transformer."
_COMPILE = "Compile a network to a standard transformer."
_REPRODUCE = "Regenerate the papers' figures, tables and examples."
_STABILITY = "Print the bounds at finite temperature."
_SWEEP = "Count the cells of random transformers of many sizes."
app.command(cls=command_class(), short_help=_REGIONS)(add_quiet_option(regions))
app.command(cls=command_class())(add_quiet_option(verify))
app.command(cls=command_class(), short_help=_PLOT)(add_quiet_option(plot))
app.command(cls=command_class(), short_help=_EXPLORE)(add_quiet_option(explore))
app.command(cls=command_class(), short_help=_HEADS)(add_quiet_option(heads))
app.command(cls=command_class(id="--claim"))(add_quiet_option(audit))
app.command(cls=command_class(**_SHAPE), short_help=_BOUNDS)(add_quiet_option(bounds))
app.command("compile", cls=command_class(), short_help=_COMPILE)(add_quiet_option(compile_file))
app.command(cls=command_class(), short_help=_REPRODUCE)(add_quiet_option(reproduce))
app.command(cls=command_class())(add_quiet_option(query))
app.command(cls=command_class(**_SHAPE), short_help=_STABILITY)(add_quiet_option(stability))
_SIZES = {**_SHAPE, "N": "--keys", "H": "--heads", "d": "--dim", "L": "--depth"}
app.command(cls=command_class(**_SIZES), short_help=_SWEEP)(add_quiet_option(sweep))


@app.command()
def info() -> None:
    """Print the versions of hardmax and its libraries."""
    from hardmax._ground.records import library_versions

    for library, version in library_versions().items():
        print(f"{library:<14}{version}")
