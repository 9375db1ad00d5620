"""The parts that all commands share: `--quiet`, and error messages that name the flag typed.

An error of the library names the argument of a function. The class that `command_class` returns
replaces that name by the flag of the command.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hardmax._ground.progress import set_progress
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError

_NAME = re.compile(r"`(\w+)`")
_FILES = ("path", "source")


def command_class(**aliases: str) -> type[TyperCommand]:
    """Return a command class whose error messages name the command's flags.

    Args:
        **aliases: The flag of each library argument that has another name on the command line, such
            as `n_keys="--keys"`.
    """

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            self._words = {word.partition("=")[0] for word in args}
            return super().parse_args(ctx, args)

        def format_help_text(self, ctx: Any, formatter: Any) -> None:
            self.help = _insert_domains(self.help or "")
            super().format_help_text(ctx, formatter)

        def invoke(self, ctx: Any) -> Any:
            flags = {str(param.name): _flag_name(param, self._words) for param in self.params}
            try:
                with rename_arguments(**{**flags, **aliases}):
                    return super().invoke(ctx)
            except KeyboardInterrupt:  # Typer would exit without a message.
                raise typer.Exit(report_interrupt()) from None

    return Command


def add_quiet_option(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an additional option `--quiet`."""
    hint = Annotated[bool, typer.Option("--quiet", help="Do not show progress.")]

    @functools.wraps(command)
    def quiet_command(*args: Any, quiet: bool, **options: Any) -> None:
        set_progress(False if quiet else None)
        try:
            command(*args, **options)
        finally:
            set_progress(None)

    given = inspect.signature(command)
    own = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=hint)
    signature = given.replace(parameters=[*given.parameters.values(), own])
    quiet_command.__dict__["__signature__"] = signature
    quiet_command.__annotations__ = {**command.__annotations__, "quiet": hint}
    return quiet_command


def report_interrupt() -> int:
    """Print that Ctrl-C ended the command, and return the exit status."""
    print("hardmax: interrupted; finished results are kept", file=sys.stderr)
    return 130


@contextmanager
def rename_arguments(**names: str) -> Iterator[None]:
    """Replace argument names in backticks in the messages of errors raised inside the block.

    Examples:
        >>> with rename_arguments(dim="--dim"):
        ...     raise ArgumentError("`dim` must be at least 1; got 0.")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `--dim` must be at least 1; got 0.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except HardmaxError as error:
        # In an error about the content of a file, names in backticks may be fields of the file.
        # Only the file itself is an argument.
        is_about_file = isinstance(error, RecordFormatError)
        known = {k: v for k, v in names.items() if k in _FILES or not is_about_file}
        message = _NAME.sub(lambda found: f"`{known.get(found[1], found[1])}`", str(error))
        raise type(error)(message) from None


@contextmanager
def report_file_errors(flag: str, path: Path) -> Iterator[None]:
    """Make errors about a file that are raised inside the block name the flag.

    Raises:
        ArgumentError: If the operating system raises an OSError.
    """
    try:
        with rename_arguments(path=flag):
            yield
    except HardmaxError:
        raise
    except OSError as error:
        raise ArgumentError(
            f"`{flag}` must be a file that can be opened; {path}: {error.strerror or error}."
        ) from None


def _insert_domains(text: str) -> str:
    """Replace the line `{domains}` of a help text by a line for each kind of domain."""
    if "{domains}" not in text:
        return text
    from hardmax.geometry.domain_text import list_kinds

    margin = re.search(r"^ *(?={domains})", text, re.MULTILINE)
    assert margin is not None
    return text.replace("{domains}", f"\n{margin[0]}".join(list_kinds()))


def _flag_name(param: Any, words: set[str]) -> str:
    """Return the name of a parameter as the user typed it: MODEL, or a long option."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name).upper()
    known = [option for option in param.opts if option.startswith("--")] or list(param.opts)
    return str(next((option for option in known if option in words), known[0]))
