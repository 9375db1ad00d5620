"""One claim of a paper: its content as an object, and a check that recomputes the verdict.

A check is a function of the content of the claim, not of its id: it receives the claimed bound,
formula or predicate, tests it on instances whose correct answer is computed exactly, and returns
the trials. The verdict is a function of the trials alone (`judge`), so it cannot be stored, and it
changes when the content does: every claim carries a corrupted or a repaired content that must
change the verdict, and so must every slightly different content (`Claim.unmoved` lists the
exceptions, with reasons).

Claims are tested in the model of the paper itself: heads without biases, fixed keys and values, and
$x$ as the query token. A condition restricts a statement within that model; it never replaces the
model. If a claim is true only with a query bias, then the claim as stated is false, and the
statement with the bias is a separate entry.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from hardmax._ground.display import format_card, html_card, short_repr, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Content = TypeVar("Content")
Number: TypeAlias = int | float | Fraction


class ClaimVerdict(StrEnum):
    """The verdict on a claim, derived from its trials.

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
    """The result of testing a claim on one instance.

    Attributes:
        instance: A description of the instance.
        holds: Whether the claim is true for the instance; None if, as stated, it has no truth value
            there.
        condition: Whether the instance satisfies the extra condition under which the claim is true.
            Always True if no condition is known that makes the claim true within its model.
        tight: For a bound, whether the instance attains it; for a property, whether it decides the
            instance, in whatever form it is written. None if the instance is not meant to show
            this.
        numbers: The numbers, arrays and strings behind the answer (anything a `Record` can hold).

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

    The claim is false if it fails on an instance that satisfies the extra condition (or if there is
    no such condition). It holds with conditions if it fails only on instances that violate the
    condition, and holds on some instance that satisfies it. It is loose if it never fails, but
    misses its own extremal instances or makes no statement about them.

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
    """The result of a check.

    Attributes:
        trials: One trial per instance.
        explanation: One or two sentences with the numbers that the check computed.
        corrected: The sharp or corrected statement (`Claim.repaired` in words); "" if the claim
            needs no correction.
        figure: A function that draws the counterexample or the attained case, or None.

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
        words = shorten(self.explanation, 100)
        return f"Finding({self.verdict.value}, {n} trial{'s' * (n != 1)}: {words})"

    def _repr_html_(self) -> str:
        rows = {
            "found": self.explanation,
            "instead": self.corrected or None,
            "trials": [f"{trial.instance}: {_trial_word(trial)}" for trial in self.trials],
        }
        return format_card(self.verdict.value, rows)

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict derived from the trials (see `judge`)."""
        return judge(self.trials)


@dataclass(frozen=True, eq=False)
class Claim(Generic[Content]):
    """One statement of a paper.

    Attributes:
        id: The id, for example `"V.2"`, `"Fig6a"`, `"AppD.1"`, `"B.1"`; a letter distinguishes
            several claims of one numbered statement: `"V.2b"`.
        source: The paper, `"SL26"` or `"GYZ26"`.
        where: The place in the paper, for example `"Theorem V.2, section V-A"`.
        kind: The kind of statement: `"definition"`, `"theorem"`, `"figure"`, ...
        statement: Our paraphrase of the claim.
        content: The claim in a form that `check` can test: a bound as a function, a formula, a
            predicate, or a small dataclass of numbers.
        check: A function that tests a content and returns the finding.
        corrupted: A wrong content; its verdict must differ from the claim's verdict.
        repaired: The corrected or sharp content; its verdict must be `ClaimVerdict.HOLDS`.
        neighbours: Further contents that are nearly right, by name. The name begins with the
            content that they resemble, `"content"` or `"repaired"`. Each of them must change the
            verdict.
        unmoved: The reasons why the check need not distinguish certain similar contents. A key is
            the beginning of the description of a general modification of a content (see the
            tests), such as `"content + 1"`.

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
        return (
            f"Claim({self.id}, {self.source}, {shorten(self.where)}: {shorten(self.statement, 80)})"
        )

    def _repr_html_(self) -> str:
        rows = {"where": f"{self.where} ({self.source})", "kind": self.kind, "says": self.statement}
        return format_card(f"Claim {self.id}", rows)

    def run(self) -> Finding:
        """Run the check on the claim as the paper states it."""
        return self.check(self.content)


def _trial_word(trial: Trial) -> str:
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
    """Test an upper bound on an instance for which the bounded quantity is known.

    Args:
        instance: A description of the instance.
        true: The exact value of the quantity for this instance (a count).
        claimed: The claimed bound.
        condition: Whether the instance satisfies the condition of the claim (see `Trial`).
        extremal: Whether the instance is a maximiser, so that a sharp bound must be attained.
        numbers: Further numbers to store.

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
    """Test a lower bound on an instance for which the quantity is known (see `upper_trial`)."""
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
    """Test an upper bound on a quantity, where both are known as enclosures.

    An enclosure never proves equality. The bound fails if the quantity certainly exceeds it, and an
    extremal instance attains it if the two enclosures cannot be distinguished.
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
    """Compare a claimed value (a number, a string, a tuple) with the computed one."""
    kept = {"true": true, "claimed": claimed, **numbers}
    return Trial(instance, bool(true == claimed), condition, None, kept)
