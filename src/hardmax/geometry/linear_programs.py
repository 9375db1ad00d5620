r"""Linear programs solved by HiGHS, either in floats alone or with an exact proof.

`maximise` computes in floats; its results are never used as proofs. `largest_height` is exact: it
finds the largest $y$ with $\langle a_i, t\rangle + c_i \ge k_i y$ for all rows, where $k_i \ge 0$.
HiGHS proposes a basis, and the vertex and the multipliers of that basis are computed exactly. If
all slacks and multipliers are nonnegative, the vertex is optimal regardless of rounding errors in
the solver. Otherwise, all vertices are enumerated exactly.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat

from hardmax.exact.dyadic import fraction
from hardmax.exact.integer_vectors import Vector, embed, rounded_directions
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import AnyArray, FloatArray


def maximise(
    objective: FloatArray, A: Any, b: FloatArray, *, interior: bool = False
) -> FloatArray | None:
    r"""Maximise $\langle c, x\rangle$ over $A x \le b$, without bounds on $x$.

    Args:
        objective: The vector $c$, shape `(dim,)`.
        A: The matrix $A$, shape `(n_rows, dim)`, as an array or a `scipy.sparse` array. Of a sparse
            array, only the stored entries are passed to the solver.
        b: The vector $b$, shape `(n_rows,)`.
        interior: Whether to use an interior-point method without crossover to a vertex. It is many
            times faster on large sparse programs. However, it can fail on programs that the simplex
            method solves, and its result can be suboptimal or infeasible.

    Returns:
        An optimal point, rounded, shape `(dim,)`. None if HiGHS finds no solution, because the
        program is infeasible, unbounded or too badly scaled for floats.

    Examples:
        >>> maximise(np.array([1.0]), np.array([[2.0]]), np.array([3.0])).tolist()
        [1.5]
        >>> maximise(np.array([-1.0]), np.array([[2.0]]), np.array([3.0])) is None
        True
    """
    import highspy

    options = {"solver": "ipm", "run_crossover": "off"} if interior else {}
    solver = _run_solver(objective, A, b, options)
    enough = [highspy.HighsModelStatus.kOptimal]
    if interior:
        enough.append(highspy.HighsModelStatus.kUnknown)
    if solver.getModelStatus() not in enough:
        return None
    return np.array(solver.getSolution().col_value)


class Height(NamedTuple):
    """The result of `largest_height`.

    Attributes:
        value: The largest $y$, or None if $y$ is unbounded.
        point: A point $t$ at which the largest $y$ is attained. If $y$ is unbounded, a feasible
            point.
        direction: If $y$ is unbounded, a direction of $t$ along which $y$ increases by 1 per unit.
    """

    value: Fraction | None
    point: tuple[Fraction, ...]
    direction: tuple[Fraction, ...] | None = None


def largest_height(rows: Sequence[Vector], dim: int) -> Height:
    r"""Maximise $y$ subject to $\langle a_i, t\rangle + c_i \ge k_i y$.

    Args:
        rows: Tuples of `dim + 2` integers $(a, k, c)$ with $k \ge 0$, for which the program is
            feasible.
        dim: The dimension of $t$.

    Examples:
        The point between 0 and 3 that is farthest from both ends, then the same without the upper
        end:

        >>> largest_height([(1, 1, 0), (-1, 1, 3)], 1)
        Height(value=Fraction(3, 2), point=(Fraction(3, 2),), direction=None)
        >>> largest_height([(1, 1, 0)], 1).value is None
        True
    """
    found = _solve_with_proof(rows, dim)
    if found is not None:
        return found
    # Without an optimum, y may be unbounded: it increases along a direction u with <a, u> >= k v,
    # v > 0. Such a direction can be scaled into a cube.
    cube = [(*embed((sign,), [k], dim), 0, 1) for k in range(dim) for sign in (1, -1)]
    rising = _solve_with_proof([*((*row[:-1], 0) for row in rows), *cube, (*(0,) * dim, 1, 1)], dim)
    if rising is not None and rising.value is not None and rising.value > 0:
        slope = rising.value
        start = _solve_with_proof([*rows, (*(0,) * dim, 1, 0)], dim)
        if start is not None:
            return Height(None, start.point, tuple(x / slope for x in rising.point))
    return _solve_by_enumeration(rows, dim)


def _solve_with_proof(rows: Sequence[Vector], dim: int) -> Height | None:
    """Solve in floats, and return the vertex of the final basis if it is proved optimal."""
    basis = _propose_basis(rows, dim)
    if basis is None:
        return None
    tight, fixed = basis
    if len(tight) + len(fixed) != dim + 1:
        return None
    # The unknowns are (t, y): a t - k y = -c on tight rows, and free nonbasic variables are 0.
    table = [[*rows[i][:dim], -rows[i][dim]] for i in tight]
    table += [[int(j == k) for j in range(dim + 1)] for k in fixed]
    matrix = fmpq_mat(dim + 1, dim + 1, [fmpq(x) for row in table for x in row])
    right = [fmpq(-rows[i][-1]) for i in tight] + [fmpq(0)] * len(fixed)
    objective = [fmpq(0)] * dim + [fmpq(1)]
    try:
        vertex = matrix.solve(fmpq_mat(dim + 1, 1, right)).entries()
        multipliers = matrix.transpose().solve(fmpq_mat(dim + 1, 1, objective)).entries()
    except ZeroDivisionError:
        return None
    # The vertex is optimal if the objective is a combination of the rows -(a t - k y) with all
    # weights >= 0.
    if any(m > 0 for m in multipliers[: len(tight)]) or any(multipliers[len(tight) :]):
        return None
    for *a, k, c in rows:
        slack = sum((x * z for x, z in zip(a, vertex, strict=False)), fmpq(c)) - k * vertex[dim]
        if slack < 0:
            return None
    exact = [fraction(z) for z in vertex]
    return Height(exact[dim], tuple(exact[:dim]))


def _propose_basis(rows: Sequence[Vector], dim: int) -> tuple[list[int], list[int]] | None:
    """Return the tight rows and the nonbasic variables of HiGHS's optimal basis."""
    import highspy

    floats = rounded_directions(rows, dim + 2)
    matrix = np.column_stack([-floats[:, :dim], floats[:, dim]])
    column_size = np.abs(matrix).max(axis=0, initial=0.0)
    # Scaling by powers of two is exact and brings every variable to the same scale.
    # The size of a column can be subnormal, and its reciprocal infinite.
    exponents = np.frexp(np.where(column_size > 0, column_size, 1.0))[1]
    scale = np.ldexp(1.0, np.minimum(-exponents, 1023))
    objective = np.array([0.0] * dim + [1.0])
    solver = _run_solver(objective, matrix * scale, floats[:, -1], {"presolve": "off"})
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    basis = solver.getBasis()
    basic = highspy.HighsBasisStatus.kBasic
    tight = [i for i, status in enumerate(basis.row_status) if status != basic]
    fixed = [k for k, status in enumerate(basis.col_status) if status != basic]
    return tight, fixed


def _solve_by_enumeration(rows: Sequence[Vector], dim: int) -> Height:
    """Find the optimum among all vertices and rays, exactly."""
    lifted = [(*(-x for x in a), k, c) for *a, k, c in rows]
    generators = Polytope.from_rows(lifted, dim + 1).generators
    best = max(generators.points, key=lambda p: Fraction(p[dim], p[-1]))
    point = tuple(Fraction(x, best[-1]) for x in best[:dim])
    for ray in (*generators.rays, *generators.lineality):
        height = ray[dim]
        if height > 0 or (height and ray in generators.lineality):
            return Height(None, point, tuple(Fraction(x, height) for x in ray[:dim]))
    return Height(Fraction(best[dim], best[-1]), point)


def _run_solver(objective: FloatArray, A: Any, b: FloatArray, options: dict[str, str]) -> Any:
    """Run HiGHS on a program, and return the solver."""
    import highspy

    n_rows, dim = A.shape
    starts, columns, values = _compress_rows(A)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = dim, n_rows
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = objective
    program.col_lower_, program.col_upper_ = np.full(dim, -np.inf), np.full(dim, np.inf)
    program.row_lower_, program.row_upper_ = np.full(n_rows, -np.inf), b
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_ = starts, columns
    program.a_matrix_.value_ = values
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(program)
    solver.run()
    return solver


def _compress_rows(A: Any) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Return the arrays of compressed sparse rows: row starts, column indices and values."""
    if hasattr(A, "tocsr"):
        stored = A.tocsr()
        return stored.indptr.astype(np.int32), stored.indices.astype(np.int32), stored.data
    n_rows, dim = A.shape
    starts = np.arange(n_rows + 1, dtype=np.int32) * dim
    return starts, np.tile(np.arange(dim, dtype=np.int32), n_rows), A.ravel()
