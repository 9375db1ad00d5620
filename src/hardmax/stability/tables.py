r"""Tables of the bounds of Theorem VI.1, claimed and correct, at several temperatures.

Example VI.2 of [SL26] uses $N = 512$, $d_k = 64$ and a margin of 2 at
$\tau = 1/\sqrt{d_k} = 0.125$. The scaling of a transformer, $\langle q,k\rangle/\sqrt{d_k}$,
corresponds to $\tau = \sqrt{d_k} = 8$ if the margin refers to raw scores, and to $\tau = 1$ if it
refers to scaled logits. The winner is dominant at neither of these temperatures.
"""

import math
from dataclasses import dataclass
from typing import Any

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import format_table, html_card, short_repr
from hardmax.stability.claimed_bounds import (
    claimed_gradient_bound,
    claimed_hessian_bound,
    claimed_lipschitz_bound,
    claimed_taylor_bound,
    claimed_temperature,
    claimed_value_bound,
)
from hardmax.stability.score_bounds import (
    gradient_bound,
    hessian_bound,
    lipschitz_bound,
    rival_mass_bound,
    taylor_bound,
    value_bound,
)
from hardmax.stability.temperatures import (
    margin_for_accuracy,
    read_epsilon,
    standard_temperature,
    temperature_for_accuracy,
)

QUANTITIES = (
    ("value", "log-sum-exp minus maximum"),
    ("rival_mass", "share of all rivals"),
    ("gradient", "1-norm, gradient to one-hot"),
    ("hessian", "2-norm of the Hessian"),
    ("lipschitz", "Lipschitz, gradient"),
    ("taylor", "Taylor remainder"),
    ("margin_needed", "margin for epsilon"),
)
"""The fields of a column that contain bounds, with their titles in a printed table."""


@dataclass(frozen=True)
class StabilityColumn:
    r"""All bounds at one temperature.

    Attributes:
        name: A description of the temperature.
        tau: The temperature.
        is_claim: Whether the column has the constants of [SL26].
        value: The bound on $P_\tau - \max s$.
        rival_mass: The bound on $1 - p_i$; for a claim, half of the claimed gradient bound.
        gradient: The bound on $\|\nabla P_\tau - e_i\|_1$.
        hessian: The bound on $\|\nabla^2 P_\tau\|_2$.
        lipschitz: The Lipschitz constant of the gradient.
        taylor: The constant of the Taylor remainder.
        margin_needed: The margin at which rivals get at most $\varepsilon$ at this temperature.

    Examples:
        >>> column = stability_table(512, 2.0, 64).columns[-1]
        >>> column.tau, column.is_claim, round(column.margin_needed, 3)
        (1.0, False, 10.831)
    """

    name: str
    tau: float
    is_claim: bool
    value: float
    rival_mass: float
    gradient: float
    hessian: float
    lipschitz: float
    taylor: float
    margin_needed: float

    __repr__ = short_repr
    _repr_html_ = html_card

    def as_mapping(self) -> dict[str, Any]:
        """Return the fields as a JSON-compatible dict, with None in place of infinity."""
        return _without_infinity(vars(self))


@dataclass(frozen=True)
class StabilityTable:
    r"""The bounds for one shape at several temperatures.

    Attributes:
        n_keys: The number of keys $N$.
        margin: The margin $\delta$ of the winner.
        d_k: The head size.
        epsilon: The share $\varepsilon$ of the weight that rivals may have.
        temperature_needed: The highest temperature at which the margin leaves rivals at most
            $\varepsilon$.
        columns: The claims of [SL26], followed by the correct bounds at several temperatures.

    Examples:
        >>> table = stability_table(512, 2.0, 64)
        >>> table.n_keys, len(table.columns), round(table.temperature_needed, 3)
        (512, 4, 0.185)
    """

    n_keys: int
    margin: float
    d_k: int
    epsilon: float
    temperature_needed: float
    columns: tuple[StabilityColumn, ...]

    def __repr__(self) -> str:
        taus = ", ".join(f"{column.tau:g}" for column in self.columns)
        return (
            f"StabilityTable(N={self.n_keys}, margin={self.margin:g}, d_k={self.d_k}, "
            f"temperatures {taus})"
        )

    def _repr_html_(self) -> str:
        rows = [["tau", *(f"{column.tau:.5g}" for column in self.columns)]]
        for field, title in QUANTITIES:
            rows.append([title, *(f"{getattr(column, field):.5g}" for column in self.columns)])
        return format_table(
            repr(self), ["bound on", *(column.name for column in self.columns)], rows
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The meaning of the numbers, as sentences."""
        claim, sharp = self.columns[:2]
        found = []
        if sharp.hessian > claim.hessian:
            found.append(
                f"The Hessian reaches {sharp.hessian:.5g}, more than the {claim.hessian:.5g} that "
                "[SL26] allows."
            )
        reach = f"up to tau = {self.temperature_needed:.5g}"
        if math.isinf(self.temperature_needed):
            reach = "at every temperature"
        elif self.temperature_needed == 0.0:
            reach = "at no temperature"
        found.append(f"A margin of {self.margin:g} leaves rivals at most {self.epsilon:g} {reach}.")
        return tuple(found)

    def __str__(self) -> str:
        names = [column.name for column in self.columns]
        rows = [["bound on", *(f"({k})" for k in range(1, len(names) + 1))]]
        rows.append(["tau", *(f"{column.tau:.5g}" for column in self.columns)])
        for field, title in QUANTITIES:
            rows.append([title, *(f"{getattr(column, field):.5g}" for column in self.columns)])
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = [
            f"N = {self.n_keys}, margin {self.margin:g}, d_k = {self.d_k}, "
            f"epsilon = {self.epsilon:g}"
        ]
        for first, *cells in rows:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *padded]))
        lines += [f"({k}) {name}" for k, name in enumerate(names, 1)]
        return "\n".join([*lines, *self.remarks])

    def as_mapping(self) -> dict[str, Any]:
        """Return the fields as a JSON-compatible dict, with None in place of infinity."""
        columns = [column.as_mapping() for column in self.columns]
        return _without_infinity({**vars(self), "columns": columns})


def stability_table(
    n_keys: int, margin: float, d_k: int, *, tau: float | None = None, epsilon: float = 0.01
) -> StabilityTable:
    r"""Tabulate the bounds of Theorem VI.1, as claimed in [SL26] and as they are.

    Args:
        n_keys: The number of keys, at least 1.
        margin: The margin of the winner, at least 0.
        d_k: The head size, at least 1.
        tau: A further temperature to include, above 0; None for no further column.
        epsilon: The share of the weight that rivals may have, between 0 and 1.

    Examples:
        Example VI.2: the claimed values, and the values at the usual scaling of transformers:

        >>> table = stability_table(512, 2.0, 64)
        >>> [(c.tau, round(c.rival_mass, 6)) for c in table.columns]
        [(0.125, 5.8e-05), (0.125, 5.8e-05), (8.0, 0.997494), (1.0, 0.985746)]
        >>> round(table.columns[3].margin_needed, 3), round(table.columns[2].margin_needed, 2)
        (10.831, 86.65)
        >>> print(stability_table(1, 0.0, 1).remarks[-1])
        A margin of 0 leaves rivals at most 0.01 at every temperature.
    """
    n = integer("n_keys", n_keys, at_least=1)
    delta = number("margin", margin, at_least=0.0)
    size = integer("d_k", d_k, at_least=1)
    eps = number("epsilon", read_epsilon(epsilon))
    wrong, right = float(claimed_temperature(size)), float(standard_temperature(size))
    columns = [
        _claimed_column("[SL26]: constants and 1/sqrt(d_k)", n, delta, wrong, eps),
        _correct_column("right constants at 1/sqrt(d_k)", n, delta, wrong, eps),
        _correct_column("sqrt(d_k), margin of raw scores", n, delta, right, eps),
        _correct_column("1, margin of scaled logits", n, delta, 1.0, eps),
    ]
    if tau is not None:
        columns.append(_correct_column("as given", n, delta, number("tau", tau, above=0.0), eps))
    reached = float(temperature_for_accuracy(n, delta, eps))
    return StabilityTable(n, delta, size, eps, reached, tuple(columns))


def _without_infinity(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value == math.inf else value for name, value in fields.items()}


def _correct_column(name: str, n: int, delta: float, tau: float, eps: float) -> StabilityColumn:
    return StabilityColumn(
        name,
        tau,
        False,
        float(value_bound(n, delta, tau)),
        float(rival_mass_bound(n, delta, tau)),
        float(gradient_bound(n, delta, tau)),
        float(hessian_bound(n, delta, tau)),
        float(lipschitz_bound(n, delta, tau)),
        float(taylor_bound(n, delta, tau)),
        float(margin_for_accuracy(n, tau, eps)),
    )


def _claimed_column(name: str, n: int, delta: float, tau: float, eps: float) -> StabilityColumn:
    gradient = float(claimed_gradient_bound(n, delta, tau))
    return StabilityColumn(
        name,
        tau,
        True,
        float(claimed_value_bound(n, delta, tau)),
        _halve_rounding_up(gradient),
        gradient,
        float(claimed_hessian_bound(n, delta, tau)),
        float(claimed_lipschitz_bound(n, delta, tau)),
        float(claimed_taylor_bound(n, delta, tau)),
        float(margin_for_accuracy(n, tau, eps)),
    )


def _halve_rounding_up(bound: float) -> float:
    """Halve a bound, rounding up if the half is subnormal."""
    half = math.ldexp(bound, -1)
    return half if 2.0 * half >= bound else math.nextafter(half, math.inf)
