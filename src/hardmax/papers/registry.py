"""Which experiments there are. A module is imported only when its experiment runs.

An experiment is a module with a frozen dataclass `Parameters`, whose defaults are the default
level, a function `run(parameters)`, and, where other sizes make sense, `QUICK` and `FULL`:
`Parameters` for a look within seconds and for the largest sizes that are worth the wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Literal

from hardmax._ground.records import Record
from hardmax.errors import ArgumentError

Level = Literal["quick", "default", "full"]
Row = dict[str, Any]
"""A row of a tidy table: column to number or text."""

# chapter: {name: (module in `experiments`, title)}
_CHAPTERS = {
    "Figures": {
        "fig1": ("figures.depth", "Figure 1: every cell of a transformer as blocks are added"),
        "fig2": (
            "figures.relu_search",
            "Figure 2: two layers of three ReLU units, 49 claimed, 34 the maximum",
        ),
        "fig3": (
            "figures.diagrams",
            "Figure 3: Voronoi against power diagram, which keys can ever win",
        ),
        "fig4": (
            "figures.minkowski_sums",
            "Figure 4: sums of three heads in 3-D, 92 vertices, not 216",
        ),
        "fig5": (
            "figures.annealing",
            "Figure 5: one head at falling temperatures, walls that never move",
        ),
        "fig6a": ("figures.sampled_counts", "Figure 6(a): exact counts where sampling was used"),
        "fig6b": ("figures.vertex_counts", "Figure 6(b): exact vertex counts of Minkowski sums"),
        "fig7": (
            "figures.block_refinement",
            "Figure 7: a block is not the refinement of its halves",
        ),
    },
    "Tables and examples": {
        "tables": (
            "examples.dictionary",
            "Tables I and II: symbols and dictionary, each entry tried",
        ),
        "ex-V3": (
            "examples.head_budget",
            "Example V.3: what the same parameters buy with more heads",
        ),
        "ex-VI2": (
            "examples.regime",
            "Example VI.2: the margins softmax needs at the standard scaling",
        ),
        "emulation": (
            "examples.emulation",
            "Maxout networks as transformers, with a certified error",
        ),
        "deep": (
            "examples.compiled_depth",
            "Regions exponential in depth, and universal approximation",
        ),
    },
    "Beyond the papers": {
        "growth": ("beyond.growth", "Growth with keys, heads, dimension and depth, fitted exactly"),
        "persistence": (
            "beyond.persisting_cells",
            "How many cells survive at a temperature, proved",
        ),
        "log-lift": (
            "beyond.lifting",
            "Log-lifted attention has more regions than routing has cells",
        ),
        "top-k": ("beyond.top_k_cells", "Top-k attention: which sets of keys win together"),
        "sparsemax": (
            "beyond.sparse_attention",
            "Sparsemax attention: exact pieces at every temperature",
        ),
        "training": ("beyond.training", "Regions of a small transformer while it is trained"),
    },
}
_EXPERIMENTS = {name: entry for chapter in _CHAPTERS.values() for name, entry in chapter.items()}


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
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)


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


def experiment_chapters() -> dict[str, tuple[str, ...]]:
    """Return the names of the experiments under the headings they stand under in a report."""
    return {chapter: tuple(entries) for chapter, entries in _CHAPTERS.items()}


def level_of(record: Record) -> Level | None:
    """Say at which level the parameters of a record stand now; None if at none of them.

    Where levels share their parameters it is the default one.
    """
    if record.name not in _EXPERIMENTS:
        return None
    levels: tuple[Level, ...] = ("default", "quick", "full")
    stored = Record("", record.parameters, {}, versions={})
    for level in levels:
        parameters = asdict(load_experiment(record.name, level).parameters)
        if Record("", parameters, {}, versions={}) == stored:
            return level
    return None


def load_experiment(name: str, level: Level = "default") -> Experiment:
    """Import one experiment, with the parameters of a level.

    Raises:
        ArgumentError: If there is none of that name.
    """
    if name not in _EXPERIMENTS:
        raise ArgumentError(f"`names` must be among {', '.join(_EXPERIMENTS)}; got {name!r}.")
    module_name, title = _EXPERIMENTS[name]
    module = import_module(f"hardmax.papers.experiments.{module_name}")
    default = module.Parameters()
    parameters = default if level == "default" else getattr(module, level.upper(), default)
    return Experiment(name, title, parameters, module.run)
