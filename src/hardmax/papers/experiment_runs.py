"""Run experiments; keep results that are up to date, and save each new result at once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from hardmax._ground.files import atomic_write, write_text
from hardmax._ground.records import Record, code_fingerprint, file_digest, library_versions
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.papers.pages import LARGEST_DRAWING
from hardmax.papers.registry import Experiment, Level, load_experiment
from hardmax.papers.store import write_table

_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans'"
"""The fonts of the page, for the drawings shown on it."""

_TEXTS = ("title", "summary", "claimed")


def run_experiments(
    names: Sequence[str], out: Path, *, level: Level = "default", again: bool = False
) -> list[Record]:
    """Run experiments by name; write `NAME.json`, `NAME.svg`, `NAME.png` and tables to a folder.

    A figure with panels side by side is also written as `NAME-narrow`, with its panels stacked,
    except at the level `"quick"`.

    Each level has its own folder (see `level_folder`), so that a quick run never overwrites the
    results of a long computation.

    An experiment is not run again if its record has the current parameters, library versions and
    code (all of this package), so an interrupted run continues where it stopped. It is run again if
    its figures or tables are missing or damaged. The results of a record contain the numbers of the
    experiment and `title`, `summary`, `claimed`, `claims` and `files` (the SHA-256 of each file).

    Args:
        names: Names from `experiment_titles`.
        out: The folder of all levels; it is created if it does not exist.
        level: The size of the computations: `"quick"`, `"default"` or `"full"`.
        again: Whether to run experiments even if their results are up to date.

    Returns:
        One record per name.
    """
    from rich.console import Console

    console = Console(highlight=False)
    experiments = [load_experiment(name, level) for name in names]
    folder = level_folder(out, level)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"`out` must be a writable folder; {error}.") from None
    records = []
    for place, experiment in enumerate(experiments, start=1):
        kept = None if again else _load_finished(experiment, folder)
        label = f"[dim]{place:>2}/{len(experiments)}[/dim] [bold]{experiment.name}[/bold]"
        if kept is None:
            with console.status(f"{label}  {experiment.title}"):
                kept = _run_experiment(experiment, folder, stacked=level != "quick")
            note = f"{kept.seconds:.1f} s"
        else:
            note = "already done"
        console.print(f"{label}  {experiment.title}  [dim]({note})[/dim]")
        console.print(f"      {kept.results['summary']}")
        records.append(kept)
    write_table(folder, "experiments", [_summary_row(record) for record in load_records(folder)])
    return records


def level_folder(out: Path, level: Level) -> Path:
    """Return the folder of a level: `OUT` itself for the default, else `OUT/quick` or `OUT/full`.

    Examples:
        >>> [level_folder(Path("results"), level).as_posix() for level in ("default", "quick")]
        ['results', 'results/quick']
    """
    return out if level == "default" else out / level


def load_records(folder: Path) -> list[Record]:
    """Read the records of all experiments in a level's folder; other files are ignored."""
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = Record.load(path)
        except (OSError, RecordFormatError):
            continue
        claims = record.results.get("claims")
        if isinstance(claims, list) and all(
            isinstance(text, str)
            for text in [*(record.results.get(name) for name in _TEXTS), *claims]
        ):
            records.append(record)
    return records


def _run_experiment(experiment: Experiment, out: Path, stacked: bool) -> Record:
    from hardmax.plotting.style import off_screen

    start = time.perf_counter()
    with off_screen():
        outcome = experiment.run(experiment.parameters)
        seconds = time.perf_counter() - start
        drawn = []
        if outcome.figure is not None:
            drawn = _save_files(outcome.figure, out / experiment.name, stacked)
    files = [path.name for path in drawn]
    for table, rows in outcome.tables.items():
        path = write_table(out, f"{experiment.name}_{table}".replace("-", "_"), rows)
        files.append(path.relative_to(out).as_posix())
    results = {
        **outcome.results,
        "title": experiment.title,
        "summary": outcome.summary,
        "claimed": outcome.claimed,
        "claims": list(outcome.claims),
        "files": {name: file_digest(out / name) for name in files},
    }
    parameters = asdict(experiment.parameters)
    code, seed = code_fingerprint(), parameters.get("seed")
    done = Record(experiment.name, parameters, results, seed, code, seconds)
    # The record is written last: its presence means that the figures and tables are complete.
    done.save(out / f"{experiment.name}.json")
    return done


def _save_files(figure: Any, stem: Path, stacked: bool) -> list[Path]:
    """Write a figure as SVG and PNG, and optionally a narrow version with stacked panels."""
    from hardmax.plotting.style import stack_panels

    svg, png = stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")
    # Lay out the panels once, not again for each file.
    layout = figure.get_layout_engine()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    _save_svg(figure, svg)
    with atomic_write(png) as stream:
        figure.savefig(stream)
    figure.set_layout_engine(layout)
    if not (stacked and stack_panels(figure)):
        return [svg, png]
    narrow = stem.with_name(f"{stem.name}-narrow")
    if svg.stat().st_size <= LARGEST_DRAWING:
        _save_svg(figure, narrow.with_suffix(".svg"))
        return [svg, png, narrow.with_suffix(".svg")]
    with atomic_write(narrow.with_suffix(".png")) as stream:
        figure.savefig(stream, dpi=150)
    return [svg, png, narrow.with_suffix(".png")]


def _save_svg(figure: Any, path: Path) -> None:
    """Write an SVG in the page's fonts, without a date, so that equal pictures are equal files."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    write_text(path, text.getvalue().replace("'DejaVu Sans'", _FONTS))


def _load_finished(experiment: Experiment, out: Path) -> Record | None:
    """Return the stored record if it is up to date and its files are intact, else None."""
    try:
        stored = Record.load(out / f"{experiment.name}.json")
    except (FileNotFoundError, RecordFormatError):
        return None
    files = stored.results.get("files")
    if not isinstance(files, Mapping):
        return None
    if any(file_digest(out / name) != digest for name, digest in files.items()):
        return None
    wanted = Record("", asdict(experiment.parameters), {}, versions={})
    unchanged = (
        Record("", stored.parameters, {}, versions={}) == wanted
        and dict(stored.versions) == library_versions()
        and stored.inputs == code_fingerprint()
    )
    return stored if unchanged else None


def _summary_row(record: Record) -> dict[str, Any]:
    return {
        "experiment": record.name,
        "title": record.results["title"],
        "summary": record.results["summary"],
        "claimed": record.results["claimed"],
        "seed": record.seed,
        "seconds": record.seconds,
    }
