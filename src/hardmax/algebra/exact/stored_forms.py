"""Affine forms and points as the core reads them when it takes exact signs."""

from ctypes import Structure, c_int64, c_void_p

from hardmax._core.memory import address
from hardmax.typing import FloatArray

UNDECIDED = 2
"""What stands in place of a sign that a stage could not take."""


class StoredForms(Structure):
    """`hm_stored_forms` of the interface."""

    _fields_ = (
        *((name, c_void_p) for name in ("slopes", "offsets", "points")),
        ("dim", c_int64),
    )


def stored_forms(slopes: FloatArray, offsets: FloatArray, points: FloatArray) -> StoredForms:
    """Hand forms and points to the core; the arrays are contiguous, and must stay.

    Args:
        slopes: Shape `(n_forms, dim)`.
        offsets: Shape `(n_forms,)`.
        points: Shape `(n_points, dim)`.
    """
    return StoredForms(address(slopes), address(offsets), address(points), slopes.shape[1])
