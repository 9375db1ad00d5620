"""`hardmax explore`: an interactive page with heads, networks and their cells."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from hardmax.cli.flags import rename_arguments
from hardmax.cli.models import Activations, LastActivation, describe_model, read_model


def explore(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="The model file, as for `hardmax regions`."),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(help="The domain to show, of dimension 2 (see `hardmax regions --help`)."),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE[@NAME]",
            help="A trained transformer whose heads are shown: a file, a folder, an installed "
            "package or a model in the Hugging Face cache. Append @NAME to choose one of several "
            "checkpoints. Write ./hardmax for a folder called hardmax. May be repeated.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(help="The token ids to run the checkpoints on, such as 101,2023,102."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="The text to run the checkpoints on, instead of --tokens."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the page to index.html in this folder instead of opening it."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port of the server.")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser.")
    ] = False,
    activations: Activations = None,
    last_activation: LastActivation = None,
) -> None:
    """Open a page that shows models and lets you drag keys, with exact counts.

    The page contains the search engine. The file that --export writes works on any web site and
    from a local disk. With `pip install 'hardmax[app]'`, a server on this machine shows the page
    and runs long searches in the native engine. Without it, the page opens as a file.
    """
    from hardmax.errors import ArgumentError
    from hardmax.explorer.exploring import Exploration
    from hardmax.explorer.exploring import explore as explore_model
    from hardmax.explorer.heads_at_work import checkpoint_to_data
    from hardmax.geometry.domain_text import read_domain
    from hardmax.models.checkpoints.finding import BUNDLED

    start = Exploration({})
    if model is not None:
        network, _ = read_model("MODEL", model, activations, last_activation)
        where = None if domain is None else read_domain(domain, "--domain")
        start = explore_model(network, where)
        print(f"{'model':<14}{describe_model(network)}")
    elif domain is not None:
        raise ArgumentError("`--domain` requires a MODEL.")
    if not (tokens is None and text is None) and not checkpoint:
        raise ArgumentError("`--tokens` and `--text` require a `--checkpoint`.")
    if checkpoint:
        numbers = None if tokens is None else _parse_numbers(tokens)
        with rename_arguments(source="--checkpoint", select="@NAME"):
            models = tuple(checkpoint_to_data(name, numbers, text) for name in checkpoint)
        first = start.start or {"view": "real", "real": {"name": models[0]["name"]}}
        start = Exploration(first, models)
        for data in models:
            print(f"{'checkpoint':<14}{data['about']}")
    if export is None:
        if not all(map(find_spec, ("starlette", "uvicorn", "websockets"))):
            print(f"{'page':<14}{start.open()}")
            return
        from hardmax.explorer.server import serve

        serve(
            start.start,
            port,
            opens=not no_browser,
            models=start.models,
            offers=(*(checkpoint or ()), BUNDLED),
        )
        return
    export.mkdir(parents=True, exist_ok=True)
    start.save(export / "index.html")
    print(f"{'page':<14}{export / 'index.html'}")


def _parse_numbers(text: str) -> list[int]:
    from hardmax.errors import ArgumentError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(
            f"`--tokens` must be integers separated by commas; got {text!r:.60}."
        ) from None
