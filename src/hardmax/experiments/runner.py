"""Running experiments: what is done and unchanged is kept, each result is saved at once."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.experiments.registry import Experiment, load_experiment
from hardmax.records import Record, library_versions


def run_experiments(names: Sequence[str], out: Path, *, again: bool = False) -> list[Record]:
    """Run experiments by name and write `NAME.json`, `NAME.svg` and `NAME.png` to a folder.

    A record whose parameters and library versions are the present ones is not computed again, so
    an interrupted run goes on where it stopped.

    Args:
        names: Names from `experiment_titles`.
        out: The folder; made if it is not there.
        again: Run everything, also what is done.

    Returns:
        One record per name.
    """
    from rich.console import Console

    console = Console(highlight=False)
    experiments = [load_experiment(name) for name in names]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"`out` must be a folder that can be written; {error}.") from None
    records = []
    for experiment in experiments:
        kept = None if again else _finished(experiment, out)
        if kept is None:
            with console.status(f"{experiment.name}: {experiment.title}"):
                kept = _run(experiment, out)
            note = f"{kept.seconds:.1f} s"
        else:
            note = "already done"
        console.print(f"[bold]{experiment.name}[/bold]  {experiment.title}  [dim]({note})[/dim]")
        console.print(f"    {kept.results['summary']}")
        records.append(kept)
    console.print(f"[dim]records and figures: {out}/[/dim]")
    return records


def _run(experiment: Experiment, out: Path) -> Record:
    import matplotlib as mpl

    from hardmax.plotting.style import STYLE

    parameters = asdict(experiment.parameters)
    start = time.perf_counter()
    with mpl.rc_context({**STYLE, "backend": "Agg"}):
        outcome = experiment.run(experiment.parameters)
        seconds = time.perf_counter() - start
        if outcome.figure is not None:
            _save_figure(outcome.figure, out / experiment.name)
    results = {"summary": outcome.summary, **outcome.results}
    done = Record(experiment.name, parameters, results, parameters.get("seed"), "", seconds)
    # The record goes last: its presence says that the figures are complete.
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
    )
    return stored if unchanged else None
