r"""The double description method: the extreme rays of a polyhedral cone, exactly.

A cone $C = \{u : R u \ge 0\}$ has two descriptions, by its rows and by its rays. The method
[MRTT53], [FP96] maintains both. It starts from a simplicial cone defined by independent rows and
adds the other rows one at a time. A row keeps the rays on its nonnegative side and creates one new
ray on every edge (two-dimensional face) that it cuts. Polytopes, power diagrams and their cells are
derived from such lists of rays.

All combinatorial decisions are exact. The rays are primitive integer vectors. The sign of
$\langle r, u \rangle$ comes from a float64 product if this exceeds the error bound, and from
integers otherwise. Incidences alone decide whether two rays span an edge, so the result is correct
even if many rows meet in one ray.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat, nmod_mat

from hardmax._ground.deadlines import check_time
from hardmax._ground.progress import track
from hardmax.errors import DtypeError, ShapeMismatchError
from hardmax.exact.integer_vectors import (
    Vector,
    dot,
    embed,
    independent_rows,
    null_space,
    primitive,
    rounded_directions,
    wide_rows,
)
from hardmax.exact.rounding import TINY, UNIT_ROUNDOFF
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

"""Exceeds the total underflow error of one dot product."""
_PRIME = 2**61 - 1


@dataclass(frozen=True, eq=False)
class ConeGenerators:
    r"""The generators of $C = \{u : R u \ge 0\} = \mathrm{lin}(L) + \mathrm{cone}(V)$.

    Attributes:
        lineality: A basis $L$ of the largest subspace in $C$, as primitive Python integers, shape
            `(n_lines, d)`.
        rays: One vector $V$ for each extreme ray of $C$ modulo its lineality space, as primitive
            Python integers, shape `(n_rays, d)`.
        incidence: Entry `[k, i]` tells whether `rows[i] @ rays[k] == 0`, shape `(n_rays, n_rows)`.
    """

    lineality: WideArray
    rays: WideArray
    incidence: BoolArray


@dataclass(frozen=True, eq=False)
class SparseGenerators:
    """The generators of a cone with incidences as sets, which is suitable for large sparse cones.

    Attributes:
        dim: The dimension $d$ of the space.
        lineality: A basis of the lineality space: `n_lines` integer vectors of length `dim`.
        rays: The extreme rays: `n_rays` integer vectors of length `dim`.
        tight: For each ray, the rows that vanish on it. Of rows that are positive multiples of each
            other, only the first is listed, and zero rows are omitted.
    """

    dim: int
    lineality: tuple[Vector, ...]
    rays: tuple[Vector, ...]
    tight: tuple[frozenset[int], ...]


def cone_generators(rows: WideArray, *, shown: str = "") -> ConeGenerators:
    r"""Find the extreme rays and the lineality space of $\{u : R u \ge 0\}$.

    The cost grows with the number of rays of the intermediate cones, which can exceed the final
    number of rays. Rows are inserted in lexicographic order, which usually keeps the cost low.

    Args:
        rows: The matrix $R$, an object array of Python integers (or an integer array) of shape
            `(n_rows, d)`. Zero rows, repeated rows and `n_rows = 0` are allowed.
        shown: The description of the rows for the progress display; empty for no display.

    Returns:
        The rays, the lineality space and the incidences. The zero cone has neither rays nor
        lineality; a linear subspace has only lineality.

    Raises:
        ShapeMismatchError: If `rows` does not have two axes.
        DtypeError: If an entry is not an integer.

    References:
        [MRTT53], [FP96].

    Examples:
        >>> quadrant = cone_generators(np.array([[1, 0], [0, 2], [1, 1]]))
        >>> quadrant.rays.tolist(), quadrant.incidence.tolist()
        ([[1, 0], [0, 1]], [[False, True, False], [True, False, False]])

        The cone of two opposite rows is a line:

        >>> line = cone_generators(np.array([[1, -1], [-1, 1]]))
        >>> line.rays.shape, line.lineality.tolist()
        ((0, 2), [[1, 1]])
    """
    integers = _integer_rows(rows)
    n_rows, dim = rows.shape
    sparse = sparse_cone_generators(integers, dim, shown=shown)
    first: dict[Vector, int] = {}
    same = [first.setdefault(primitive(row), i) for i, row in enumerate(integers)]
    incidence = np.zeros((len(sparse.rays), n_rows), dtype=np.bool_)
    for k, tight in enumerate(sparse.tight):
        check_time()
        incidence[k, list(tight)] = True
    incidence = incidence[:, same]
    incidence[:, [i for i, row in enumerate(integers) if not any(row)]] = True
    return ConeGenerators(wide_rows(sparse.lineality, dim), wide_rows(sparse.rays, dim), incidence)


def sparse_cone_generators(
    rows: Sequence[Vector],
    dim: int,
    order: Iterable[int] | None = None,
    *,
    mostly_redundant: bool = False,
    shown: str = "",
) -> SparseGenerators:
    r"""Find the generators of $\{u : R u \ge 0\}$ with incidences as sets.

    The arguments are not checked.

    Args:
        rows: The rows of $R$ as tuples of Python integers, each of length `dim`.
        dim: The dimension of the space.
        order: The order in which rows are inserted, a permutation of the row indices. The cost
            depends on it, but the result does not. By default, lexicographic.
        mostly_redundant: Whether to insert only rows that cut or touch the cone, choosing the
            deepest cuts in each round. This is faster if only few of many rows define facets.
        shown: The description of the rows for the progress display; empty for no display.
    """
    vectors = [primitive(row) for row in rows]
    first: dict[Vector, int] = {}
    for i, vector in enumerate(vectors):
        if any(vector):
            first.setdefault(vector, i)
    distinct = set(first.values())
    chosen = sorted(distinct, key=vectors.__getitem__) if order is None else list(order)
    chosen = [i for i in chosen if i in distinct]
    basis, pivots = independent_rows([vectors[i] for i in chosen], dim)
    lineality = null_space([vectors[chosen[b]] for b in basis], dim)
    if not basis:
        return SparseGenerators(dim, lineality, (), ())
    # The lineality space projects isomorphically onto the other coordinates. Hence the slice on
    # which these vanish meets every ray modulo lineality exactly once, and the cone in this slice
    # is pointed.
    sliced = {i: tuple(vectors[i][p] for p in pivots) for i in chosen}
    start = [chosen[b] for b in basis]
    cone = _build_simplicial_cone(sliced, start)
    started = set(start)
    pending = [i for i in chosen if i not in started]
    if mostly_redundant:
        cone.insert_pending(pending)
    else:
        for i in track(pending, shown) if shown else pending:
            cone.insert(i)
    rays, tight = cone.collect()
    return SparseGenerators(dim, lineality, tuple(embed(r, pivots, dim) for r in rays), tight)


def face_has_dimension(rays: Sequence[Vector], k: int) -> bool:
    r"""Decide whether a face of a pointed cone has dimension at least `k`, from its extreme rays.

    A face of dimension $k$ has at least $k$ extreme rays, and exactly $k$ if $k \le 2$. Hence
    counting suffices for $k \le 3$. For larger $k$, the rank decides. It is at least the rank
    modulo a prime, which is quick to compute and nearly always equal.
    """
    if len(rays) < k or k <= 3:
        return len(rays) >= k
    residues = [entry % _PRIME for ray in rays for entry in ray]
    if nmod_mat(len(rays), len(rays[0]), residues, _PRIME).rank() >= k:
        return True
    return int(fmpz_mat([list(ray) for ray in rays]).rank()) >= k


def cut_cone(
    rays: Sequence[Vector], tight: Sequence[Iterable[int]], rows: dict[int, Vector]
) -> tuple[list[Vector], tuple[frozenset[int], ...]]:
    r"""Intersect a pointed cone with interior points with the half-spaces of further rows.

    Args:
        rays: The extreme rays of the cone, primitive integer vectors.
        tight: For each ray, the rows of the cone that vanish on it, by arbitrary numbers.
        rows: The further rows $r$, with numbers of their own. The part of the cone with
            $\langle r, u\rangle \ge 0$ is kept.

    Returns:
        The rays of the intersection, and for each ray the rows that vanish on it.

    Examples:
        >>> cut_cone([(1, 0), (0, 1)], [[0], [1]], {2: (1, -1)})
        ([(1, 1), (1, 0)], (frozenset({2}), frozenset({0})))
    """
    cone = _GrowingCone(rows, len(rays[0]), list(rays), [set(on) for on in tight])
    for i in rows:
        cone.insert(i)
    return cone.collect()


def _build_simplicial_cone(rows: dict[int, Vector], start: list[int]) -> "_GrowingCone":
    """Build the cone of `rank` independent rows."""
    rank = len(start)
    inverse, denominator = fmpz_mat([list(rows[i]) for i in start]).inv().numer_denom()
    sign = 1 if denominator > 0 else -1
    vectors = [primitive(sign * int(inverse[c, k]) for c in range(rank)) for k in range(rank)]
    return _GrowingCone(rows, rank, vectors, [set(start) - {i} for i in start])


class _GrowingCone:
    """A pointed cone of full column rank while its rows are being inserted.

    Rays are stored in numbered slots: `tight[k]` lists the inserted rows that vanish on ray `k`,
    and `rays_on[i]` the rays on which row `i` vanishes. The slot of a removed ray is reused.
    """

    def __init__(
        self, rows: dict[int, Vector], rank: int, vectors: list[Vector], tight: list[set[int]]
    ) -> None:
        self.rows = rows
        self.rank = rank
        self.vectors = vectors
        self.tight = tight
        self.rays_on: dict[int, set[int]] = {}
        for k, on in enumerate(tight):
            for i in on:
                self.rays_on.setdefault(i, set()).add(k)
        self.free: list[int] = []
        self.alive = np.ones(len(vectors), dtype=np.bool_)
        self.directions = rounded_directions(self.vectors, self.rank)
        self.sizes = np.abs(self.directions)

    def insert(self, i: int) -> None:
        """Intersect with the half-space of row `i`."""
        check_time()
        row = self.rows[i]
        signs = self._signs(row)
        below = np.flatnonzero(signs < 0).tolist()
        on = np.flatnonzero((signs == 0) & self.alive).tolist()
        self.rays_on[i] = set(on)
        for k in on:
            self.tight[k].add(i)
        if not below:
            return
        born: list[tuple[Vector, set[int]]] = []
        value: dict[int, int] = {}
        for k in below:
            check_time()
            value[k] = dot(row, self.vectors[k])
            for m in self._candidates(k):
                if signs[m] <= 0:
                    continue
                shared = self.tight[k] & self.tight[m]
                if self._is_edge(k, m, shared):
                    if m not in value:
                        value[m] = dot(row, self.vectors[m])
                    up, down = value[m], -value[k]
                    pairs = zip(self.vectors[k], self.vectors[m], strict=True)
                    born.append((primitive([up * a + down * b for a, b in pairs]), shared | {i}))
        for k in below:
            self._remove(k)
        self._add(born)

    @np.errstate(under="ignore")
    def insert_pending(self, pending: list[int]) -> None:
        """Intersect with all pending rows, skipping rows that are positive on every ray.

        Each round inserts, for every ray, the row that it violates most. If no ray violates a row
        by more than the error bound, the rows that might touch the cone are inserted.
        """
        left = np.arange(len(pending))
        directions = rounded_directions([self.rows[i] for i in pending], self.rank)
        while len(left):
            rays, sizes = self.directions[self.alive], self.sizes[self.alive]
            values = directions[left] @ rays.T
            bound = self._error_bound(np.abs(directions[left]) @ sizes.T)
            cut = (values < -bound).any(axis=0)
            if cut.any():
                chosen = np.unique(values[:, cut].argmin(axis=0))
            else:
                chosen = np.flatnonzero((values <= bound).any(axis=1))
            if not len(chosen):
                return
            for k in left[chosen].tolist():
                self.insert(pending[k])
            left = np.delete(left, chosen)

    def collect(self) -> tuple[list[Vector], tuple[frozenset[int], ...]]:
        """Return the rays and their incidences, in an order that depends only on the cone."""
        alive = sorted(np.flatnonzero(self.alive).tolist(), key=lambda k: self.vectors[k])
        alive.reverse()
        return [self.vectors[k] for k in alive], tuple(frozenset(self.tight[k]) for k in alive)

    @np.errstate(under="ignore")
    def _signs(self, row: Vector) -> IntArray:
        """Decide the sign of `row @ ray` for every ray."""
        direction = rounded_directions([row], self.rank)[0]
        values = self.directions @ direction
        bound = self._error_bound(self.sizes @ np.abs(direction))
        signs = np.where(values > bound, 1, np.where(values < -bound, -1, 0)).astype(np.int64)
        signs[~self.alive] = 0
        for k in np.flatnonzero((signs == 0) & self.alive).tolist():
            exact = dot(row, self.vectors[k])
            signs[k] = (exact > 0) - (exact < 0)
        return signs

    @np.errstate(under="ignore")
    def _error_bound(self, sizes: FloatArray) -> FloatArray:
        r"""Bound the error of a computed `row @ ray`, given `|row| @ |ray|` as computed.

        Both vectors carry relative errors of at most $u = 2^{-53}$ per entry and the computed dot
        product of length $r$ another $\gamma_{r}$, so the error is below
        $(r + 4) u \sum_c |row_c| |ray_c|$ (the 4 also covers rounding that sum and the bound).
        """
        return np.asarray((self.rank + 4) * UNIT_ROUNDOFF * sizes + TINY)

    def _candidates(self, k: int) -> set[int]:
        """Return rays that include every ray sharing an edge with ray `k`.

        An edge has rank - 2 independent tight rows, so its other end lies on all but at most
        `spare` of the rows through `k`: it lies on one of any `spare + 1` of them.
        """
        lists = sorted((self.rays_on[i] for i in self.tight[k]), key=len)
        spare = len(lists) - (self.rank - 2)
        if spare >= len(lists):
            return set(np.flatnonzero(self.alive).tolist())
        return set().union(*lists[: spare + 1])

    def _is_edge(self, k: int, m: int, shared: set[int]) -> bool:
        """Decide whether two rays span a two-dimensional face, given their common tight rows."""
        if len(shared) < self.rank - 2:
            return False
        # A ray with exactly rank - 1 tight rows has independent ones, hence so are the shared.
        simple = min(len(self.tight[k]), len(self.tight[m])) == self.rank - 1
        if not shared or (simple and len(shared) == self.rank - 2):
            return True
        # The smallest face holding both is where the shared rows vanish: an edge iff it holds
        # no third extreme ray [FP96].
        lists = [self.rays_on[i] for i in shared]
        smallest = min(lists, key=len)
        return all(q in (k, m) or not shared <= self.tight[q] for q in smallest)

    def _remove(self, k: int) -> None:
        for i in self.tight[k]:
            self.rays_on[i].discard(k)
        self.alive[k] = False
        self.free.append(k)

    def _add(self, born: list[tuple[Vector, set[int]]]) -> None:
        if not born:
            return
        missing = len(born) - len(self.free)
        if missing > 0:
            self._grow(max(missing, len(self.vectors)))
        slots = [self.free.pop() for _ in born]
        for slot, (vector, tight) in zip(slots, born, strict=True):
            self.vectors[slot] = vector
            self.tight[slot] = tight
            for i in tight:
                self.rays_on[i].add(slot)
        directions = rounded_directions([vector for vector, _ in born], self.rank)
        self.directions[slots] = directions
        self.sizes[slots] = np.abs(directions)
        self.alive[slots] = True

    def _grow(self, extra: int) -> None:
        old = len(self.vectors)
        self.free.extend(range(old + extra - 1, old - 1, -1))
        self.vectors.extend([()] * extra)
        self.tight.extend(set() for _ in range(extra))
        blank = np.zeros((extra, self.rank))
        self.directions = np.concatenate([self.directions, blank])
        self.sizes = np.concatenate([self.sizes, blank])
        self.alive = np.concatenate([self.alive, np.zeros(extra, dtype=np.bool_)])


def _integer_rows(rows: WideArray) -> list[Vector]:
    array = np.asarray(rows)
    if array.ndim != 2:
        raise ShapeMismatchError(f"`rows` must have shape (n_rows, d); got {array.shape}.")
    if array.dtype.kind not in "iuO" or not all(
        isinstance(entry, int | np.integer) for entry in array.flat
    ):
        raise DtypeError(f"`rows` must hold Python integers; got dtype {array.dtype}.")
    return [tuple(int(entry) for entry in row) for row in array]
