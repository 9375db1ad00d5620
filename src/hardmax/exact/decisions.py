"""The stages of exact decisions, and counters of the decisions of each stage."""

from dataclasses import dataclass
from typing import Literal, get_args

from hardmax._ground.arguments import choice
from hardmax._ground.display import html_card

Stage = Literal["filtered", "expanded", "rational"]
"""The first stage of a decision: `"filtered"` (floats with a proven error bound, then the other
stages), `"expanded"` (without the filter) or `"rational"` (only integers of any size). The result
does not depend on it."""


@dataclass
class Decisions:
    """Counters of the decisions of each stage.

    Functions with an argument of this type add their decisions to it.

    Attributes:
        filtered: The number of decisions by float64 with a proven error bound.
        expanded: The number of decisions by the compiled exact stage, which uses sums of
            non-overlapping floats.
        rational: The number of decisions by integers of any size.

    Examples:
        >>> Decisions(filtered=5) + Decisions(filtered=1, rational=2)
        Decisions(filtered=6, expanded=0, rational=2)
        >>> (Decisions(filtered=5) + Decisions(rational=2)).total
        7
    """

    filtered: int = 0
    expanded: int = 0
    rational: int = 0

    _repr_html_ = html_card

    @property
    def total(self) -> int:
        """The total number of decisions."""
        return self.filtered + self.expanded + self.rational

    def __add__(self, other: "Decisions") -> "Decisions":
        if not isinstance(other, Decisions):
            return NotImplemented
        return Decisions(
            self.filtered + other.filtered,
            self.expanded + other.expanded,
            self.rational + other.rational,
        )

    def record(self, *, filtered: int = 0, expanded: int = 0, rational: int = 0) -> None:
        """Add to the counters in place."""
        self.filtered += filtered
        self.expanded += expanded
        self.rational += rational


def starting_stage(start: Stage) -> int:
    """Validate `start` and return its position in the order of the stages: 0, 1 or 2."""
    stages = get_args(Stage)
    return stages.index(choice("start", start, stages))
