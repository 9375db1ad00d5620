"""Linear programs in float64, by HiGHS: for quantities that are rounded by nature, never proofs."""

from typing import Any

import numpy as np

from hardmax.typing import AnyArray, FloatArray


def maximise(
    objective: FloatArray, A: Any, b: FloatArray, *, interior: bool = False
) -> FloatArray | None:
    r"""Maximise $\langle c, x\rangle$ over $A x \le b$, without bounds on $x$.

    Args:
        objective: The $c$, shape `(dim,)`.
        A: Shape `(n_rows, dim)`: an array, or a `scipy.sparse` one, of which only the entries that
            are stored are handed on.
        b: Shape `(n_rows,)`.
        interior: Whether to use an interior point method and to stop short of a vertex: many times
            faster on large sparse programs, but it may fail where the simplex method does not, and
            what it returns may be less than optimal or outside.

    Returns:
        An optimal point, rounded, shape `(dim,)`; None if HiGHS finds none (the program is empty or
        unbounded, or its numbers are too wild for floats).

    Examples:
        >>> maximise(np.array([1.0]), np.array([[2.0]]), np.array([3.0])).tolist()
        [1.5]
        >>> maximise(np.array([-1.0]), np.array([[2.0]]), np.array([3.0])) is None
        True
    """
    import highspy

    n_rows, dim = A.shape
    starts, columns, values = _rows(A)
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
    if interior:
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("run_crossover", "off")
    solver.passModel(program)
    solver.run()
    enough = [highspy.HighsModelStatus.kOptimal]
    if interior:
        enough.append(highspy.HighsModelStatus.kUnknown)
    if solver.getModelStatus() not in enough:
        return None
    return np.array(solver.getSolution().col_value)


def _rows(A: Any) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Return where each row starts, and the columns and values of the entries, row by row."""
    if hasattr(A, "tocsr"):
        stored = A.tocsr()
        return stored.indptr.astype(np.int32), stored.indices.astype(np.int32), stored.data
    n_rows, dim = A.shape
    starts = np.arange(n_rows + 1, dtype=np.int32) * dim
    return starts, np.tile(np.arange(dim, dtype=np.int32), n_rows), A.ravel()
