r"""Write a model on a box, given by its partition, as a maxout network with one hidden layer.

**The convex difference that a network of units carries through its layers, cell by cell.**

Write every coordinate of the stream as $p - q$ with convex $p$ and $q$. A score
$\langle a, z\rangle + c$ is then $u - v$ with $u = a^+ p + a^- q + c$ and $v = a^+ q + a^- p$ where
$a = a^+ - a^-$, and a unit is

$$\max_j (u_j - v_j) = \max_j \Big(u_j + \sum_{k \ne j} v_k\Big) - \sum_k v_k .$$

All these functions are affine on each cell of the network. The final $q$ is therefore a convex
function without new pieces, and adding it makes the output convex. This is the pair of tropical
polynomials of [ZNL18], except that only the term that wins on each cell is ever computed.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat

from hardmax._ground.arguments import integer
from hardmax.constructions.compilers.functions.convex_differences import (
    MAX_PIECES,
    maxout_from_pieces,
)
from hardmax.constructions.compilers.functions.exact_pieces import (
    ExactPieces,
    SharedFacet,
    describe,
    describe_values,
    exact_values_at,
)
from hardmax.constructions.compilers.functions.knots import maxout_from_line
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm, as_flint, read_box
from hardmax.errors import ArgumentError, DiscontinuityError, DtypeError
from hardmax.exact.dyadic import scaled_rows
from hardmax.exact.integer_vectors import Vector, wide_rows
from hardmax.geometry.domains import Box
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.layers import VectorBackend, finish_layer
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.charted_domains import enclosing_box
from hardmax.regions.partition import Partition
from hardmax.typing import IntArray, WideArray


class ConvexPair(NamedTuple):
    """Forms of $p$ and of $q$ on one cell: each `(width, dim + 1)`, the offset last."""

    p: fmpq_mat
    q: fmpq_mat

    def plus(self, other: "ConvexPair") -> "ConvexPair":
        """Return the pair of the sum."""
        return ConvexPair(self.p + other.p, self.q + other.q)


class SignedParts(NamedTuple):
    """Weights split by sign, and their offsets."""

    positive: fmpq_mat
    negative: fmpq_mat
    offsets: list[fmpq]

    @classmethod
    def of(cls, matrix: fmpz_mat, exponent: int) -> "SignedParts":
        """Split integer rows `(a, c)` on a scale."""
        scale = fmpq(2) ** exponent
        rows = [[fmpq(x) * scale for x in row] for row in matrix.tolist()]
        n, m = len(rows), len(rows[0]) - 1
        flat = [x for row in rows for x in row[:-1]]
        return cls(
            fmpq_mat(n, m, [max(x, fmpq(0)) for x in flat]),
            fmpq_mat(n, m, [max(-x, fmpq(0)) for x in flat]),
            [row[-1] for row in rows],
        )

    def apply(self, pair: ConvexPair) -> ConvexPair:
        """Return the pair of $a z + c$."""
        above = self.positive * pair.p + self.negative * pair.q
        below = self.positive * pair.q + self.negative * pair.p
        last = above.ncols() - 1
        for i, offset in enumerate(self.offsets):
            above[i, last] = above[i, last] + offset
        return ConvexPair(above, below)


def returns_maxima(network: ArgmaxNetwork) -> bool:
    """Return whether every group returns its maximum, as units do and heads do not."""
    return all(bool(layer.passes_maximum.all()) for layer in network.layers)


def propagate_liftings(network: ArgmaxNetwork, signatures: IntArray) -> WideArray:
    """Return the function $q$ of the outputs on each cell: shape `(n_cells, dim_out, dim + 1)`.

    Args:
        network: A network of units, on its own input space.
        signatures: The winners of all groups, shape `(n_cells, n_groups)`.
    """
    embedding = _rows(network.embedding)
    zero = fmpq_mat(embedding.nrows(), embedding.ncols())
    scores = [SignedParts.of(*layer.exact_scores) for layer in network.layers]
    split = cache(lambda affine: SignedParts.of(*affine.exact))
    numbers = VectorBackend(lambda affine, pair: split(affine).apply(pair), ConvexPair.plus)
    known: dict[tuple[int, ...], ConvexPair] = {(): ConvexPair(embedding, zero)}
    result = []
    for signature in map(tuple, signatures.tolist()):
        pair = known[()]
        for depth, layer, groups in network.places:
            name = signature[: groups.stop]
            if name not in known:
                # Split the forms after composing them with the query, which gives a smaller q.
                blocks = _contributions(layer, scores[depth].apply(pair), signature[groups])
                known[name] = finish_layer(layer, pair, blocks, numbers)
            pair = known[name]
        result.append(
            np.array(numbers.apply_affine(network.readout, pair).q.tolist(), dtype=object)
        )
    return np.stack(result)


def _contributions(layer: ArgmaxLayer, scored: ConvexPair, winners: Sequence[int]) -> ConvexPair:
    above, below = scored.p.tolist(), scored.q.tolist()
    n_columns = scored.p.ncols()
    p = [[fmpq(0)] * n_columns for _ in range(layer.output.dim_in)]
    q = [[fmpq(0)] * n_columns for _ in range(layer.output.dim_in)]
    ends = zip(layer.starts[:-1].tolist(), layer.starts[1:].tolist(), strict=True)
    for (start, end), slot, winner in zip(ends, layer.slots.tolist(), winners, strict=True):
        best = start + winner
        total = _sum(below[start:end], n_columns)
        others = [x + u - v for x, u, v in zip(total, above[best], below[best], strict=True)]
        p[slot] = [x + y for x, y in zip(p[slot], others, strict=True)]
        q[slot] = [x + y for x, y in zip(q[slot], total, strict=True)]
    return ConvexPair(_matrix(p), _matrix(q))


def _rows(affine: AffineMap) -> fmpq_mat:
    matrix, exponent = affine.exact
    return fmpq_mat(matrix) * (fmpq(2) ** exponent)


def _sum(rows: Iterable[Sequence[fmpq]], n_columns: int) -> list[fmpq]:
    total = [fmpq(0)] * n_columns
    for row in rows:
        total = [x + y for x, y in zip(total, row, strict=True)]
    return total


def _matrix(rows: list[list[fmpq]]) -> fmpq_mat:
    return fmpq_mat(len(rows), len(rows[0]), [x for row in rows for x in row])


def maxout_from_partition(
    partition: Partition, box: Box | str, *, max_pieces: int = MAX_PIECES
) -> MaxoutForm:
    r"""Write a continuous model as a maxout network with one hidden layer.

    The result has one hidden layer for models of any depth; its forms are the affine maps of the
    cells. In dimension 1, the changes of slope are sorted by sign. In higher dimensions, a model
    that is convex or concave on the box needs a single maximum. A model that consists of ReLU and
    maxout units carries a convex difference without new pieces through its layers. For any other
    model, the concave kinks are filled along their hyperplanes.

    Args:
        partition: The complete partition of the model on a bounded domain of full dimension.
        box: A box inside that domain, on which rounding is bounded: a `Box`, or its text.
        max_pieces: The maximum number of pieces created by filling concave kinks.

    Raises:
        DtypeError: If `partition` is not a `Partition`.
        DiscontinuityError: If the model jumps somewhere in the domain. The message states the point
            and both values.
        IncompleteError: If cells are missing because the search was stopped early.
        ArgumentError: If the box does not lie in the domain, or if the domain is unbounded or a
            slice.
        SizeLimitError: If filling kinks could exceed `max_pieces`.

    Examples:
        >>> from hardmax import ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, -1.0], [1.0, 1.0]], [[1.0], [-1.0]]])
        >>> square = Box([-1, -1], [1, 1])
        >>> form = maxout_from_partition(enumerate_regions(net, square), square)
        >>> form.network, form.method
        (MaxoutNetwork(2 -> [2] -> 1, ranks 2 to 2), 'layers')
        >>> form.network([[0.5, 0.25]]).tolist() == net([[0.5, 0.25]]).tolist()
        True
    """
    limit = integer("max_pieces", max_pieces, at_least=1)
    if not isinstance(partition, Partition):
        raise DtypeError(f"`partition` must be a Partition; got {type(partition).__name__}.")
    box = read_box(box, partition.domain.ambient_dim)
    _require_inside(partition, box)
    partition.require_complete("partition")
    if partition.domain.dim == 1:
        return _from_line(partition, box)
    pieces = partition_pieces(partition)
    network, signatures = partition.network, partition.signatures
    liftings = (
        [("layers", lambda kinks: propagate_liftings(network, signatures))]
        if returns_maxima(network)
        else []
    )
    return maxout_from_pieces(pieces, box, liftings, max_pieces=limit)


def partition_pieces(partition: Partition) -> ExactPieces:
    """Return the affine maps of all cells in rationals, checked to be continuous.

    Raises:
        DiscontinuityError: If two neighbouring cells disagree on their common facet.
    """
    forms = np.stack([flint_forms(partition.exact_map(i)) for i in range(partition.n_found)])
    rows = [list(partition.rows(i).walls) for i in range(partition.n_found)]
    known = [set(own) for own in rows]
    facets = []
    for i, j in partition.neighbours.pairs.tolist():
        # Two cells with a common facet are separated by exactly one hyperplane.
        row = next(row for row in rows[i] if tuple(-x for x in row) in known[j])
        facets.append(SharedFacet(i, j, row))
    corners = [
        wide_rows(list(partition.polytope(i).generators.points), partition.domain.dim + 1)
        for i in range(partition.n_found)
    ]
    pieces = ExactPieces(forms, tuple(facets), corners, rows)
    agree = pieces.continuous()
    if not agree.all():
        _refuse_jump(pieces, pieces.facets[int(np.argwhere(~agree)[0, 0])])
    return pieces


def flint_forms(forms: RationalForms) -> WideArray:
    """Return exact forms as flint rationals, shape `(n_forms, dim + 1)`."""
    scale = fmpq(2) ** forms.exponent / forms.denominator
    rows = [[fmpq(x) * scale for x in row] for row in forms.rows]
    return np.array(rows, dtype=object)


def _from_line(partition: Partition, box: Box) -> MaxoutForm:
    order = np.argsort(partition.exact_witnesses[:, 0])
    forms = np.stack([flint_forms(partition.exact_map(int(i))) for i in order])
    breakpoints = as_flint(partition.breakpoints).tolist()
    for t, before, after in zip(breakpoints, forms[:-1], forms[1:], strict=True):
        place = np.array([t], dtype=object)
        if exact_values_at(before, place) != exact_values_at(after, place):
            raise DiscontinuityError(_jump_error(place, before, after))
    return maxout_from_line(breakpoints, forms, box)


def _refuse_jump(pieces: ExactPieces, facet: SharedFacet) -> None:
    one, other = pieces.forms[facet.one], pieces.forms[facet.other]
    rows: list[Vector] = [
        (*(-x for x in row[:-1]), row[-1])
        for row in (*pieces.rows[facet.one], *pieces.rows[facet.other])
    ]
    # The forms differ on the common facet, hence at one of its corners.
    for corner in Polytope.from_rows(rows, pieces.dim).exact_vertices:
        place = as_flint(corner)
        if exact_values_at(one, place) != exact_values_at(other, place):
            raise DiscontinuityError(_jump_error(place, one, other))


def _jump_error(place: WideArray, one: WideArray, other: WideArray) -> str:
    return (
        "`partition` must belong to a continuous model, but at "
        f"{describe(place)} the model jumps between {describe_values(exact_values_at(one, place))} "
        f"and {describe_values(exact_values_at(other, place))}."
    )


def _require_inside(partition: Partition, box: Box) -> None:
    domain = partition.domain
    if not domain.is_identity:
        raise ArgumentError(
            "The domain of `partition` must have full dimension, like a Box or a Polytope; it is a "
            "slice."
        )
    ends, exponents = scaled_rows(np.stack([box.low, box.high], axis=1))
    scale = [fmpq(2) ** int(e) for e in exponents]
    for row in domain.exact_rows.tolist():
        pairs = zip(row[:-1], ends.tolist(), scale, strict=True)
        reach = sum((max(a * low, a * high) * s for a, (low, high), s in pairs), fmpq(0))
        if reach > row[-1]:
            raise ArgumentError(
                "`box` must lie in the domain of `partition`; it violates the inequality "
                f"{[float(a) for a in row[:-1]]} x <= {float(row[-1])}."
            )
    if enclosing_box(domain) is None:
        raise ArgumentError("The domain of `partition` must be bounded; it is unbounded.")
