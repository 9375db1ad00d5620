r"""Whether two facets in one hyperplane overlap, proven or open. No checks: see callers.

The facets belong to cells $P$ and $Q$. They overlap if the other rows of $P$ and of $Q$, and those
of the domain, are positive together somewhere on the hyperplane; a point is found by relaxation and
checked with bounds on all errors. They do not if a row of one cell is negative at all vertices of
the other facet, or if some direction parts the vertices of both.

Forms are those of `facet_forms`. With a form $(a, c)$, its radii $r$ and $s$, and a point $x$ that
is off by at most $\beta$ in each coordinate, the true value is within $r (|x|_1 + d \beta) + s +
|a|_1 \beta$ and the rounding of the computed one.

References:
    [Gilbert66].
"""

import math

import numba

from hardmax._kernels.spatial_vertices import KAPPA, TINY, UP
from hardmax.typing import BoolArray, FloatArray, IntArray

OPEN, APART, OVERLAP = -1, 0, 1
_MOST_STEPS = 64
_SHRINK = 0.85
_MOST_TURNS = 24


@numba.njit(cache=True, _nrt=False)
def sign_at(forms: FloatArray, row: int, points: FloatArray, i: int, blur: float) -> int:
    """Return the sign of a form at a point, or 0 where that is open."""
    dim = points.shape[1]
    value = forms[row, dim]
    size = abs(value)
    slopes = 0.0
    reach = 0.0
    for k in range(dim):
        term = forms[row, k] * points[i, k]
        value += term
        size += abs(term)
        slopes += abs(forms[row, k])
        reach += abs(points[i, k])
    error = KAPPA * size + forms[row, dim + 1] * (reach + dim * blur) + forms[row, dim + 2]
    error = (error + slopes * blur) * UP + TINY
    if value > error:
        return 1
    return -1 if value < -error else 0


@numba.njit(cache=True, _nrt=False)
def far_sign(forms: FloatArray, row: int, directions: FloatArray, i: int, blur: float) -> int:
    """Return the sign of a form towards a vertex at infinity, or 0 where that is open."""
    dim = directions.shape[1]
    value, size, slopes, reach = 0.0, 0.0, 0.0, 0.0
    for k in range(dim):
        term = forms[row, k] * directions[i, k]
        value += term
        size += abs(term)
        slopes += abs(forms[row, k])
        reach += abs(directions[i, k])
    error = KAPPA * size + forms[row, dim + 1] * (reach + dim * blur) + slopes * blur
    error = error * UP + TINY
    if value > error:
        return 1
    return -1 if value < -error else 0


@numba.njit(cache=True, _nrt=False)
def compare(
    m: int,
    n: int,
    one: int,
    other: int,
    owners: IntArray,
    starts: IntArray,
    forms: FloatArray,
    n_facets: int,
    points: FloatArray,
    directions: FloatArray,
    is_far: BoolArray,
    blurs: FloatArray,
    corner_starts: IntArray,
    corners: IntArray,
    boxes: FloatArray,
    normals: FloatArray,
    places: FloatArray,
    rows: IntArray,
    inside: BoolArray,
) -> int:
    """Compare two facets in one hyperplane, the places `m` and `n` among those chosen."""
    dim = points.shape[1]
    n_rows = 0
    n_common = 0
    n_corners = 0
    for k in range(dim):
        places[0, k] = 0.0
        places[1, k] = 0.0
    for side in range(2):
        own, cell = (one, owners[one]) if side == 0 else (other, owners[other])
        theirs, beyond = (n, owners[other]) if side == 0 else (m, owners[one])
        first, last = corner_starts[theirs], corner_starts[theirs + 1]
        is_known = blurs[beyond, 0] < math.inf and blurs[beyond, 1] < math.inf
        for c in range(last - first):
            inside[c] = True
        for row in range(starts[cell], starts[cell + 1]):
            if row == own:
                continue
            rows[n_rows] = row
            n_rows += 1
            n_beyond = 0
            for c in range(last - first):
                i = corners[first + c]
                if is_far[i]:
                    n_beyond += far_sign(forms, row, directions, i, blurs[beyond, 1]) < 0
                elif sign_at(forms, row, points, i, blurs[beyond, 0]) < 0:
                    inside[c] = False
                    n_beyond += 1
            if is_known and n_beyond == last - first:
                return APART
        for c in range(last - first):
            if is_far[corners[first + c]]:
                continue
            n_corners += 1
            for k in range(dim):
                places[1, k] += points[corners[first + c], k]
            if inside[c]:
                n_common += 1
                for k in range(dim):
                    places[0, k] += points[corners[first + c], k]
    if n_corners == 0:
        return OPEN
    for row in range(n_facets, forms.shape[0]):
        rows[n_rows] = row
        n_rows += 1
    for k in range(dim):
        places[0, k] = places[0, k] / n_common if n_common > 0 else places[1, k] / n_corners
    if not _move_in(forms, one, places):
        return OPEN
    if _is_common(forms, one, rows, n_rows, places):
        return OVERLAP
    is_bounded = boxes[m, 1, 0] < math.inf and boxes[n, 1, 0] < math.inf
    if is_bounded and _are_parted(
        points,
        corners,
        corner_starts,
        m,
        n,
        blurs[owners[one], 0] + blurs[owners[other], 0],
        places,
    ):
        return APART
    if _relax(forms, one, rows, n_rows, boxes, m, n, normals, places) and _is_common(
        forms, one, rows, n_rows, places
    ):
        return OVERLAP
    return OPEN


@numba.njit(cache=True, _nrt=False)
def _move_in(forms: FloatArray, plane: int, places: FloatArray) -> bool:
    """Move the first place about into a hyperplane; False: that failed."""
    dim = places.shape[1]
    value, square = forms[plane, dim], 0.0
    for k in range(dim):
        value += forms[plane, k] * places[0, k]
        square += forms[plane, k] * forms[plane, k]
    if not 0.0 < square < math.inf:
        return False
    for k in range(dim):
        places[0, k] -= value / square * forms[plane, k]
    return True


@numba.njit(cache=True, _nrt=False)
def _is_common(
    forms: FloatArray, plane: int, rows: IntArray, n_rows: int, places: FloatArray
) -> bool:
    """Say whether rows are certainly positive at a point of a hyperplane near the first place.

    The point differs from the place in the coordinate of the largest slope.
    """
    dim = places.shape[1]
    value = forms[plane, dim]
    size = abs(value)
    reach = 0.0
    slope = 0.0
    for k in range(dim):
        term = forms[plane, k] * places[0, k]
        value += term
        size += abs(term)
        reach += abs(places[0, k])
        slope = max(slope, abs(forms[plane, k]))
    error = (KAPPA * size + forms[plane, dim + 1] * reach + forms[plane, dim + 2]) * UP + TINY
    least = slope - forms[plane, dim + 1]
    if not least > 0.0:
        return False
    blur = (abs(value) + error) / least * UP + TINY
    if not blur < math.inf:
        return False
    r = 0
    while r < n_rows and sign_at(forms, rows[r], places, 0, blur) > 0:
        r += 1
    return r == n_rows


@numba.njit(cache=True, _nrt=False)
def _relax(
    forms: FloatArray,
    plane: int,
    rows: IntArray,
    n_rows: int,
    boxes: FloatArray,
    m: int,
    n: int,
    normals: FloatArray,
    places: FloatArray,
) -> bool:
    """Move the first place, within a hyperplane, to where rows are positive by some margin.

    Each step goes across the row that is lowest, measured by its slope within the hyperplane. What
    comes out needs no proof: it is checked.
    """
    dim = places.shape[1]
    square = 0.0
    for k in range(dim):
        square += forms[plane, k] * forms[plane, k]
    for r in range(n_rows):
        along = 0.0
        for k in range(dim):
            along += forms[rows[r], k] * forms[plane, k]
        length = 0.0
        for k in range(dim):
            normals[r, k] = forms[rows[r], k] - along / square * forms[plane, k]
            length += normals[r, k] * normals[r, k]
        length = math.sqrt(length)
        normals[r, dim] = length
        if length > 0.0:
            for k in range(dim):
                normals[r, k] /= length
    target = 0.0
    for k in range(dim):
        width = min(boxes[m, 1, k], boxes[n, 1, k]) - max(boxes[m, 0, k], boxes[n, 0, k])
        target = max(target, 0.25 * width)
    if not target < math.inf:
        target = 1.0
        for k in range(dim):
            target = max(target, abs(places[0, k]))
    best = -math.inf
    for _ in range(_MOST_STEPS):
        lowest = math.inf
        at = -1
        for r in range(n_rows):
            if normals[r, dim] > 0.0:
                value = forms[rows[r], dim]
                for k in range(dim):
                    value += forms[rows[r], k] * places[0, k]
                if value < lowest * normals[r, dim]:
                    lowest = value / normals[r, dim]
                    at = r
        if at < 0:
            return False
        if lowest > best:
            best = lowest
            for k in range(dim):
                places[2, k] = places[0, k]
        if lowest >= target:
            break
        for k in range(dim):
            places[0, k] += (target - lowest) * normals[at, k]
        target *= _SHRINK
    for k in range(dim):
        places[0, k] = places[2, k]
    return bool(best > 0.0) and _move_in(forms, plane, places)


@numba.njit(cache=True, _nrt=False)
def _are_parted(
    points: FloatArray,
    corners: IntArray,
    corner_starts: IntArray,
    m: int,
    n: int,
    blur: float,
    places: FloatArray,
) -> bool:
    """Look for a direction in which all vertices of one facet come before all of the other.

    Gilbert's iteration for the shortest difference of points; what comes out is checked.
    """
    dim = points.shape[1]
    for k in range(dim):
        places[1, k] = points[corners[corner_starts[m]], k] - points[corners[corner_starts[n]], k]
    for _ in range(_MOST_TURNS):
        low, high = math.inf, -math.inf
        lowest, highest = 0, 0
        size, reach = 0.0, 0.0
        for c in range(corner_starts[m], corner_starts[m + 1]):
            value = 0.0
            for k in range(dim):
                value += places[1, k] * points[corners[c], k]
                size = max(size, abs(points[corners[c], k]))
            if value < low:
                low, lowest = value, corners[c]
        for c in range(corner_starts[n], corner_starts[n + 1]):
            value = 0.0
            for k in range(dim):
                value += places[1, k] * points[corners[c], k]
                size = max(size, abs(points[corners[c], k]))
            if value > high:
                high, highest = value, corners[c]
        for k in range(dim):
            reach += abs(places[1, k])
        if low - high > (reach * (blur + 4.0 * KAPPA * size) + KAPPA * (abs(low) + abs(high))) * UP:
            # Rounded products that vanish are paid for here.
            return bool(low - high > TINY)
        square, along = 0.0, 0.0
        for k in range(dim):
            step = points[lowest, k] - points[highest, k] - places[1, k]
            square += step * step
            along -= step * places[1, k]
        if not (along > 0.0 and square > 0.0):
            return False
        share = min(along / square, 1.0)
        for k in range(dim):
            step = points[lowest, k] - points[highest, k] - places[1, k]
            places[1, k] += share * step
    return False
