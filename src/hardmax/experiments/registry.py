"""Which experiments there are. A module is imported only when its experiment runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from hardmax.errors import ArgumentError

# name: (module in this package, title)
_EXPERIMENTS = {
    "fig1": ("depth", "Every cell of a hard transformer as blocks are added, with certificates"),
    "fig3": ("diagrams", "Voronoi against power diagram: which keys can ever win"),
    "fig4": ("minkowski_sums", "Minkowski sums of three heads in 3-D: 92 vertices, not 216"),
    "fig5": ("annealing", "One head at falling temperatures, and the walls that never move"),
    "fig6b": ("vertex_counts", "Exact vertex counts of Minkowski sums against N and H"),
    "log-lift": ("lifting", "Log-lifted attention has more regions than its routing has cells"),
}


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes:
        results: The numbers, as a `Record` can hold them.
        summary: One line for the terminal: what is claimed and what is true.
        figure: A matplotlib figure, or None.
    """

    results: Mapping[str, Any]
    summary: str
    figure: Any = None


@dataclass(frozen=True)
class Experiment:
    """A named computation with its parameters.

    Attributes:
        name: How the command line calls it.
        title: One line that says what it shows.
        parameters: A frozen dataclass with every number that matters, the seed included.
        run: The computation.
    """

    name: str
    title: str
    parameters: Any
    run: Callable[[Any], Outcome] = field(repr=False)


def experiment_titles() -> dict[str, str]:
    """Return name and title of every experiment, in the order they run."""
    return {name: title for name, (_, title) in _EXPERIMENTS.items()}


def load_experiment(name: str) -> Experiment:
    """Import one experiment.

    Raises:
        ArgumentError: If there is none of that name.
    """
    if name not in _EXPERIMENTS:
        raise ArgumentError(f"`names` must be among {', '.join(_EXPERIMENTS)}; got {name!r}.")
    module_name, title = _EXPERIMENTS[name]
    module = import_module(f"hardmax.experiments.{module_name}")
    return Experiment(name, title, module.Parameters(), module.run)
