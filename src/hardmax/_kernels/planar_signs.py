r"""Signs of affine forms at the vertices of a polygon, proven or undecided. No checks: see callers.

Edge $i$ of a polygon lies on a line $\ell_i = 0$ with $\ell_i \ge 0$ inside, and vertex $i$ is
where edge $i - 1$ meets edge $i$, going round counter-clockwise. All lines that define a vertex are
named by their composed forms, so its radius is found afresh: with the true lines $\ell^*$ and a
computed point $v$, the true vertex is $v^*$ with $M^* (v - v^*) = \ell^*(v)$, hence

$$|v - v^*|_\infty \le \rho = \frac{(|b| + r_b) R_a + (|a| + r_a) R_b}{|\det M| - \delta},$$

where $\delta$ bounds the error of the determinant and $R_a$ bounds $|\ell_a^*(v)|$: the residual,
its rounding and the radius of the line. A form's sign at $v^*$ is accepted only if its computed
value exceeds $e(v) + |g|_1 \rho$ and the rounding of that value.

A line may lie at infinity, $c = c_0 + c_1 M$ with a formal $M \to \infty$. Vertices are then $p + M
d$, and a form is positive there if $\langle a, d\rangle > 0$, or that is zero and $\langle a,
p\rangle + c > 0$.

What the filter leaves open is decided by expansions if the form and both lines are exact: the value
is $\det(g, \ell_{i-1}, \ell_i) / \det M$, and $\det M > 0$ at a vertex of a convex polygon.
"""

import math

import numba

from hardmax._kernels.expansions import grow, two_product
from hardmax._kernels.planar_buffers import (
    A1,
    A2,
    C0,
    C1,
    DRHO,
    DX,
    DY,
    N_EXPANDED,
    N_FILTERED,
    RA,
    RC,
    RHO,
    SHIFT,
    X,
    Y,
)
from hardmax.typing import FloatArray, IntArray

KAPPA = 2.0**-49
"""More than all relative rounding errors of one evaluation."""
UP = 1.0 + 2.0**-40
"""More than what rounding takes away from a bound."""
TINY = 2.0**-1000
LEAST = 2.0**-1060
"""More than what underflow takes away from a radius, which is 0 only where a vertex is exact."""
UNDECIDED = 2
Pencils = tuple[int, int, int, int]
"""About the forms of a layer: the layer, if all of them vanish at one point, else -1; the label
from which on edges are parallel to them, and the label of one more edge that is (see
`planar_rays`); and whether no form has an offset, so that parallel lines are the same."""
_SMALLEST, _LARGEST = 2.0**-150, 2.0**150


@numba.njit(cache=True, _nrt=False)
def filtered_sign(
    g: tuple[float, float, float, float, float], x: float, y: float, rho: float
) -> int:
    """Return the sign of a form at a finite vertex if rounding cannot have changed it, else 0.

    Takes numbers only, so that it is inlined: nearly all signs end here.
    """
    a1, a2, c, ra, rc = g
    p1, p2 = a1 * x, a2 * y
    value = p1 + p2 + c
    error = KAPPA * (abs(p1) + abs(p2) + abs(c)) + ra * (abs(x) + abs(y)) + rc
    error = (error + (abs(a1) + abs(a2) + 2.0 * ra) * rho) * UP + TINY
    if value > error:
        return 1
    return -1 if value < -error else 0


@numba.njit(cache=True, _nrt=False)
def sign_at(
    edges: FloatArray,
    labels: IntArray,
    before: int,
    i: int,
    g: tuple[float, float, float, float, float],
    pencils: Pencils,
    expansion: FloatArray,
    state: IntArray,
) -> int:
    """Return the sign of a form at a vertex, or `UNDECIDED`.

    Args:
        edges: The rows of the polygon (see `planar_buffers`).
        labels: Their labels.
        before: The row of the edge that ends at the vertex.
        i: The row of the edge that starts there.
        g: The form: two slopes, the offset, the radius of a slope and that of the offset.
        pencils: Which forms vanish together.
        expansion: Scratch.
        state: Counters.
    """
    a1, a2, c, ra, rc = g
    x, y, rho = edges[i, X], edges[i, Y], edges[i, RHO]
    dx, dy = edges[i, DX], edges[i, DY]
    state[N_FILTERED] += 1
    if dx != 0.0 or dy != 0.0:
        value = a1 * dx + a2 * dy
        slopes = abs(a1) + abs(a2)
        error = slopes * (KAPPA + edges[i, DRHO]) + 2.0 * ra * (1.0 + edges[i, DRHO])
        error = error * UP + TINY
        if value > error:
            return 1
        if value < -error:
            return -1
        is_constant = slopes == 0.0 and ra == 0.0
        if not (is_constant or is_parallel(labels, before, i, pencils)):
            return int(_exact_sign(edges, before, i, g, expansion, state))
    sign = filtered_sign(g, x, y, rho)
    if sign != 0:
        return int(sign)
    if c == 0.0 and rc == 0.0:
        if a1 == 0.0 and a2 == 0.0 and ra == 0.0:
            return 0
        if x == 0.0 and y == 0.0 and rho == 0.0:
            return 0
        if pencils[3] == 1 and is_parallel(labels, before, i, pencils):
            return 0
    if in_pencil(labels, before, i, pencils):
        return 0
    return int(_exact_sign(edges, before, i, g, expansion, state))


@numba.njit(cache=True, _nrt=False)
def in_pencil(labels: IntArray, before: int, i: int, pencils: Pencils) -> bool:
    """Say whether a vertex is the point where all forms of a layer vanish.

    Scores without offsets of a stream of width two are combinations of its two forms. Where two of
    them vanish, on lines that cross, the stream is zero, and so is every other.
    """
    pencil = pencils[0]
    if pencil < 0:
        return False
    low, high = pencil * SHIFT, (pencil + 1) * SHIFT
    return bool(low <= labels[before, 0] < high and low <= labels[i, 0] < high)


@numba.njit(cache=True, _nrt=False)
def is_parallel(labels: IntArray, before: int, i: int, pencils: Pencils) -> bool:
    """Say whether an edge at a vertex is parallel to the lines of a layer."""
    _, ray, unit, _ = pencils
    one, other = labels[before, 0], labels[i, 0]
    return bool(one >= ray or other >= ray or one == unit or other == unit)


@numba.njit(cache=True, _nrt=False)
def _exact_sign(
    edges: FloatArray,
    before: int,
    i: int,
    g: tuple[float, float, float, float, float],
    expansion: FloatArray,
    state: IntArray,
) -> int:
    a1, a2, c, ra, rc = g
    state[N_FILTERED] -= 1
    if not (ra == 0.0 and rc == 0.0 and edges[before, RA] == 0.0 and edges[before, RC] == 0.0):
        return UNDECIDED
    if not (edges[i, RA] == 0.0 and edges[i, RC] == 0.0):
        return UNDECIDED
    fits = _fits(a1) and _fits(a2) and _fits(c)
    fits = fits and _fits(edges[before, A1]) and _fits(edges[before, A2])
    fits = fits and _fits(edges[before, C0]) and _fits(edges[i, A1])
    fits = fits and _fits(edges[i, A2]) and _fits(edges[i, C0])
    if not fits:
        return UNDECIDED
    state[N_EXPANDED] += 1
    b1, b2 = edges[before, A1], edges[before, A2]
    d1, d2 = edges[i, A1], edges[i, A2]
    if edges[before, C1] != 0.0 or edges[i, C1] != 0.0:
        sign = _determinant_sign(
            a1, a2, 0.0, b1, b2, edges[before, C1], d1, d2, edges[i, C1], expansion
        )
        if sign != 0:
            return int(sign)
    return int(
        _determinant_sign(a1, a2, c, b1, b2, edges[before, C0], d1, d2, edges[i, C0], expansion)
    )


@numba.njit(cache=True, _nrt=False)
def _fits(number: float) -> bool:
    """Say whether products of three such numbers stay far from overflow and underflow."""
    size = abs(number)
    return size == 0.0 or _SMALLEST <= size <= _LARGEST


@numba.njit(cache=True, _nrt=False)
def _determinant_sign(
    g1: float, g2: float, g3: float, a1: float, a2: float, a3: float,
    b1: float, b2: float, b3: float, expansion: FloatArray,
) -> int:  # fmt: skip
    length = _add_minor(expansion, 0, g1, a2, b3, a3, b2)
    length = _add_minor(expansion, length, g2, a3, b1, a1, b3)
    length = _add_minor(expansion, length, g3, a1, b2, a2, b1)
    if length == 0:
        return 0
    return 1 if expansion[length - 1] > 0.0 else -1


@numba.njit(cache=True, _nrt=False)
def _add_minor(
    expansion: FloatArray, length: int, g: float, p: float, q: float, r: float, s: float
) -> int:
    """Add `g (p q - r s)` to an expansion, exactly."""
    if g == 0.0:
        return length
    if p != 0.0 and q != 0.0:
        length = _add_triple(expansion, length, g, p, q)
    if r != 0.0 and s != 0.0:
        length = _add_triple(expansion, length, -g, r, s)
    return length


@numba.njit(cache=True, _nrt=False)
def _add_triple(expansion: FloatArray, length: int, g: float, p: float, q: float) -> int:
    high, low = two_product(p, q)
    product, error = two_product(g, high)
    if low != 0.0:
        small, smaller = two_product(g, low)
        if smaller != 0.0:
            length = grow(expansion, length, smaller)
        length = grow(expansion, length, small)
    if error != 0.0:
        length = grow(expansion, length, error)
    return int(grow(expansion, length, product))


@numba.njit(cache=True, _nrt=False)
def intersect(edges: FloatArray, i: int, j: int, row: int) -> None:
    """Write where the lines of rows `i` and `j` meet, with its radii, into a row."""
    a1, a2, a3, ra = edges[i, A1], edges[i, A2], edges[i, C0], edges[i, RA]
    b1, b2, b3, rb = edges[j, A1], edges[j, A2], edges[j, C0], edges[j, RA]
    det = a1 * b2 - a2 * b1
    error = KAPPA * (abs(a1 * b2) + abs(a2 * b1)) + ra * (abs(b1) + abs(b2))
    error = error + rb * (abs(a1) + abs(a2)) + 2.0 * ra * rb
    least = abs(det) - (error * UP + TINY)
    if not least > 0.0:
        edges[row, X] = 0.0
        edges[row, Y] = 0.0
        edges[row, RHO] = math.inf
        edges[row, DX] = 1.0 if edges[i, C1] != 0.0 or edges[j, C1] != 0.0 else 0.0
        edges[row, DY] = 0.0
        edges[row, DRHO] = math.inf
        return
    first = (max(abs(b1), abs(b2)) + rb) / least * UP + LEAST
    second = (max(abs(a1), abs(a2)) + ra) / least * UP + LEAST
    x = (a2 * b3 - a3 * b2) / det
    y = (a3 * b1 - a1 * b3) / det
    edges[row, X] = x
    edges[row, Y] = y
    one = _residual(a1, a2, a3, ra, edges[i, RC], x, y)
    other = _residual(b1, b2, b3, rb, edges[j, RC], x, y)
    is_exact = one == 0.0 and other == 0.0
    edges[row, RHO] = 0.0 if is_exact else (first * one + second * other) * UP + LEAST
    a3, b3 = edges[i, C1], edges[j, C1]
    edges[row, DX] = 0.0
    edges[row, DY] = 0.0
    edges[row, DRHO] = 0.0
    if a3 != 0.0 or b3 != 0.0:
        x = (a2 * b3 - a3 * b2) / det
        y = (a3 * b1 - a1 * b3) / det
        edges[row, DX] = x
        edges[row, DY] = y
        rho = first * _residual(a1, a2, a3, ra, 0.0, x, y)
        rho += second * _residual(b1, b2, b3, rb, 0.0, x, y)
        edges[row, DRHO] = rho * UP + LEAST


@numba.njit(cache=True, _nrt=False)
def _residual(a1: float, a2: float, c: float, ra: float, rc: float, x: float, y: float) -> float:
    """Bound the value of the true line at a point meant to lie on it; 0 only if that is proven."""
    if x == 0.0 and y == 0.0 and c == 0.0 and rc == 0.0:
        return 0.0
    p1, p2 = a1 * x, a2 * y
    error = abs(p1 + p2 + c) + KAPPA * (abs(p1) + abs(p2) + abs(c)) + ra * (abs(x) + abs(y)) + rc
    return error * UP + TINY
