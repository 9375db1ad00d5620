"""`hardmax heads`: measure how close the heads of a trained transformer are to hard routing."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hardmax.cli.flags import rename_arguments, report_file_errors
from hardmax.models.checkpoints.finding import BUNDLED

_TEXT = "transformer|aefmnorrrst"
"""The default text for the small transformer of the package: letters, a bar, the sorted letters."""


def heads(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]",
            help="The weights: a file, a folder, an installed package or a model in the Hugging "
            "Face cache, such as org/name. Write ./hardmax for a folder called hardmax.",
        ),
    ] = BUNDLED,
    text: Annotated[
        str | None,
        typer.Option(help="The text to run the model on, split by the model's own tokenizer."),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="The token ids, separated by spaces, instead of a text.")
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file with the input of the first layer, shape (n, d), instead of a text."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write heads.html, heads.csv and heads.parquet to this folder."),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(help="The file or folder to read if MODEL holds several checkpoints."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="""Settings missing from the files, as JSON, such as '{"nhead": 8}'."""),
    ] = None,
    no_effects: Annotated[
        bool, typer.Option("--no-effects", help="Do not measure the effect of making heads hard.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the Gaussian queries.")] = 0,
) -> None:
    """Measure every head of a trained transformer: margins, certificates, Gaussian nulls.

    The default MODEL is the small transformer of the package, which sorts letters. Its text is a
    list of letters, a bar, and the sorted letters, at most 25 characters in all.
    """
    import numpy as np

    from hardmax._ground.json_text import parse_json
    from hardmax.errors import ArgumentError
    from hardmax.models.checkpoints.loading import load_checkpoint

    if model == BUNDLED and tokens is None and vectors is None and text is None:
        text = _TEXT
    given = sum(value is not None for value in (text, tokens, vectors))
    if given != 1:
        raise ArgumentError(f"Give exactly one of `--text`, `--tokens`, `--vectors`; got {given}.")
    settings = None if config is None else parse_json(config)
    if settings is not None and not isinstance(settings, dict):
        raise ArgumentError(f"`--config` must be a JSON object; got {config!r:.60}.")
    with rename_arguments(source="MODEL", select="--select"):
        weights = load_checkpoint(model, select, config=settings)
        read = _read_input(model, select, text, tokens, vectors)
    from hardmax.surveys.head_surveys import survey_heads

    survey = survey_heads(weights, **read, with_effects=not no_effects, seed=seed)
    print(f"{'model':<14}{survey.model}")
    if survey.assumed:
        print(f"{'assumed':<14}{', '.join(survey.assumed)}; set them with `--config`")
    print(f"{'tokens':<14}{len(survey.words)}")
    for name, unit in (("margin", "temperatures"), ("mass", "of the attention")):
        real, null = survey.pooled[name], survey.pooled[f"{name}_null"]
        print(f"{name:<14}{real:.3f} {unit} (Gaussian queries: {null:.3f}), medians over all rows")
    distances = [(found.distance, found.distance_null) for found in survey.summaries]
    real, null = np.median(distances, axis=0)
    print(
        f"{'distance':<14}at most {real:.3f} from hard routing, certified (Gaussian queries: "
        f"{null:.3f}), medians over all heads"
    )
    sharp = "; ".join(f"layer {layer}, head {head}" for layer, head in survey.sharpest[:5])
    print(f"{'sharpest':<14}{sharp}")
    for found in survey.together:
        count = "1 head" if found.n_heads == 1 else f"{found.n_heads} heads"
        print(
            f"{'made hard':<14}{count}: the output changes by {found.change:.3f} "
            f"(the same number of random heads: {found.change_random:.3f})"
        )
    if out is not None:
        from hardmax.surveys.head_pages import write_survey

        named = "the small transformer that sorts" if model == BUNDLED else _display_name(model)
        named = f"Heads of {named}" + (f" ({select})" if select else "")
        print(f"{'page':<14}{write_survey(survey, out, named)}")


def _display_name(model: str) -> str:
    """Return the name of a model file or folder, or the text that the user typed."""
    return Path(model).absolute().name if Path(model).exists() else model


def _read_input(
    model: str,
    select: str | None,
    text: str | None,
    tokens: str | None,
    vectors: Path | None,
) -> dict[str, Any]:
    """Return the input of the model as arguments of `survey_heads`."""
    import numpy as np

    from hardmax.errors import ArgumentError
    from hardmax.models.checkpoints.texts import tokenise

    if text is not None:
        read = tokenise(model, text, select)
        return {"tokens": read.tokens, "vectors": read.vectors, "words": read.words}
    if tokens is not None:
        try:
            return {"tokens": np.array([int(word) for word in tokens.replace(",", " ").split()])}
        except ValueError:
            raise ArgumentError(f"`--tokens` must be integers; got {tokens!r:.60}.") from None
    assert vectors is not None
    with report_file_errors("--vectors", vectors):
        try:
            # Map the file first: its header may announce more data than the file has.
            return {"vectors": np.array(np.lib.format.open_memmap(vectors, mode="r"))}
        except (ValueError, EOFError, OverflowError, SyntaxError) as error:
            raise ArgumentError(
                f"`--vectors` must be a NumPy array file (.npy); {vectors}: {error!s:.100}."
            ) from None
