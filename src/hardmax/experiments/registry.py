"""Which experiments there are. A module is imported only when its experiment runs.

An experiment is a module with a frozen dataclass `Parameters`, whose defaults are the default
level, a function `run(parameters)`, and, where other sizes make sense, `QUICK` and `FULL`:
`Parameters` for a look within seconds and for the largest sizes that are worth the wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from hardmax.errors import ArgumentError

Level = Literal["quick", "default", "full"]

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
        summary: What is true, in a sentence or two with the numbers just computed.
        figure: A matplotlib figure, or None.
        claimed: What the paper shows or claims in this place; empty where it has nothing.
        claims: The entries of the ledger that speak of it (`hardmax audit --claim ID`).
        tables: Tidy tables by name, each a list of rows with the same keys.
    """

    results: Mapping[str, Any]
    summary: str
    figure: Any = None
    claimed: str = ""
    claims: tuple[str, ...] = ()
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A named computation with its parameters.

    Attributes:
        name: How the command line calls it.
        title: One line that says what it shows.
        parameters: A frozen dataclass with every number that matters, the seed included.
        run: The computation.
        source: The path of the module, whose text decides with the parameters what is unchanged.
    """

    name: str
    title: str
    parameters: Any
    run: Callable[[Any], Outcome] = field(repr=False)
    source: str = field(default="", repr=False)


def experiment_titles() -> dict[str, str]:
    """Return name and title of every experiment, in the order they run."""
    return {name: title for name, (_, title) in _EXPERIMENTS.items()}


def load_experiment(name: str, level: Level = "default") -> Experiment:
    """Import one experiment, with the parameters of a level.

    Raises:
        ArgumentError: If there is none of that name.
    """
    if name not in _EXPERIMENTS:
        raise ArgumentError(f"`names` must be among {', '.join(_EXPERIMENTS)}; got {name!r}.")
    module_name, title = _EXPERIMENTS[name]
    module = import_module(f"hardmax.experiments.{module_name}")
    default = module.Parameters()
    parameters = default if level == "default" else getattr(module, level.upper(), default)
    return Experiment(name, title, parameters, module.run, module.__file__ or "")
