r"""Linear programs with one objective variable, solved in floats and proved in rationals.

The program is to find the largest $y$ with $\langle a_i, t\rangle + c_i \ge k_i y$ for all rows,
$k_i \ge 0$. HiGHS proposes a basis; the vertex and the multipliers of that basis are then computed
exactly, and if all slacks and all multipliers are non-negative the vertex is optimal, whatever the
solver's rounding did. If a proof fails, the vertices are enumerated exactly.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat

from hardmax.exact.dyadic import fraction
from hardmax.exact.integer_vectors import Vector, embed, rounded_directions
from hardmax.geometry.polytopes import Polytope


class Height(NamedTuple):
    """The answer of a program.

    Attributes:
        value: The largest $y$; None if there is no largest.
        point: A point $t$ where it is attained; where there is no largest, some feasible point.
        direction: Where there is no largest, a direction along which $y$ rises by 1 per unit.
    """

    value: Fraction | None
    point: tuple[Fraction, ...]
    direction: tuple[Fraction, ...] | None = None


def largest_height(rows: Sequence[Vector], dim: int) -> Height:
    r"""Maximise $y$ subject to $\langle a_i, t\rangle + c_i \ge k_i y$.

    Args:
        rows: Integers $(a, k, c)$, `dim + 2` each, $k \ge 0$; they allow some $(t, y)$.
        dim: The dimension of $t$.

    Examples:
        The point between 0 and 3 that is farthest from both ends, then without the upper end:

        >>> largest_height([(1, 1, 0), (-1, 1, 3)], 1)
        Height(value=Fraction(3, 2), point=(Fraction(3, 2),), direction=None)
        >>> largest_height([(1, 1, 0)], 1).value is None
        True
    """
    found = _proved(rows, dim)
    if found is not None:
        return found
    # Without an optimum y may rise for ever: along a direction u with <a, u> >= k v, v > 0, which
    # can be looked for in a cube.
    cube = [(*embed((sign,), [k], dim), 0, 1) for k in range(dim) for sign in (1, -1)]
    rising = _proved([*((*row[:-1], 0) for row in rows), *cube, (*(0,) * dim, 1, 1)], dim)
    if rising is not None and rising.value is not None and rising.value > 0:
        slope = rising.value
        start = _proved([*rows, (*(0,) * dim, 1, 0)], dim)
        if start is not None:
            return Height(None, start.point, tuple(x / slope for x in rising.point))
    return _enumerated(rows, dim)


def _proved(rows: Sequence[Vector], dim: int) -> Height | None:
    """Solve in floats, and return the vertex of the final basis if it is provably optimal."""
    basis = _proposed_basis(rows, dim)
    if basis is None:
        return None
    tight, fixed = basis
    if len(tight) + len(fixed) != dim + 1:
        return None
    # Unknowns (t, y): a t - k y = -c on tight rows, a free variable outside the basis is 0.
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
    # Maximal if the objective is a combination of the rows -(a t - k y), all weights >= 0.
    if any(m > 0 for m in multipliers[: len(tight)]) or any(multipliers[len(tight) :]):
        return None
    for *a, k, c in rows:
        slack = sum((x * z for x, z in zip(a, vertex, strict=False)), fmpq(c)) - k * vertex[dim]
        if slack < 0:
            return None
    exact = [fraction(z) for z in vertex]
    return Height(exact[dim], tuple(exact[:dim]))


def _proposed_basis(rows: Sequence[Vector], dim: int) -> tuple[list[int], list[int]] | None:
    """Return the tight rows and the nonbasic variables of HiGHS's optimal basis."""
    import highspy

    floats = rounded_directions(rows, dim + 2)
    n = len(rows)
    matrix = np.column_stack([-floats[:, :dim], floats[:, dim]])
    column_size = np.abs(matrix).max(axis=0, initial=0.0)
    # Powers of two change no digit and bring every variable to the same scale.
    scale = np.ldexp(1.0, -np.frexp(np.where(column_size > 0, column_size, 1.0))[1])
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = dim + 1, n
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.array([0.0] * dim + [1.0])
    infinite = np.full(dim + 1, np.inf)
    program.col_lower_, program.col_upper_ = -infinite, infinite
    program.row_lower_, program.row_upper_ = np.full(n, -np.inf), floats[:, -1]
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(n + 1, dtype=np.int32) * (dim + 1)
    program.a_matrix_.index_ = np.tile(np.arange(dim + 1, dtype=np.int32), n)
    program.a_matrix_.value_ = (matrix * scale).ravel()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("presolve", "off")
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    basis = solver.getBasis()
    basic = highspy.HighsBasisStatus.kBasic
    tight = [i for i, status in enumerate(basis.row_status) if status != basic]
    fixed = [k for k, status in enumerate(basis.col_status) if status != basic]
    return tight, fixed


def _enumerated(rows: Sequence[Vector], dim: int) -> Height:
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
