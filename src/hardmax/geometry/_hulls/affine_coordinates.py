r"""Exact coordinates in which a point set is full-dimensional and roughly isotropic.

The search for candidates in floating point requires points that fill their space about evenly in
all directions. Flat sets and badly scaled axes are therefore transformed by an exact integer matrix
$T$: the integers $P$ become $P T$, and a direction $u'$ becomes $u = T u'$. No information is lost,
because $\langle p T, u' \rangle = \langle p, T u' \rangle$ exactly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz_mat

from hardmax.typing import FloatArray, IntArray, WideArray

_FLOAT_BITS = 900
_ROTATION_BITS = 50
_ROUND = 1e4
"""A point set is round enough if its longest axis is at most this multiple of its shortest."""
_MAX_ROTATIONS = 24
"""Each rotation evens out about 15 decimal digits; float64 inputs span 632."""


@dataclass(frozen=True, eq=False)
class AffineCoordinates:
    r"""Points $p_i$ and rays $\rho_k$ in coordinates of their own span.

    The differences $p_i - p_j$ and the rays span the new space, and determine the old coordinates.

    Attributes:
        points: $P T$ minus a common vector, Python integers, shape `(n_points, rank)`.
        rays: $\rho T$, Python integers, shape `(n_rays, rank)`.
        transform: The matrix $T$, Python integers, shape `(dim, rank)`.
        exponents: The exponents $e_k$, shape `(rank,)`. The absolute value of coordinate $k$ of a
            point is below $2^{e_k}$.
        floats: The coordinates $k$ divided by $2^{e_k}$, shape `(n_points, rank)`. Each entry is at
            most 1 and within `2**-53 + 2**-900` of the exact value.
        float_rays: The rays, scaled likewise and then each by a power of two.
        whitening: A matrix of shape `(rank, rank)` for which `(floats - mean) @ whitening` is
            roughly isotropic.
    """

    points: WideArray
    rays: WideArray
    transform: WideArray
    exponents: IntArray
    floats: FloatArray
    float_rays: FloatArray
    whitening: FloatArray

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return int(self.points.shape[1])

    @cached_property
    def matrix(self) -> fmpz_mat:
        """The points as a flint matrix."""
        return flint_matrix(self.points)

    def original_directions(self, directions: FloatArray) -> WideArray:
        """Transform directions for `floats` to the original coordinates, exactly up to scale.

        Args:
            directions: Whole numbers in float64, shape `(n_directions, rank)`.

        Returns:
            The directions as Python integers, shape `(n_directions, dim)`.
        """
        shifts = int(self.exponents.max(initial=0)) - self.exponents
        whole = np.asarray(np.frompyfunc(int, 1, 1)(directions), dtype=object)
        shifted = np.asarray(whole << shifts.astype(object), dtype=object)
        return as_wide(_multiply(shifted, self.transform.T))


def affine_coordinates(points: WideArray, rays: WideArray) -> AffineCoordinates:
    """Find well-conditioned coordinates for integer points and rays.

    Args:
        points: Python integers, shape `(n_points, dim)` with at least one point.
        rays: Python integers, shape `(n_rays, dim)`.

    Examples:
        A line in the plane has one coordinate, but directions are mapped back to the plane.

        >>> line = np.array([[0, 0], [3, 3], [6, 6]], dtype=object)
        >>> on_it = affine_coordinates(line, np.empty((0, 2), dtype=object))
        >>> on_it.points.tolist(), on_it.original_directions(np.array([[1.0]])).tolist()
        ([[-3], [0], [3]], [[1, 0]])
    """
    dim = points.shape[1]
    points = points - points.sum(axis=0) // points.shape[0]
    columns = _select_independent_columns(points, rays)
    transform = np.zeros((dim, len(columns)), dtype=object)
    for k, column in enumerate(columns):
        transform[column, k] = 1
    points, rays = points[:, columns], rays[:, columns]
    floats, float_rays, exponents = _round_coordinates(points, rays)
    axes, lengths = _compute_principal_axes(floats, float_rays)
    for _ in range(_MAX_ROTATIONS):
        if not lengths.size or lengths[0] <= _ROUND * lengths[-1]:
            break
        # Multiplication by a rounded rotation is exact, and invertible because its columns are
        # almost orthonormal. Afterwards each axis has its own exponent.
        rounded = np.rint(np.ldexp(axes, _ROTATION_BITS)).astype(np.int64).astype(object)
        scaled = rounded << (int(exponents.max()) - exponents).astype(object)[:, None]
        points, rays, transform = (
            as_wide(_multiply(matrix, scaled)) for matrix in (points, rays, transform)
        )
        floats, float_rays, exponents = _round_coordinates(points, rays)
        axes, lengths = _compute_principal_axes(floats, float_rays)
    whitening = axes / np.maximum(lengths, 1e-12 * lengths.max(initial=0.0))
    whitening *= np.sqrt(points.shape[0])
    return AffineCoordinates(
        points, rays, transform, exponents, floats, float_rays, np.ascontiguousarray(whitening)
    )


def as_wide(matrix: fmpz_mat) -> WideArray:
    """Convert a flint matrix to an object array of Python integers."""
    wide = np.empty((matrix.nrows(), matrix.ncols()), dtype=object)
    wide.ravel()[:] = [int(value) for value in matrix.entries()]
    return wide


def flint_matrix(wide: WideArray) -> fmpz_mat:
    """Convert an object array of Python integers, which may be empty, to a flint matrix."""
    return fmpz_mat(*wide.shape, wide.ravel().tolist()) if wide.size else fmpz_mat(*wide.shape)


def _multiply(left: WideArray, right: WideArray) -> fmpz_mat:
    return flint_matrix(left) * flint_matrix(right)


def _select_independent_columns(points: WideArray, rays: WideArray) -> list[int]:
    """Return columns that determine the differences of the points and the rays, exactly."""
    differences = points - points[0]
    chosen = _select_spread_rows(differences)
    while True:
        rows = flint_matrix(np.concatenate([rays, differences[chosen]]))
        kernel, nullity = rows.nullspace()
        if not nullity:
            return list(range(points.shape[1]))
        kernel = fmpz_mat(
            rows.ncols(),
            nullity,
            [kernel[i, j] for i in range(rows.ncols()) for j in range(nullity)],
        )
        misses = flint_matrix(differences) * kernel
        outside = [i for i, row in enumerate(misses.tolist()) if any(row)]
        if not outside:
            reduced, _, rank = rows.rref()
            return [
                next(c for c in range(rows.ncols()) if reduced[row, c] != 0) for row in range(rank)
            ]
        chosen = [*chosen, *outside[: points.shape[1]]]


@np.errstate(under="ignore")
def _select_spread_rows(differences: WideArray) -> list[int]:
    """Select up to `dim` rows that seem independent, by float elimination with full pivoting."""
    work = _round_coordinates(differences, np.empty((0, differences.shape[1]), dtype=object))[0]
    chosen: list[int] = []
    for _ in range(min(work.shape)):
        sizes = np.abs(work)
        i, k = np.unravel_index(int(sizes.argmax()), sizes.shape)
        if not sizes[i, k] > 0.0:
            break
        chosen.append(int(i))
        work = work - np.outer(work[:, k] / work[i, k], work[i])
    return chosen


def _round_coordinates(
    points: WideArray, rays: WideArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Round to float64, with every column and every ray divided by a power of two."""
    widths = np.asarray(np.frompyfunc(int.bit_length, 1, 1)(points), dtype=np.int64)
    exponents = widths.max(axis=0, initial=0)
    floats = _divide_by_powers(points, exponents[None, :])
    ray_widths = np.asarray(np.frompyfunc(int.bit_length, 1, 1)(rays), dtype=np.int64)
    # A column without points takes its scale from the rays.
    exponents = np.where(exponents > 0, exponents, ray_widths.max(axis=0, initial=0))
    lowest = np.iinfo(np.int64).min
    relative = np.where(ray_widths > 0, ray_widths - exponents, lowest)
    float_rays = _divide_by_powers(
        rays, exponents + relative.max(axis=1, initial=lowest, keepdims=True)
    )
    return floats, float_rays, exponents


def _divide_by_powers(integers: WideArray, exponents: IntArray) -> FloatArray:
    """Divide integers below `2**exponent` by it, with an absolute error of at most 2**-900."""
    excess = np.maximum(exponents - _FLOAT_BITS, 0)
    if excess.any():
        integers = integers >> np.broadcast_to(excess, integers.shape).astype(object)
    return np.ldexp(integers.astype(np.float64), excess - exponents)


@np.errstate(under="ignore")
def _compute_principal_axes(
    floats: FloatArray, float_rays: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the principal axes (columns) of the points and the rays, and their lengths."""
    if floats.shape[1] == 0:
        return np.empty((0, 0)), np.empty(0)
    centred = floats - floats.mean(axis=0)
    heavy_rays = float_rays * np.sqrt(floats.shape[0])
    rows = np.concatenate([centred, heavy_rays])
    squares, axes = np.linalg.eigh(rows.T @ rows)
    if squares[0] * _ROUND**2 > squares[-1]:
        return axes[:, ::-1], np.sqrt(squares[::-1])
    # Squares lose axes with a relative length below 1e-8, but cost a tenth and usually suffice.
    _, lengths, axes = np.linalg.svd(np.linalg.qr(rows, mode="r"))
    return axes.T, lengths
