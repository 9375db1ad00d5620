"""One claim of a paper: its content as an object, and a check that recomputes the verdict.

A check is a function of what the claim asserts, not of the claim's name: it gets the claimed bound,
formula or predicate, tries it on instances whose truth is computed exactly, and returns the trials.
The verdict is a function of the trials alone (`judge`), so it cannot be stored, and it changes when
the content does: every claim carries a corrupted or a repaired content that must change it, and so
must every content next to them (`Claim.unmoved` says where not, and why).

Claims are tried in the model that the paper itself has: heads without biases, keys and values that
are fixed, $x$ the query token. A condition cuts down what a statement speaks of, within that model;
it never brings in another one. Where only a query bias saves a claim, the claim as stated is false,
and what holds with the bias is an entry of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from hardmax._ground.display import card, cut, html_card, short_repr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Content = TypeVar("Content")
Number: TypeAlias = int | float | Fraction


class ClaimVerdict(StrEnum):
    """What the trials of a claim amount to.

    Examples:
        >>> ClaimVerdict("loose")
        <ClaimVerdict.LOOSE: 'loose'>
    """

    HOLDS = "holds"
    CONDITIONAL = "holds with conditions"
    LOOSE = "loose"
    FALSE = "false"
    NOT_CHECKABLE = "not checkable"


@dataclass(frozen=True)
class Trial:
    """The claim tried on one instance.

    Attributes:
        instance: What was tried, in words.
        holds: Whether the claim is true there; None if as stated it has no truth value there.
        condition: Whether the instance meets the extra condition under which the claim is right.
            True everywhere if no condition is known that saves the claim within its model.
        tight: For a bound, whether the instance attains it; for a property, whether it decides the
            instance, however that is written. None if the instance is not meant to tell.
        numbers: The numbers, arrays and strings behind the answer (whatever a `Record` can hold).

    Examples:
        >>> upper_trial("three keys", 3, 4).holds, upper_trial("three keys", 5, 4).holds
        (True, False)
    """

    instance: str
    holds: bool | None
    condition: bool = True
    tight: bool | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = short_repr
    _repr_html_ = html_card


def judge(trials: Iterable[Trial]) -> ClaimVerdict:
    """Derive the verdict from the trials.

    A failure where the extra condition is met (or where none is offered) makes the claim false. If
    it fails only where the condition is not met, and holds somewhere where it is, it holds with
    conditions. If it never fails but misses its own extremal instances, or says nothing about
    them, it is loose.

    Examples:
        >>> judge([Trial("a", True), Trial("b", False)])
        <ClaimVerdict.FALSE: 'false'>
        >>> judge([Trial("distinct keys", True), Trial("equal keys", False, condition=False)])
        <ClaimVerdict.CONDITIONAL: 'holds with conditions'>
        >>> judge([Trial("maximum 92 of 216", True, tight=False)])
        <ClaimVerdict.LOOSE: 'loose'>
        >>> judge([])
        <ClaimVerdict.NOT_CHECKABLE: 'not checkable'>
    """
    decided = [trial for trial in trials if trial.holds is not None]
    if not decided:
        return ClaimVerdict.NOT_CHECKABLE
    failures = [trial for trial in decided if not trial.holds]
    if any(trial.condition for trial in failures):
        return ClaimVerdict.FALSE
    if failures:
        saved = any(trial.holds and trial.condition for trial in decided)
        return ClaimVerdict.CONDITIONAL if saved else ClaimVerdict.FALSE
    if any(trial.tight is False for trial in decided):
        return ClaimVerdict.LOOSE
    return ClaimVerdict.HOLDS


@dataclass(frozen=True, eq=False)
class Finding:
    """What a check found.

    Attributes:
        trials: The instances tried.
        explanation: One or two sentences with the numbers just computed.
        corrected: The sharp or corrected statement, which is `Claim.repaired` in words; "" if the
            claim stands as it is.
        figure: Draws the counterexample or the attained case, if there is a picture of it.

    Examples:
        >>> Finding((Trial("equal keys", False),), "Two equal keys tie.").verdict
        <ClaimVerdict.FALSE: 'false'>
    """

    trials: tuple[Trial, ...]
    explanation: str
    corrected: str = ""
    figure: "Callable[[], Figure] | None" = None

    def __repr__(self) -> str:
        n = len(self.trials)
        words = cut(self.explanation, 100)
        return f"Finding({self.verdict.value}, {n} trial{'s' * (n != 1)}: {words})"

    def _repr_html_(self) -> str:
        rows = {
            "found": self.explanation,
            "instead": self.corrected or None,
            "trials": [f"{trial.instance}: {_word(trial)}" for trial in self.trials],
        }
        return card(self.verdict.value, rows)

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict the trials amount to (see `judge`)."""
        return judge(self.trials)


@dataclass(frozen=True, eq=False)
class Claim(Generic[Content]):
    """One statement of a paper.

    Attributes:
        id: For example `"V.2"`, `"Fig6a"`, `"AppD.1"`, `"B.1"`; several claims of one numbered
            statement are told apart by a letter: `"V.2b"`.
        source: `"SL26"` or `"GYZ26"`.
        where: Where it stands, for example `"Theorem V.2, section V-A"`.
        kind: `"definition"`, `"theorem"`, `"figure"`, ...
        statement: The claim in our own words.
        content: What is claimed, as something `check` can try: a bound as a function, a
            formula, a predicate, or a small dataclass of numbers.
        check: Tries a content and returns the finding.
        corrupted: A content that is wrong; its verdict must differ from the claim's.
        repaired: The corrected or sharp content; its verdict must be `ClaimVerdict.HOLDS`.
        neighbours: More contents that are nearly right, by name; the name begins with what they
            stand next to, `"content"` or `"repaired"`. The verdict must turn for each.
        unmoved: For contents next to this one that the check need not tell from it, the reason. A
            key is the beginning of what a general rule does to a content (see the tests), such as
            `"content + 1"`.

    Examples:
        >>> check = lambda n: Finding((equal_trial("one unit", 2, n),), "One unit has two cells.")
        >>> claim = Claim("X.1", "SL26", "Section X", "theorem", "It has two cells.", 2, check)
        >>> claim.run().verdict.value, claim.check(3).verdict.value
        ('holds', 'false')
    """

    id: str
    source: str
    where: str
    kind: str
    statement: str
    content: Content
    check: Callable[[Content], Finding]
    corrupted: Content | None = None
    repaired: Content | None = None
    neighbours: Mapping[str, Content] = field(default_factory=dict)
    unmoved: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Claim({self.id}, {self.source}, {cut(self.where)}: {cut(self.statement, 80)})"

    def _repr_html_(self) -> str:
        rows = {"where": f"{self.where} ({self.source})", "kind": self.kind, "says": self.statement}
        return card(f"Claim {self.id}", rows)

    def run(self) -> Finding:
        """Check the claim as the paper states it."""
        return self.check(self.content)


def _word(trial: Trial) -> str:
    word = {True: "true", False: "false", None: "open"}[trial.holds]
    return word if trial.condition else f"{word} (outside the condition)"


def upper_trial(
    instance: str,
    true: Number,
    claimed: Number,
    *,
    condition: bool = True,
    extremal: bool = False,
    **numbers: Any,
) -> Trial:
    """Try an upper bound on an instance where the bounded quantity is known.

    Args:
        instance: What was tried, in words.
        true: The quantity on this instance (a count; exact).
        claimed: The claimed bound.
        condition: See `Trial`.
        extremal: Whether the instance is a maximiser, so that a sharp bound must be attained.
        numbers: More numbers to keep.

    Examples:
        >>> judge([upper_trial("parabola family, N=6, H=d=3", 92, 216, extremal=True)])
        <ClaimVerdict.LOOSE: 'loose'>
    """
    return Trial(
        instance,
        bool(true <= claimed),
        condition,
        bool(true == claimed) if extremal else None,
        {"true": true, "claimed": claimed, **numbers},
    )


def lower_trial(
    instance: str,
    true: Number,
    claimed: Number,
    *,
    condition: bool = True,
    extremal: bool = False,
    **numbers: Any,
) -> Trial:
    """Try a lower bound on an instance where the bounded quantity is known (see `upper_trial`)."""
    return Trial(
        instance,
        bool(true >= claimed),
        condition,
        bool(true == claimed) if extremal else None,
        {"true": true, "claimed": claimed, **numbers},
    )


def bracket_trial(
    instance: str,
    true: Any,
    claimed: Any,
    /,
    *,
    condition: bool = True,
    extremal: bool = True,
    **numbers: Any,
) -> Trial:
    """Try an upper bound that is known as an enclosure against a quantity known as one.

    An enclosure never proves equality. The bound fails if the quantity certainly exceeds it, and an
    extremal instance attains it if the two cannot be told apart.
    """
    return Trial(
        instance,
        not bool(true > claimed),
        condition,
        not bool(claimed > true) if extremal else None,
        numbers,
    )


def equal_trial(
    instance: str, true: Any, claimed: Any, *, condition: bool = True, **numbers: Any
) -> Trial:
    """Try a claimed value (a number, a string, a tuple) against the computed one."""
    kept = {"true": true, "claimed": claimed, **numbers}
    return Trial(instance, bool(true == claimed), condition, None, kept)
