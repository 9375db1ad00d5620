"""Statements of [SL26] on other work: none counts regions, and its own bounds are the first."""

from dataclasses import dataclass
from typing import Any

from hardmax.papers.claims import Claim, Finding, Trial, equal_trial

OWN_NUMBER = 2604.14727
"""The arXiv number of [SL26]; these numbers increase with time."""


@dataclass(frozen=True)
class CitedWork:
    """A work on the expressivity of transformers, with the relevant sentence of its abstract.

    Attributes:
        key: The key in `docs/references.bib`.
        number: Its arXiv number.
        abstract: The part of its abstract that is quoted here.
    """

    key: str
    number: float
    abstract: str

    @property
    def counts_regions(self) -> bool:
        """Whether the abstract states that linear regions are counted."""
        return "number of linear regions" in self.abstract

    @property
    def has_tight_bound(self) -> bool:
        """Whether the abstract announces matching bounds on that number."""
        return self.counts_regions and "tight" in self.abstract


GU_YANG_ZHOU = CitedWork(
    "GYZ26",
    2603.03084,
    "quantitatively characterize their expressivity via the number of linear regions, which grows "
    "exponentially with depth",
)
"""Reference [16] of [SL26], cited in the paragraph before the sentence that is checked."""


def _check_prior_counts(counting: frozenset[str]) -> Finding:
    work = GU_YANG_ZHOU
    trials = (
        equal_trial(
            f"{work.key}, cited in the same section",
            work.counts_regions,
            work.key in counting,
            number=work.number,
            abstract=work.abstract,
        ),
    )
    return Finding(
        trials,
        f"The abstract of [{work.key}], reference [16] of the paper, reads: {work.abstract}. That "
        "count is checked in B.5.",
        "Of the works cited there, [GYZ26] counts linear regions; their number is exponential in "
        "the depth.",
    )


def _check_priority(earlier: frozenset[str] | None) -> Finding:
    """Priority concerns all other works; the paper does not name those it was compared with."""
    trials: tuple[Trial, ...] = (Trial("all works before it", None),)
    if earlier is not None:
        work = GU_YANG_ZHOU
        trials = (
            equal_trial(
                f"an earlier tight bound in [{work.key}]",
                work.number < OWN_NUMBER and work.has_tight_bound,
                work.key in earlier,
                number=work.number,
                abstract=work.abstract,
            ),
        )
    return Finding(
        trials,
        "Whether a bound is the first of its kind depends on all other works, so no computation "
        "here decides it. The only other work known to us that counts regions of transformers, "
        f"[GYZ26], is earlier ({GU_YANG_ZHOU.number:.5f} against {OWN_NUMBER:.5f}), and its "
        "abstract announces growth with depth but no matching bounds. Whether the bounds are "
        "tight is the subject of I.3 and V.9.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="I.4",
        source="SL26",
        where="Abstract; section I, third contribution; section II-B, last sentence",
        kind="text",
        statement=(
            "These are the first tight bounds on the number of linear regions of transformers; "
            "the way attention partitions space is unquantified in the literature."
        ),
        content=None,
        check=_check_priority,
        corrupted=frozenset({"GYZ26"}),
        repaired=frozenset(),
    ),
    Claim(
        id="II.2",
        source="SL26",
        where="Section II-A, last paragraph",
        kind="text",
        statement="Existing analyses of the expressivity of transformers do not count the linear "
        "regions they induce.",
        content=frozenset(),
        check=_check_prior_counts,
        repaired=frozenset({"GYZ26"}),
    ),
)
