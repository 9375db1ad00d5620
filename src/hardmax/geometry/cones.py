r"""Exact decisions whether an open polyhedral cone is empty, with a proof of either answer.

Gordan's theorem: exactly one of the two systems $R u > 0$ and
$\lambda R = 0,\ \lambda \ge 0,\ \lambda \ne 0$ has a solution. Most combinatorial questions of the
library reduce to this one: whether a key can win, whether a term is active, whether a sum of
vertices is a vertex. A compiled search proposes an answer in floating point, and exact integers
check it. If the check fails, the same search runs in exact integers.

**Wolfe's nearest point algorithm in exact integers** is this second search. It performs the same
iteration as the compiled kernel, on flint integers. Each major cycle strictly shortens the nearest
point, which the active rows determine. Hence no set of active rows occurs twice, and the iteration
terminates without an anti-cycling rule.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from hardmax._ground.deadlines import check_time
from hardmax.errors import DtypeError, ShapeMismatchError
from hardmax.geometry._hulls.nearest_points import CONTAINED, SEPARATED, nearest_point
from hardmax.typing import FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class NearestPoint:
    r"""The result of Wolfe's algorithm: a separating direction, or a dependence of the rows.

    Attributes:
        direction: If the origin is outside the hull, $u \in \mathbb{Z}^d$ with
            $\langle r_i, u \rangle > 0$ for every row; otherwise `None`.
        support: Indices of the active rows $r_i$; the vectors $(1, r_i)$ are linearly independent.
        multipliers: Positive integers $\lambda_i$, one per active row. If the origin is inside,
            $\sum_i \lambda_i r_i = 0$.
    """

    direction: list[int] | None
    support: list[int]
    multipliers: list[int]


def exact_nearest_point(rows: WideArray, start: list[int]) -> NearestPoint:
    r"""Separate the rows from the origin, or write the origin as their convex combination.

    Args:
        rows: Python integers, shape `(n_rows, dim)` with at least one row.
        start: Indices of the rows to start with. Any selection gives a correct result; a good one
            saves cycles.

    References:
        [Wol76].

    Examples:
        >>> import numpy as np
        >>> exact_nearest_point(np.array([[1, 0], [-1, 0]], dtype=object), []).multipliers
        [1, 1]
        >>> exact_nearest_point(np.array([[2, 1], [-1, 1]], dtype=object), []).direction
        [0, 1]
    """
    matrix = fmpz_mat(rows.tolist())
    table = rows.tolist()
    support, weights = _select_independent(table, start or [0])
    while True:
        check_time()
        support, weights = _project(table, support, weights)
        point = _combine(table, support, weights)
        if not any(point):
            return NearestPoint(None, support, weights)
        products = (matrix * fmpz_mat([[x] for x in point])).entries()
        lowest = min(products)
        if lowest > 0:
            return NearestPoint(point, support, weights)
        support = [*support, products.index(lowest)]
        weights = [*weights, 0]


def _select_independent(table: list[list[int]], start: list[int]) -> tuple[list[int], list[int]]:
    """Select rows of `start` with independent lifts, and give them equal weights."""
    chosen = list(dict.fromkeys(start))
    lifts = fmpz_mat([[1, *table[i]] for i in chosen]).transpose()
    reduced, _, rank = lifts.rref()
    kept = [next(c for c in range(len(chosen)) if reduced[row, c] != 0) for row in range(int(rank))]
    return [chosen[c] for c in kept], [1] * len(kept)


def _project(
    table: list[list[int]], support: list[int], weights: list[int]
) -> tuple[list[int], list[int]]:
    """Run the minor cycles: move to the nearest point of the hull of a subset of active rows."""
    current = [fmpq(w, sum(weights)) for w in weights]
    while True:
        check_time()
        lifts = fmpz_mat([[1, *table[i]] for i in support])
        ones = fmpz_mat([[1]] * len(support))
        solution = (lifts * lifts.transpose()).solve(ones).entries()
        total = sum(solution, fmpq(0))
        target = [value / total for value in solution]
        if all(value > 0 for value in target):
            return support, _clear_denominators(target)
        step = min(
            w / (w - t) if w > t else fmpq(0)
            for w, t in zip(current, target, strict=True)
            if t <= 0
        )
        moved = [w + step * (t - w) for w, t in zip(current, target, strict=True)]
        kept = [i for i, w in enumerate(moved) if w > 0]
        support = [support[i] for i in kept]
        current = [moved[i] for i in kept]


def _clear_denominators(values: list[fmpq]) -> list[int]:
    """Scale positive rationals by a common factor to coprime integers."""
    common = fmpz(1)
    for value in values:
        common = common.lcm(value.q)
    integers = [int(value.p * (common // value.q)) for value in values]
    divisor = gcd(*integers)
    return [value // divisor for value in integers]


def _combine(table: list[list[int]], support: list[int], weights: list[int]) -> list[int]:
    """Return the combination of the active rows, divided by the gcd of its entries."""
    product = fmpz_mat([weights]) * fmpz_mat([table[i] for i in support])
    point = [int(value) for value in product.entries()]
    divisor = gcd(*point)
    return [value // divisor for value in point] if divisor else point


_FLOAT_BITS = 900
"""Integers up to this many bits convert to float64 and multiply there without overflow."""


@dataclass(frozen=True, eq=False)
class ConeDecision:
    r"""The decision whether $\{u : R u > 0\}$ is nonempty, with a proof.

    Attributes:
        is_open: True if the cone is nonempty: some $u$ has $\langle r_i, u \rangle > 0$ for every
            row.
        direction: If nonempty, such a $u$ as Python integers, shape `(dim,)`; otherwise `None`.
        support: If empty, the indices of the rows of a positive dependence, at most `dim + 1`;
            otherwise `None`.
        multipliers: If empty, positive integers $\lambda_i$ with
            $\sum_i \lambda_i r_{\text{support}_i} = 0$; otherwise `None`.
    """

    is_open: bool
    direction: WideArray | None
    support: IntArray | None
    multipliers: tuple[int, ...] | None


def decide_open_cone(rows: WideArray) -> ConeDecision:
    r"""Decide exactly whether the open cone $\{u \in \mathbb{R}^d : R u > 0\}$ is nonempty.

    Args:
        rows: The matrix $R$, integers of any size, shape `(n_rows, dim)`. Without rows, the cone
            is the whole space; with a zero row, it is empty.

    Raises:
        ShapeMismatchError: If `rows` is not a matrix.
        DtypeError: If an entry is not an integer.

    References:
        [Gor73], [Wol76].

    Examples:
        >>> decide_open_cone(np.array([[1, 0], [0, 1]], dtype=object)).direction.tolist()
        [1, 1]
        >>> refused = decide_open_cone(np.array([[1, 2], [5, 5], [-2, -4]], dtype=object))
        >>> refused.is_open, refused.support.tolist(), refused.multipliers
        (False, [0, 2], (2, 1))
        >>> decide_open_cone(np.array([[3, 1], [0, 0]], dtype=object)).support.tolist()
        [1]
    """
    rows = _read_integers("rows", rows)
    n_rows, dim = rows.shape
    if n_rows == 0:
        return _make_open_decision([0] * dim)
    zero = np.flatnonzero(~(rows != 0).any(axis=1))
    if zero.size:
        return _make_empty_decision([int(zero[0])], [1])
    floats, exponents = _round_to_unit_rows(rows)
    status, support, point = _propose_decision(floats)
    if status is True:
        direction = _round_to_integers(rows, point, exponents)
        if direction is not None:
            return _make_open_decision(direction)
    elif status is False:
        multipliers = positive_dependence(rows[support])
        if multipliers is not None:
            return _make_empty_decision(support, multipliers)
    exact = exact_nearest_point(rows, support)
    if exact.direction is None:
        return _make_empty_decision(exact.support, exact.multipliers)
    return _make_open_decision(exact.direction)


def verify_cone_decision(rows: WideArray, decision: ConeDecision) -> bool:
    """Check the proof in a decision, using integer products alone.

    Examples:
        >>> rows = np.array([[1, 2], [-2, -4]], dtype=object)
        >>> verify_cone_decision(rows, decide_open_cone(rows))
        True
        >>> wrong = ConeDecision(True, np.array([1, 0], dtype=object), None, None)
        >>> verify_cone_decision(rows, wrong)
        False
    """
    table = _read_integers("rows", rows).tolist()
    n_rows, dim = np.shape(rows)
    if decision.is_open:
        if decision.direction is None or len(decision.direction) != dim:
            return False
        u = [int(x) for x in decision.direction]
        return all(sum(a * x for a, x in zip(row, u, strict=True)) > 0 for row in table)
    if decision.support is None or decision.multipliers is None:
        return False
    support = [int(i) for i in decision.support]
    multipliers = [int(m) for m in decision.multipliers]
    well_formed = (
        len(support) == len(multipliers) > 0
        and all(0 <= i < n_rows for i in support)
        and all(m > 0 for m in multipliers)
    )
    return well_formed and all(
        sum(m * table[i][k] for i, m in zip(support, multipliers, strict=True)) == 0
        for k in range(dim)
    )


def positive_dependence(rows: WideArray) -> list[int] | None:
    r"""Find the vector $\lambda > 0$ with $\lambda R = 0$ if it is unique up to scale.

    Returns:
        Coprime positive integers, or `None` if the rows are independent, have several independent
        dependences, or have only one and it is not positive.

    Examples:
        >>> positive_dependence(np.array([[1, 0], [1, 2], [-4, -2]], dtype=object))
        [3, 1, 1]
        >>> positive_dependence(np.array([[1, 0], [-1, 0], [2, 0]], dtype=object)) is None
        True
    """
    # Flint is twice as fast on one-word integers, so common factors of 2 are divided out by column.
    bits = np.bitwise_or.reduce(rows, axis=0)
    shifts = [max((x & -x).bit_length() - 1, 0) for x in bits.tolist()]
    columns = [[x >> s for x in column] for s, column in zip(shifts, rows.T.tolist(), strict=True)]
    matrix = fmpz_mat(columns) if columns else fmpz_mat(0, rows.shape[0])
    vectors, nullity = matrix.nullspace()
    if nullity != 1:
        return None
    values = [vectors[i, 0] for i in range(rows.shape[0])]
    if values[0] < 0:
        values = [-value for value in values]
    if not all(value > 0 for value in values):
        return None
    integers = [int(value) for value in values]
    divisor = gcd(*integers)
    return [value // divisor for value in integers]


def _read_integers(name: str, rows: Any) -> WideArray:
    array = np.asarray(rows)
    if array.ndim != 2:
        raise ShapeMismatchError(
            f"`{name}` must have shape (n_rows, dim); got {array.ndim} axes, shape {array.shape}."
        )
    if array.size and array.dtype.kind not in "iuO":
        raise DtypeError(f"`{name}` must hold integers; got dtype {array.dtype}.")
    wide = array.astype(object)
    for value in wide.flat:
        if type(value) is not int:
            raise DtypeError(f"`{name}` must hold Python integers; got {value!r}.")
    return wide


def _make_open_decision(direction: list[int]) -> ConeDecision:
    vector = np.empty(len(direction), dtype=object)
    vector[:] = direction
    return ConeDecision(True, vector, None, None)


def _make_empty_decision(support: list[int], multipliers: list[int]) -> ConeDecision:
    order = sorted(range(len(support)), key=support.__getitem__)
    indices = np.array([support[i] for i in order], np.int64)
    return ConeDecision(False, None, indices, tuple(multipliers[i] for i in order))


@np.errstate(under="ignore")
def _round_to_unit_rows(rows: WideArray) -> tuple[FloatArray, list[int]]:
    """Round the rows to float64 and scale rows and columns, which does not affect the decision.

    Returns:
        The unit rows, and for each column the exponent of the power of two that divides it.
    """
    bits = np.frompyfunc(int.bit_length, 1, 1)
    widths = np.asarray(bits(rows), dtype=np.int64)
    if int(widths.max()) > _FLOAT_BITS:
        # The leading bits of each row suffice, since they only serve to compute a candidate.
        excess = np.maximum(widths.max(axis=1, keepdims=True) - _FLOAT_BITS, 0).astype(object)
        rows = rows >> excess
    floats = rows.astype(np.float64)
    floats /= np.abs(floats).max(axis=1, keepdims=True)
    exponents = np.frexp(np.abs(floats).max(axis=0))[1].astype(np.int64)
    floats = np.ldexp(floats, -exponents)
    floats /= np.sqrt((floats * floats).sum(axis=1, keepdims=True))
    return np.ascontiguousarray(floats), exponents.tolist()


def _propose_decision(rows: FloatArray) -> tuple[bool | None, list[int], FloatArray]:
    """Guess in floating point: nonempty, empty or unclear (`None`); active rows; and a point."""
    found = nearest_point(rows, point=rows.sum(axis=0), quality=0.5)
    seems_open = {SEPARATED: True, CONTAINED: False}.get(found.status)
    return seems_open, found.support.tolist(), found.point


def _round_to_integers(
    rows: WideArray, point: FloatArray, exponents: list[int]
) -> list[int] | None:
    """Round a float direction to the shortest integers that have positive products."""
    largest = float(np.abs(point).max())
    lowest = min(-e for e in exponents)
    for digits in (6, 24, 52):
        scaled = np.rint(np.ldexp(point / largest, digits)).astype(np.int64).tolist()
        direction = [x << (-e - lowest) for x, e in zip(scaled, exponents, strict=True)]
        vector = np.empty(len(direction), dtype=object)
        vector[:] = direction
        if (rows @ vector > 0).all():
            divisor = gcd(*direction)
            return [x // divisor for x in direction]
    return None
