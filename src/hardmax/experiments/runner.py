"""Running experiments: what is done and unchanged is kept, each result is saved at once."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.experiments.registry import Experiment, Level, load_experiment
from hardmax.experiments.store import write_table
from hardmax.files import read_text
from hardmax.records import Record, fingerprint, library_versions


def run_experiments(
    names: Sequence[str], out: Path, *, level: Level = "default", again: bool = False
) -> list[Record]:
    """Run experiments by name; write `NAME.json`, `NAME.svg`, `NAME.png` and tables to a folder.

    A record whose parameters, library versions and module are the present ones is not computed
    again, so an interrupted run goes on where it stopped. The results of a record are the
    experiment's own numbers beside `title`, `summary`, `claimed` and `claims`.

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
        except RecordFormatError:
            continue
        if record.results.keys() >= {"title", "summary", "claimed", "claims"}:
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
    for table, rows in outcome.tables.items():
        write_table(out, f"{experiment.name}_{table}".replace("-", "_"), rows)
    results = {
        **outcome.results,
        "title": experiment.title,
        "summary": outcome.summary,
        "claimed": outcome.claimed,
        "claims": list(outcome.claims),
    }
    parameters = asdict(experiment.parameters)
    inputs = _source_hash(experiment)
    done = Record(experiment.name, parameters, results, parameters.get("seed"), inputs, seconds)
    # The record goes last: its presence says that figures and tables are complete.
    done.save(out / f"{experiment.name}.json")
    return done


def _save_figure(figure: Any, stem: Path) -> None:
    from matplotlib import pyplot as plt

    for suffix, metadata in ((".svg", {"Date": None}), (".png", {})):
        figure.savefig(stem.with_suffix(suffix), metadata=metadata)
    plt.close(figure)


def _finished(experiment: Experiment, out: Path) -> Record | None:
    """Return the stored record if it answers the present question."""
    try:
        stored = Record.load(out / f"{experiment.name}.json")
    except (FileNotFoundError, RecordFormatError):
        return None
    wanted = Record("", asdict(experiment.parameters), {}, versions={})
    unchanged = (
        Record("", stored.parameters, {}, versions={}) == wanted
        and dict(stored.versions) == library_versions()
        and stored.inputs == _source_hash(experiment)
    )
    return stored if unchanged else None


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
