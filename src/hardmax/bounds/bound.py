"""Records of bounds, with assumptions and source, and of estimates, which are a separate type."""

from dataclasses import dataclass
from functools import cached_property
from math import floor, inf, isfinite, log10
from typing import Any, Literal, TypeAlias

from hardmax._ground.arguments import choice, integer, number
from hardmax._ground.display import format_table, html_card

BoundKind: TypeAlias = Literal["upper", "lower", "exact", "claim"]

_SIGNS = {"upper": "<=", "lower": ">=", "exact": "=", "claim": "claims", "estimate": "~"}
_LONGEST_EXACT = 15
"""Numbers of at most this many digits are printed in full."""
_LONGEST_STORED = 1000
"""Numbers of at most this many digits are written in full by `as_mapping`."""


@dataclass(frozen=True, repr=False)
class Bound:
    r"""An exact integer $b^e$ that bounds a number of cells.

    For a deep model this integer can have a million digits. It is therefore stored as a base and an
    exponent, and only `value` computes the power; `log10` and the printed form do not.

    Attributes:
        name: The quantity that is bounded.
        base: The integer $b \ge 1$.
        kind: `"upper"` (no model of this shape has more), `"lower"` (some model has at least this
            number), `"exact"` (the maximum itself) or `"claim"` (a statement of [SL26], true or
            not).
        assumptions: The conditions under which the bound holds, in words.
        source: The publication that proves or states the bound.
        exponent: The integer $e \ge 0$.

    Examples:
        >>> bound = Bound("cells of one layer", 512, "exact", "no bias", "[MRZ22]", exponent=8)
        >>> bound.value == 512**8, bound.text
        (True, '4.722e21')
        >>> bound
        Bound('cells of one layer' = 4.722e21; no bias; [MRZ22])
        >>> Bound("many", 10, "upper", "", "", exponent=10**7).text
        '1.000e10000000'
    """

    name: str
    base: int
    kind: BoundKind
    assumptions: str
    source: str
    exponent: int = 1

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        integer("base", self.base, at_least=1)
        integer("exponent", self.exponent, at_least=0)
        choice("kind", self.kind, ("upper", "lower", "exact", "claim"))

    @cached_property
    def value(self) -> int:
        """The integer $b^e$."""
        return int(self.base**self.exponent)

    @property
    def log10(self) -> float:
        """The decimal logarithm of the integer, computed without the integer."""
        return self.exponent * log10(self.base)

    @property
    def text(self) -> str:
        """The integer in full if it is short, otherwise four digits and a power of ten."""
        if self.log10 < _LONGEST_EXACT:
            return str(self.value)
        return scientific(self.log10)

    def as_mapping(self) -> dict[str, Any]:
        """Return the bound as a JSON-compatible dict; `value` is None beyond a thousand digits."""
        short = self.log10 < _LONGEST_STORED
        return {
            "name": self.name,
            "kind": self.kind,
            "value": str(self.value) if short else None,
            "log10": self.log10,
            "assumptions": self.assumptions,
            "source": self.source,
        }

    def __repr__(self) -> str:
        return _format_number(
            "Bound", self.kind, self.name, self.text, self.assumptions, self.source
        )


@dataclass(frozen=True, repr=False)
class Estimate:
    r"""An expected or typical count, in floating point; not a bound.

    Attributes:
        name: The quantity that is estimated.
        log10: The decimal logarithm of the estimate.
        assumptions: The distribution over which the average is taken, in words.
        source: The publication that contains the formula.

    Examples:
        >>> Estimate("vertices", 1.0, "Gaussian points", "[AS92]")
        Estimate('vertices' ~ 10.00; Gaussian points; [AS92])
    """

    name: str
    log10: float
    assumptions: str
    source: str

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        number("log10", self.log10)

    @property
    def kind(self) -> str:
        """The string `"estimate"`, as `Bound.kind` for bounds."""
        return "estimate"

    @property
    def value(self) -> float:
        """The estimate, or infinity if it is too large for a float (use `log10` then)."""
        return 10.0**self.log10 if self.log10 < 308 else inf

    @property
    def text(self) -> str:
        """The estimate with four digits, and a power of ten if it is large."""
        return f"{self.value:#.4g}" if -4 < self.log10 < 3.9999 else scientific(self.log10)

    def as_mapping(self) -> dict[str, Any]:
        """Return the estimate as a JSON-compatible dict; an infinite `value` becomes None."""
        return {
            "name": self.name,
            "kind": self.kind,
            "value": self.value if isfinite(self.value) else None,
            "log10": self.log10,
            "assumptions": self.assumptions,
            "source": self.source,
        }

    def __repr__(self) -> str:
        return _format_number(
            "Estimate", self.kind, self.name, self.text, self.assumptions, self.source
        )


class BoundTable(list[Bound | Estimate]):
    """A list of bounds and estimates for one shape, which prints as a table.

    Examples:
        >>> table = BoundTable([Bound("cells", 92, "exact", "no bias", "[MRZ22]")])
        >>> table
        BoundTable(1 row)
        >>> print(table)
        92  exact  cells  no bias  [MRZ22]
    """

    def __repr__(self) -> str:
        return f"BoundTable({len(self)} row{'s' * (len(self) != 1)})"

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        widths[-1] = 0
        lines = []
        for text, *words in rows:
            padded = [word.ljust(width) for word, width in zip(words, widths[1:], strict=True)]
            lines.append("  ".join([text.rjust(widths[0]), *padded]).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return format_table(
            repr(self), ["number", "kind", "of what", "when", "source"], self._rows()
        )

    def _rows(self) -> list[list[str]]:
        return [[row.text, row.kind, row.name, row.assumptions, row.source] for row in self]


def scientific(logarithm: float) -> str:
    """Format ten to the given power with four digits.

    Examples:
        >>> scientific(21.674), scientific(2.99999999)
        ('4.721e21', '1.000e3')
    """
    exponent = floor(logarithm)
    mantissa = f"{10.0 ** (logarithm - exponent):.3f}"
    if mantissa == "10.000":
        exponent, mantissa = exponent + 1, "1.000"
    return f"{mantissa}e{exponent}"


def _format_number(
    class_name: str, kind: str, name: str, text: str, assumptions: str, source: str
) -> str:
    notes = "".join(f"; {note}" for note in (assumptions, source) if note)
    return f"{class_name}({name!r} {_SIGNS[kind]} {text}{notes})"
