r"""Exact signs of determinants, and of affine forms at the vertices that constraints define.

Three stages, for batches of float64 matrices. Scaling rows and columns by powers of two changes no
sign; what the first stage cannot prove as it stands is scaled to entries of at most 1 in magnitude.

1. *LU with a proof.* The elimination error is too small to make the matrix singular on the way to
   the computed factors; `filtered_determinant` in `core/include/hardmax/exact_signs.hpp` has the
   argument. What it leaves open, with $k \le 2^{20}$, pivots up to $2^{100}$ and $\tau = 2^{-900}$:

   - *Underflow.* Each product that underflows perturbs an entry of $\hat L \hat U$ by at most
     $\eta / 2$, and a quotient that underflows by $\eta / 2$ times its pivot. An entry meets at
     most $k$ products and one quotient, so together $(k + 2^{100}) \eta < 2^{-970} < \tau$.
   - *Rounding of $\hat z$.* Every quantity is a sum of non-negative products, so each operation
     costs a factor $1 - u$, and a chain of substitutions has at most $2 k^2 + 8 k$ operations in
     a row: $\hat z \ge z (1 - u)^{2k^2 + 8k} \ge z / 2$ for $k \le 2^{24}$. A product that
     underflows loses at most $\eta / 2$ of a sum that contains a term of at least $\tau$, which
     is a factor $1 - 2^{-174}$. Hence $\hat z \le 1/4$ implies $z \le 1/2 < 1$.

   Comparison matrices are pessimistic by a factor that grows with $k$: of random matrices the
   filter proves all up to $k = 32$ and hardly any beyond $k = 48$.

2. *Expansions*, for $k \le 7$: the Laplace expansion in exact compiled arithmetic
   (`expanded_determinant`, in the same file). It needs products of one entry from each row to fit
   in 1000 binary places; for $k = 6, 7$ flint is faster well before that.
3. *Integers*: flint's determinant of the rows as scaled integers.
"""

from collections.abc import Iterator

import numpy as np
from flint import fmpz_mat

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.algebra.exact.decisions import Decisions, Stage, starting_stage
from hardmax.algebra.exact.dyadic import lowest_bits, scaled_rows
from hardmax.algebra.exact.exact_forms import ExactForms
from hardmax.algebra.exact.rounding import rounding_factor
from hardmax.algebra.exact.stored_forms import UNDECIDED
from hardmax.algebra.forms import AffineForms
from hardmax.arguments import Sizes
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray

_PLACES = {6: 200, 7: 120}
"""Up to how many binary places Laplace in expansions beats flint, where that is below the limit
of exactness. Microseconds for singular integer matrices, expansions against flint: 6 x 6 with 16 /
30 / 40 bits 5.4 : 14, 13 : 15, 18 : 17; 7 x 7 with 8 / 16 / 20 bits 6.7 : 10, 15 : 19, 21 : 19;
8 x 8 with 4 bits 15 : 13."""

LARGEST_EXPANDED = max(_PLACES)
_GRID_BITS = 1000
_CAPACITY = 32
_LARGEST_PIVOT = 2.0**100
_OPERATIONS_AT_ONCE = 2**22
"""How many operations one call takes, roughly."""
_UNDERFLOW = 2.0**-900


def sign_of_determinant(
    matrices: FloatArray, *, start: Stage = "filtered", tally: Decisions | None = None
) -> SignArray:
    r"""Decide the sign of $\det A$ for each matrix of a batch.

    Args:
        matrices: Shape `(n, k, k)`. The determinant of a matrix of size 0 is 1.
        start: The first stage to try; `"rational"` is the all-exact mode.
        tally: Counts the decisions of each stage, one for each matrix.

    Returns:
        Entries -1, 0, +1, shape `(n,)`.

    Raises:
        NonFiniteError: If an entry is not finite.
        ShapeMismatchError: If the matrices are not square.

    Examples:
        The second matrix is singular; the first is not, and its determinant underflows:

        >>> sign_of_determinant([[[1e-200, 0.0], [1.0, 1e-200]], [[3.0, 6.0], [4.0, 8.0]]])
        array([1, 0], dtype=int8)
    """
    matrices = Sizes().floats("matrices", matrices, ("n", "k", "n_columns"), nonempty=())
    n, k = matrices.shape[:2]
    if matrices.shape[2] != k:
        raise ShapeMismatchError(f"`matrices` must have shape (n, k, k); got {matrices.shape}.")
    first_stage = starting_stage(start)
    tally = Decisions() if tally is None else tally
    if k == 0:
        tally.record(filtered=n)
        return np.ones(n, dtype=np.int8)
    sign = np.full(n, UNDECIDED, dtype=np.int8)
    left = np.arange(n)
    if first_stage == 0:
        sign = _filtered(matrices)
        left = np.flatnonzero(sign == UNDECIDED)
        tally.record(filtered=n - len(left))
    if len(left) and first_stage <= 1:
        sign[left] = _decide_scaled(*_equilibrated(matrices[left]), first_stage, tally)
        left = left[sign[left] == UNDECIDED]
    sign[left] = _rational(matrices[left])
    tally.record(rational=len(left))
    return sign


def signs_at_vertices(
    forms: FloatArray,
    constraints: FloatArray,
    *,
    start: Stage = "filtered",
    tally: Decisions | None = None,
) -> SignArray:
    r"""Decide the sign of one affine form at one vertex, for a batch of both.

    The vertex $v$ is where $\langle g_i, x \rangle + h_i = 0$ for $i = 1, \dots, d$, which is
    $v = -G^{-1} h$, and by the Schur complement

    $$\det \begin{pmatrix} G & h \\ a^\top & c \end{pmatrix}
      = \det G \cdot (c - a^\top G^{-1} h) = \det G \cdot (\langle a, v \rangle + c).$$

    The sign is the product of the signs of two determinants, and $v$ is never computed.

    Args:
        forms: The rows $(a, c)$, shape `(n, dim + 1)`.
        constraints: The rows $(g_i, h_i)$, shape `(n, dim, dim + 1)`.
        start: The first stage to try; `"rational"` is the all-exact mode.
        tally: Counts the decisions of each stage, two for each vertex.

    Returns:
        Entries -1, 0, +1, shape `(n,)`.

    Raises:
        ArgumentError: If some constraints do not meet in exactly one point.

    Examples:
        The lines $3x = 1$ and $3y = 1$ meet on the line $x = y$:

        >>> lines = [[[3.0, 0.0, -1.0], [0.0, 3.0, -1.0]]]
        >>> signs_at_vertices([[1.0, -1.0, 0.0]], lines).tolist()
        [0]
    """
    sizes = Sizes()
    forms = sizes.floats("forms", forms, ("n", "dim + 1"), nonempty=("dim + 1",))
    constraints = sizes.floats("constraints", constraints, ("n", "dim", "dim + 1"), nonempty=())
    dim = sizes["dim"]
    if sizes["dim + 1"] != dim + 1:
        raise ShapeMismatchError(
            f"`constraints` must have shape (n, dim, dim + 1); got {constraints.shape}."
        )
    base = sign_of_determinant(constraints[:, :, :dim], start=start, tally=tally)
    if not base.all():
        raise ArgumentError(
            "`constraints` must meet in exactly one point; "
            f"those at index {int(np.flatnonzero(base == 0)[0])} do not."
        )
    bordered = np.concatenate([constraints, forms[:, np.newaxis, :]], axis=1)
    return base * sign_of_determinant(bordered, start=start, tally=tally)


def sign_at_vertex(
    forms: AffineForms | ExactForms,
    constraints: AffineForms | ExactForms,
    *,
    start: Stage = "filtered",
    tally: Decisions | None = None,
) -> SignArray:
    r"""Decide the signs of several affine forms at the vertex of $d$ constraints.

    Stored forms go through the stages of `signs_at_vertices`. Forms composed exactly, which need
    not fit in float64, are decided in integers.

    Args:
        forms: The forms to decide.
        constraints: As many as there are dimensions: their zero sets meet in the vertex.
        start: The first stage to try, for stored forms.
        tally: Counts the decisions of each stage, one for each determinant.

    Returns:
        Entries -1, 0, +1, shape `(n_forms,)`.

    Raises:
        ShapeMismatchError: If the sizes disagree.
        ArgumentError: If the constraints do not meet in exactly one point.

    Examples:
        >>> constraints = AffineForms([[3.0, 0.0], [0.0, 3.0]], [-1.0, -1.0])
        >>> sign_at_vertex(AffineForms([[1.0, -1.0], [3.0, 3.0]], [0.0, -1.0]), constraints)
        array([0, 1], dtype=int8)
    """
    dim = constraints.dim
    if constraints.n_forms != dim or forms.dim != dim:
        raise ShapeMismatchError(
            "`constraints` must be dim forms in dim dimensions, and `forms` live there too; got "
            f"{constraints.n_forms} constraints in {dim} dimensions, and forms in {forms.dim}."
        )
    if isinstance(forms, AffineForms) and isinstance(constraints, AffineForms):
        rows = np.column_stack([forms.slopes, forms.offsets])
        table = np.column_stack([constraints.slopes, constraints.offsets])
        tables = np.broadcast_to(table, (forms.n_forms, *table.shape))
        return signs_at_vertices(rows, tables, start=start, tally=tally)
    candidates = _exact(forms).matrix.tolist()
    walls = _exact(constraints).matrix.tolist()
    if tally is not None:
        tally.record(rational=1 + len(candidates))
    base = _integer_sign([row[:-1] for row in walls])
    if base == 0:
        raise ArgumentError("`constraints` must meet in exactly one point; these do not.")
    return np.array([base * _integer_sign([*walls, row]) for row in candidates], dtype=np.int8)


def _exact(forms: AffineForms | ExactForms) -> ExactForms:
    return ExactForms.stored(forms) if isinstance(forms, AffineForms) else forms


def _decide_scaled(
    scaled: FloatArray, is_exact: BoolArray, first_stage: int, tally: Decisions
) -> SignArray:
    """Try the filter and the expansions on scaled matrices, where the scaling was exact."""
    sign = np.full(len(scaled), UNDECIDED, dtype=np.int8)
    if first_stage == 0:
        sign[is_exact] = _filtered(scaled[is_exact])
        tally.record(filtered=int(np.count_nonzero(sign != UNDECIDED)))
    k = scaled.shape[1]
    if k <= LARGEST_EXPANDED:
        takes = is_exact & (sign == UNDECIDED)
        takes &= _places(scaled) <= _PLACES.get(k, _GRID_BITS)
        sign[takes] = _expanded(scaled[takes])
        tally.record(expanded=int(np.count_nonzero(sign[takes] != UNDECIDED)))
    return sign


def _equilibrated(matrices: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Scale rows, then columns, to a largest entry in [1/2, 1); say where that was exact.

    Only scaling a row down can lose bits, and scaling it back shows whether it did. A column is
    only scaled up.
    """
    row_exponents = np.frexp(np.abs(matrices).max(axis=2, keepdims=True))[1]
    scaled = np.ldexp(matrices, -row_exponents)
    is_exact = (np.ldexp(scaled, row_exponents) == matrices).all(axis=(1, 2))
    column_exponents = np.frexp(np.abs(scaled).max(axis=1, keepdims=True))[1]
    return np.ldexp(scaled, -column_exponents), is_exact


def _filtered(matrices: FloatArray) -> SignArray:
    matrices = np.ascontiguousarray(matrices)
    n, k = matrices.shape[:2]
    sign, buffer = np.empty(n, dtype=np.int8), np.empty((k + 2, k))
    constants = rounding_factor(k), k * _UNDERFLOW, _LARGEST_PIVOT
    for low, high in _parts(n, k**3):
        arrays = address(matrices[low:high]), *constants, address(buffer), address(sign[low:high])
        core().hm_determinants_filtered(high - low, k, *arrays)
    return sign


def _expanded(matrices: FloatArray) -> SignArray:
    matrices = np.ascontiguousarray(matrices)
    n, k = matrices.shape[:2]
    sign, expansion = np.empty(n, dtype=np.int8), np.empty(_GRID_BITS + 100)
    minors, lengths = np.empty((2**k, _CAPACITY)), np.empty(2**k, dtype=np.int64)
    room = address(minors), address(lengths), _CAPACITY, address(expansion)
    for low, high in _parts(n, 2**k * _CAPACITY):
        arrays = address(matrices[low:high]), *room, address(sign[low:high])
        core().hm_determinants_expanded(high - low, k, *arrays)
    return sign


def _parts(n: int, cost: int) -> Iterator[tuple[int, int]]:
    """Cut `n` matrices, each of which takes so many operations."""
    step = max(1, _OPERATIONS_AT_ONCE // cost)
    for low in range(0, n, step):
        yield low, min(low + step, n)


def _places(matrices: FloatArray) -> IntArray:
    """Bound how many binary places below 1 a product of one entry from each row needs."""
    places = np.maximum(-lowest_bits(matrices), 0)
    return np.asarray(places.max(axis=2, initial=0).sum(axis=1))


def _rational(matrices: FloatArray) -> SignArray:
    n, k = matrices.shape[:2]
    integers, _ = scaled_rows(matrices.reshape(n * k, k))
    tables = integers.reshape(n, k, k).tolist()
    return np.array([_integer_sign(rows) for rows in tables], dtype=np.int8)


def _integer_sign(rows: list[list[int]]) -> int:
    """Return the sign of an integer determinant, by flint: the last word."""
    determinant = fmpz_mat(rows).det()
    return int(determinant > 0) - int(determinant < 0)
