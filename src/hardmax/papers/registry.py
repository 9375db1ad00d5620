"""The list of experiments. A module is imported only when its experiment runs.

An experiment is a module with a frozen dataclass `Parameters`, whose defaults are the default
level, and a function `run(parameters)`. Where other sizes make sense, it also has `QUICK`,
`Parameters` for a run of a few seconds, and `FULL`, for the largest sizes that are practical.
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
        "fig1": ("figures.depth", "Figure 1: all cells of a transformer as blocks are added"),
        "fig2": (
            "figures.relu_search",
            "Figure 2: two layers of three ReLU units have at most 34 regions, not 49",
        ),
        "fig3": (
            "figures.diagrams",
            "Figure 3: Voronoi and power diagrams, and the keys that can win",
        ),
        "fig4": (
            "figures.minkowski_sums",
            "Figure 4: sums of three heads in 3-D have at most 92 vertices, not 216",
        ),
        "fig5": (
            "figures.annealing",
            "Figure 5: one head at decreasing temperatures; the walls do not move",
        ),
        "fig6a": ("figures.sampled_counts", "Figure 6(a): exact counts in place of samples"),
        "fig6b": ("figures.vertex_counts", "Figure 6(b): exact vertex counts of Minkowski sums"),
        "fig7": (
            "figures.block_refinement",
            "Figure 7: a block is not the common refinement of its halves",
        ),
    },
    "Tables and examples": {
        "tables": (
            "examples.dictionary",
            "Tables I and II: symbols and dictionary, with every entry tested",
        ),
        "ex-V3": (
            "examples.head_budget",
            "Example V.3: more heads with the same number of parameters",
        ),
        "ex-VI2": (
            "examples.regime",
            "Example VI.2: the margins that softmax needs at the standard scaling",
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
        "growth": (
            "beyond.growth",
            "Growth with keys, heads, dimension and depth, from exact counts",
        ),
        "persistence": (
            "beyond.persisting_cells",
            "Cells that persist at a given temperature, with proofs",
        ),
        "log-lift": (
            "beyond.lifting",
            "Log-lifted attention can have more regions than routing cells",
        ),
        "top-k": ("beyond.top_k_cells", "Top-k attention: the sets of keys that win together"),
        "sparsemax": (
            "beyond.sparse_attention",
            "Sparsemax attention: exact pieces at every temperature",
        ),
        "training": ("beyond.training", "Regions of a small transformer during training"),
    },
}
_EXPERIMENTS = {name: entry for chapter in _CHAPTERS.values() for name, entry in chapter.items()}


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment.

    Attributes:
        results: The numbers, as a `Record` can hold them.
        summary: The true statement, in one or two sentences with the numbers just computed.
        figure: A matplotlib figure, or None.
        claimed: The corresponding statement or figure of the paper; empty if there is none.
        claims: The ids of the related claims in the ledger (`hardmax audit --claim ID`).
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
        name: The name used on the command line.
        title: One line that describes the result.
        parameters: A frozen dataclass with all parameters of the computation, including the seed.
        run: The function that computes the result.
    """

    name: str
    title: str
    parameters: Any
    run: Callable[[Any], Outcome] = field(repr=False)


def experiment_titles() -> dict[str, str]:
    """Return the name and title of every experiment, in the order in which they run."""
    return {name: title for name, (_, title) in _EXPERIMENTS.items()}


def experiment_chapters() -> dict[str, tuple[str, ...]]:
    """Return the names of the experiments, grouped under the headings of the report."""
    return {chapter: tuple(entries) for chapter, entries in _CHAPTERS.items()}


def level_of(record: Record) -> Level | None:
    """Return the level that has the parameters of a record, or None if no level has them.

    If several levels have the same parameters, the default level comes first.
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
        ArgumentError: If there is no experiment of that name.
    """
    if name not in _EXPERIMENTS:
        raise ArgumentError(f"`names` must be among {', '.join(_EXPERIMENTS)}; got {name!r}.")
    module_name, title = _EXPERIMENTS[name]
    module = import_module(f"hardmax.papers.experiments.{module_name}")
    default = module.Parameters()
    parameters = default if level == "default" else getattr(module, level.upper(), default)
    return Experiment(name, title, parameters, module.run)
