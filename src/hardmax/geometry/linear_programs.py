"""Linear programs in float64, by HiGHS: for quantities that are rounded by nature, never proofs."""

import numpy as np

from hardmax.typing import FloatArray


def maximise(objective: FloatArray, A: FloatArray, b: FloatArray) -> FloatArray | None:
    r"""Maximise $\langle c, x\rangle$ over $A x \le b$, without bounds on $x$.

    Args:
        objective: The $c$, shape `(dim,)`.
        A: Shape `(n_rows, dim)`.
        b: Shape `(n_rows,)`.

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
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = dim, n_rows
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = objective
    program.col_lower_, program.col_upper_ = np.full(dim, -np.inf), np.full(dim, np.inf)
    program.row_lower_, program.row_upper_ = np.full(n_rows, -np.inf), b
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(n_rows + 1, dtype=np.int32) * dim
    program.a_matrix_.index_ = np.tile(np.arange(dim, dtype=np.int32), n_rows)
    program.a_matrix_.value_ = A.ravel()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(solver.getSolution().col_value)
