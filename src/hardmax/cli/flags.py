"""What every command has: `--quiet`, and messages that name what the user typed.

The library names the argument of the function that refused it. Every command is made by `naming`,
which knows the flags of the command, and which flag stands for an argument of another name.
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


def naming(**aliases: str) -> type[TyperCommand]:
    """Return the class of a command whose refusals name its flags.

    Args:
        **aliases: For an argument of the library that is called otherwise on the command line, the
            flag: `n_keys="--keys"`.
    """

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            self._words = {word.partition("=")[0] for word in args}
            return super().parse_args(ctx, args)

        def invoke(self, ctx: Any) -> Any:
            flags = {str(param.name): _spelling(param, self._words) for param in self.params}
            try:
                with calling(**{**flags, **aliases}):
                    return super().invoke(ctx)
            except KeyboardInterrupt:  # Typer would end without a word.
                raise typer.Exit(interrupted()) from None

    return Command


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option `--quiet`."""
    hint = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

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


def interrupted() -> int:
    """Say that Ctrl-C ended a command; return its status."""
    print("hardmax: interrupted; what was finished is kept", file=sys.stderr)
    return 130


@contextmanager
def calling(**names: str) -> Iterator[None]:
    """Raise refusals anew with other names for the arguments in backticks.

    Examples:
        >>> with calling(dim="--dim"):
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
        # What a file holds has names of its own; only the file is an argument.
        is_about_file = isinstance(error, RecordFormatError)
        known = {k: v for k, v in names.items() if k in _FILES or not is_about_file}
        message = _NAME.sub(lambda found: f"`{known.get(found[1], found[1])}`", str(error))
        raise type(error)(message) from None


@contextmanager
def opening(flag: str, path: Path) -> Iterator[None]:
    """Turn what the system or the library says about a file into a refusal that names the flag.

    Raises:
        ArgumentError: If the system refuses.
    """
    try:
        with calling(path=flag):
            yield
    except HardmaxError:
        raise
    except OSError as error:
        raise ArgumentError(
            f"`{flag}` must be a file that can be opened; {path}: {error.strerror or error}."
        ) from None


def _spelling(param: Any, words: set[str]) -> str:
    """Return the name of a parameter on the command line: MODEL, or the long option typed."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name).upper()
    known = [option for option in param.opts if option.startswith("--")] or list(param.opts)
    return str(next((option for option in known if option in words), known[0]))
