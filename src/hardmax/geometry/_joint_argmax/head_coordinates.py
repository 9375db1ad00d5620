r"""Exact coordinates in which the differences of all heads fill their space evenly.

A search in floating point requires rows that span the space and are about equally long in all
directions. Scaling each axis by a power of two is exact and usually suffices. Otherwise (for flat
sets, oblique scales or a wide range of exponents), the points are transformed by an exact integer
matrix, and rows are rounded only after the differences are computed.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry._hulls.affine_coordinates import affine_coordinates
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_ROUND_ENOUGH = 1e-7
_LEADING_BITS = 64


class HeadCoordinates(Protocol):
    """The interface of coordinates for the points of several heads.

    Rows are differences of two points of a head, or base rows. The relative error of each float
    entry is at most `3 * 2**-53`, or its error is at most `2**-900` times the largest entry.
    """

    rank: int
    """The dimension of the span of all rows."""
    floats: list[FloatArray]
    """For each head, its approximate points, shape `(n_points, rank)`."""
    are_exact: bool
    """Whether `floats` are exact, so that the difference of two points is rounded only once."""

    def integers(self, head: int) -> WideArray:
        """Return the points of a head as Python integers, up to a common factor and a shift."""

    def base_integers(self) -> WideArray:
        """Return the base rows up to positive factors, as Python integers."""

    def differences(self, head: int, i: IntArray, j: IntArray) -> FloatArray:
        """Return the rows `points[i] - points[j]`, each scaled to largest entry about 1."""

    def base_rows(self) -> FloatArray:
        """Return the base rows, each scaled to largest entry about 1."""

    def original_integers(self, direction: WideArray) -> WideArray:
        """Transform an integer direction to the original coordinates."""

    def original_floats(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Transform directions to the original coordinates, and tell which ones were rounded."""

    def from_original(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Transform directions from the original coordinates, and tell which ones are exact."""


def head_coordinates(points: Sequence[FloatArray], base: FloatArray) -> HeadCoordinates:
    """Choose coordinates for the points of several heads and for base rows.

    Args:
        points: For each head, its finite points, shape `(n_points, dim)`.
        base: The base rows, shape `(n_base, dim)`.
    """
    scaled = _AxisScaled(points, base)
    if scaled.is_lossless() and scaled.is_round():
        return scaled
    return _IntegerMapped(points, base)


class _AxisScaled:
    """Coordinates in which every axis is divided by a power of two."""

    are_exact = True

    def __init__(self, points: Sequence[FloatArray], base: FloatArray) -> None:
        self._before = [*points, base]
        self.rank = base.shape[1]
        with np.errstate(over="ignore", under="ignore"):
            # Divide by four first, so that the span of the largest floats is finite.
            spans = np.array([np.ptp(head * 0.25, axis=0) for head in points])
            sizes = np.concatenate([spans, np.abs(base) * 0.25]).max(axis=0)
            self._exponents = np.frexp(sizes)[1].astype(np.int64) + 2
            self._after = [np.ldexp(array, -self._exponents) for array in self._before]
        self.floats = self._after[:-1]

    def is_lossless(self) -> bool:
        """Check that scaling is exact, and that products neither overflow nor underflow."""
        for before, after in zip(self._before, self._after, strict=True):
            size = np.abs(after)
            with np.errstate(over="ignore", under="ignore"):
                fine = np.ldexp(after, self._exponents) == before
            fine &= (size == 0.0) | ((size > 1e-90) & (size < 1e90))
            if not fine.all():
                return False
        return True

    def is_round(self) -> bool:
        """Prove that the rows span the space, and check that they fill it evenly."""
        rows = np.concatenate([*(head[1:] - head[0] for head in self.floats), self._after[-1]])
        if prove_rank(rows) != self.rank or self.rank == 0:
            return False
        units = scale_to_unit_length(rows)
        spread = np.linalg.eigvalsh(units.T @ units)
        return bool(spread[0] > _ROUND_ENOUGH * spread[-1])

    @cached_property
    def _integers(self) -> list[WideArray]:
        return [scaled_integers(array).integers for array in self._after]

    def integers(self, head: int) -> WideArray:
        return self._integers[head]

    def base_integers(self) -> WideArray:
        return self._integers[-1]

    def differences(self, head: int, i: IntArray, j: IntArray) -> FloatArray:
        points = self.floats[head]
        return scale_to_unit_size(points[i] - points[j])

    def base_rows(self) -> FloatArray:
        return scale_to_unit_size(self._after[-1])

    def original_integers(self, direction: WideArray) -> WideArray:
        shifts = int(self._exponents.max()) - self._exponents
        return np.asarray(direction << shifts.astype(object), dtype=object)

    def original_floats(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        shifts = int(self._exponents.min()) - self._exponents
        result = np.ldexp(directions, shifts)
        return result, (np.ldexp(result, -shifts) != directions).any(axis=1)

    def from_original(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        _, widths = np.frexp(directions)
        widths = np.where(directions != 0.0, widths + self._exponents, np.iinfo(np.int32).min)
        shifts = self._exponents - widths.max(axis=1, initial=0, keepdims=True)
        result = np.ldexp(directions, shifts)
        return result, (np.ldexp(result, -shifts) == directions).all(axis=1)


class _IntegerMapped:
    """Coordinates of the common span, to which an exact integer matrix maps every point."""

    are_exact = False

    def __init__(self, points: Sequence[FloatArray], base: FloatArray) -> None:
        wide = scaled_integers(np.concatenate([*points, base])).integers
        ends = np.cumsum([head.shape[0] for head in points]).tolist()
        *heads, rays = np.split(wide, ends)
        # Only differences of points matter, so the first point of each head becomes the origin.
        moved = np.concatenate([head - head[0] for head in heads])
        mapped = affine_coordinates(moved, rays)
        self.rank = mapped.rank
        self._transform = mapped.transform
        self._exponents = mapped.exponents
        self._heads = np.split(mapped.points, ends[:-1])
        self._rays = mapped.rays
        self.floats = np.split(mapped.floats, ends[:-1])

    def integers(self, head: int) -> WideArray:
        # Scale the integers like the floats, so that directions apply to both.
        return self._scale_columns(self._heads[head])

    def base_integers(self) -> WideArray:
        return self._scale_columns(self._rays)

    def _scale_columns(self, integers: WideArray) -> WideArray:
        shifts = int(self._exponents.max(initial=0)) - self._exponents
        return np.asarray(integers << shifts.astype(object), dtype=object)

    def differences(self, head: int, i: IntArray, j: IntArray) -> FloatArray:
        points = self._heads[head]
        return _round_rows(points[i] - points[j], self._exponents)

    def base_rows(self) -> FloatArray:
        return _round_rows(self._rays, self._exponents)

    def original_integers(self, direction: WideArray) -> WideArray:
        return np.asarray(self._transform @ self._scale_columns(direction), dtype=object)

    def original_floats(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        dim = self._transform.shape[0]
        result = np.zeros((directions.shape[0], dim))
        lost = np.zeros(directions.shape[0], np.bool_)
        for place, direction in enumerate(directions):
            exact = self.original_integers(scaled_integers(direction).integers)
            result[place] = round_direction(exact)
            back = scaled_integers(result[place]).integers
            lost[place] = not is_multiple(back, exact)
        return result, lost

    def from_original(self, directions: FloatArray) -> tuple[FloatArray, BoolArray]:
        n_directions = directions.shape[0]
        return np.zeros((n_directions, self.rank)), np.zeros(n_directions, np.bool_)


@np.errstate(under="ignore")
def round_direction(exact: WideArray) -> FloatArray:
    """Round integers to float64, scaled by a common factor to entries of at most one."""
    width = max((abs(int(x)).bit_length() for x in exact), default=0)
    mantissas, exponents = _round_to_leading_bits(exact)
    return np.asarray(np.ldexp(mantissas, exponents - width))


def is_multiple(left: WideArray, right: WideArray) -> bool:
    """Decide whether two integer vectors are positive multiples of each other."""
    place = next((k for k, x in enumerate(right) if x), None)
    if place is None:
        return not any(left)
    same_side = left[place] * right[place] > 0
    return bool(same_side and (left * right[place] == right * left[place]).all())


def scale_to_unit_length(rows: FloatArray) -> FloatArray:
    """Scale rows to unit length; zero rows do not change."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.ascontiguousarray(rows / np.where(lengths > 0.0, lengths, 1.0)[:, None])


@np.errstate(under="ignore")
def prove_rank(rows: FloatArray) -> int:
    """Return the rank of exact rows if floats prove that it is full, otherwise -1."""
    wanted = min(rows.shape)
    work = rows.copy()
    picked: list[tuple[int, int]] = []
    for _ in range(wanted):
        place = int(np.abs(work).argmax())
        i, k = divmod(place, work.shape[1])
        if not abs(work[i, k]) > 0.0:
            return -1
        picked.append((i, k))
        work -= np.outer(work[:, k] / work[i, k], work[i])
        work[i] = 0.0
        work[:, k] = 0.0
    if not wanted:
        return 0
    square = prepare_array(scale_to_unit_size(rows[np.ix_(*np.array(picked).T)]))
    memory = MemoryBlock(core().hm_invert_size(wanted))
    inverse, bounds = np.empty((wanted, wanted)), np.empty(2)
    arrays = address(square), wanted, address(inverse), address(bounds)
    return wanted if core().hm_invert(memory.address, *arrays) else -1


def scale_to_unit_size(rows: FloatArray) -> FloatArray:
    """Scale each row by a power of two so that its largest entry is between a half and one."""
    if not rows.shape[1]:
        return rows
    exponents = np.frexp(np.abs(rows).max(axis=1))[1]
    return np.asarray(np.ldexp(rows, -exponents[:, None]))


def _round_to_leading_bits(integers: WideArray) -> tuple[FloatArray, IntArray]:
    """Round integers to floats times powers of two, with a small relative error in each entry."""
    widths = np.frompyfunc(lambda x: max(abs(x).bit_length() - _LEADING_BITS, 0), 1, 1)(integers)
    mantissas = np.asarray(integers >> widths, dtype=np.float64)
    return mantissas, np.asarray(widths, dtype=np.int64)


@np.errstate(under="ignore")
def _round_rows(integers: WideArray, column_exponents: IntArray) -> FloatArray:
    """Scale integer columns, and round each row to floats with largest entry about one."""
    if not integers.size:
        return np.zeros(integers.shape)
    mantissas, exponents = _round_to_leading_bits(integers)
    fractions, more = np.frexp(mantissas)
    total = np.where(fractions != 0.0, exponents + more - column_exponents, np.iinfo(np.int64).min)
    largest = total.max(axis=1, keepdims=True)
    return np.asarray(np.ldexp(fractions, np.maximum(total - largest, -2000)))
