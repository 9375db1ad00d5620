"""Which stage decided: the counters that go with every exact answer."""

from dataclasses import dataclass
from typing import Literal, get_args

from hardmax._ground.arguments import choice
from hardmax._ground.display import html_card

Stage = Literal["filtered", "expanded", "rational"]
"""Where a decision starts. `"filtered"`: floats with a proven bound, then the rest. `"expanded"`:
skip the filter. `"rational"`: big integers only, the all-exact mode. The answer is the same."""


@dataclass
class Decisions:
    """How many decisions each stage took; pass one in, and calls add to it.

    Attributes:
        filtered: Decided by float64 and a proven error bound.
        expanded: Decided by the compiled exact stage, sums of non-overlapping floats.
        rational: Decided by integers of any size.

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
        """All decisions together."""
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
    """Check `start`; return its place in the order of the stages, 0, 1 or 2."""
    stages = get_args(Stage)
    return stages.index(choice("start", start, stages))
