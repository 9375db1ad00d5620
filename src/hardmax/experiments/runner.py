"""Running experiments: what is done and unchanged is kept, each result is saved at once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.experiments.registry import Experiment, Level, load_experiment
from hardmax.experiments.store import write_table
from hardmax.files import read_text
from hardmax.records import Record, fingerprint, library_versions

# The endings of a figure's files, with what is written into them: no date, so that equal pictures
# are equal files.
_FIGURES: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".png": {}}

_TEXTS = ("title", "summary", "claimed")


def run_experiments(
    names: Sequence[str], out: Path, *, level: Level = "default", again: bool = False
) -> list[Record]:
    """Run experiments by name; write `NAME.json`, `NAME.svg`, `NAME.png` and tables to a folder.

    A record whose parameters, library versions and module are the present ones is not computed
    again, so an interrupted run goes on where it stopped; one whose figures or tables are missing
    or damaged is. The results of a record are the experiment's own numbers beside `title`,
    `summary`, `claimed`, `claims` and `files`, the SHA-256 of each figure and table.

    Args:
        names: Names from `experiment_titles`.
        out: The folder; made if it is not there.
        level: `"quick"`, `"default"` or `"full"`: how large the computations are.
        again: Run everything, also what is done.

    Returns:
        One record per name.
    """
    from rich.console import Console

    console = Console(highlight=False)
    experiments = [load_experiment(name, level) for name in names]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"`out` must be a folder that can be written; {error}.") from None
    records = []
    for place, experiment in enumerate(experiments, start=1):
        kept = None if again else _finished(experiment, out)
        label = f"[dim]{place:>2}/{len(experiments)}[/dim] [bold]{experiment.name}[/bold]"
        if kept is None:
            with console.status(f"{label}  {experiment.title}"):
                kept = _run(experiment, out)
            note = f"{kept.seconds:.1f} s"
        else:
            note = "already done"
        console.print(f"{label}  {experiment.title}  [dim]({note})[/dim]")
        console.print(f"      {kept.results['summary']}")
        records.append(kept)
    write_table(out, "experiments", [_row(record) for record in load_records(out)])
    return records


def load_records(out: Path) -> list[Record]:
    """Read every experiment's record in a results folder; files that are none are passed over."""
    records = []
    for path in sorted(out.glob("*.json")):
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


def _run(experiment: Experiment, out: Path) -> Record:
    import matplotlib as mpl

    from hardmax.plotting.style import STYLE

    start = time.perf_counter()
    with mpl.rc_context({**STYLE, "backend": "Agg"}):
        outcome = experiment.run(experiment.parameters)
        seconds = time.perf_counter() - start
        if outcome.figure is not None:
            _save_figure(outcome.figure, out / experiment.name)
    files = [f"{experiment.name}{end}" for end in _FIGURES if outcome.figure is not None]
    for table, rows in outcome.tables.items():
        path = write_table(out, f"{experiment.name}_{table}".replace("-", "_"), rows)
        files.append(path.relative_to(out).as_posix())
    results = {
        **outcome.results,
        "title": experiment.title,
        "summary": outcome.summary,
        "claimed": outcome.claimed,
        "claims": list(outcome.claims),
        "files": {name: _digest(out / name) for name in files},
    }
    parameters = asdict(experiment.parameters)
    inputs = _source_hash(experiment)
    done = Record(experiment.name, parameters, results, parameters.get("seed"), inputs, seconds)
    # The record goes last: its presence says that figures and tables are complete.
    done.save(out / f"{experiment.name}.json")
    return done


def _save_figure(figure: Any, stem: Path) -> None:
    from matplotlib import pyplot as plt

    for suffix, metadata in _FIGURES.items():
        figure.savefig(stem.with_name(stem.name + suffix), metadata=metadata)
    plt.close(figure)


def _finished(experiment: Experiment, out: Path) -> Record | None:
    """Return the stored record if it answers the present question and its files are whole."""
    try:
        stored = Record.load(out / f"{experiment.name}.json")
    except (FileNotFoundError, RecordFormatError):
        return None
    files = stored.results.get("files")
    if not isinstance(files, Mapping):
        return None
    if any(_digest(out / name) != digest for name, digest in files.items()):
        return None
    wanted = Record("", asdict(experiment.parameters), {}, versions={})
    unchanged = (
        Record("", stored.parameters, {}, versions={}) == wanted
        and dict(stored.versions) == library_versions()
        and stored.inputs == _source_hash(experiment)
    )
    return stored if unchanged else None


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if there is none that can be read."""
    try:
        return sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:  # The name comes from a record, which may hold any text.
        return None


def _source_hash(experiment: Experiment) -> str:
    return fingerprint(read_text(experiment.source))


def _row(record: Record) -> dict[str, Any]:
    return {
        "experiment": record.name,
        "title": record.results["title"],
        "summary": record.results["summary"],
        "claimed": record.results["claimed"],
        "seed": record.seed,
        "seconds": record.seconds,
    }
