r"""The convex difference a network of units carries through its layers, cell by cell.

Write every coordinate of the stream as $p - q$ with convex $p$ and $q$. A score
$\langle a, z\rangle + c$ is then $u - v$ with $u = a^+ p + a^- q + c$ and $v = a^+ q + a^- p$ where
$a = a^+ - a^-$, and a unit is

$$\max_j (u_j - v_j) = \max_j \Big(u_j + \sum_{k \ne j} v_k\Big) - \sum_k v_k .$$

All these functions are affine on each cell of the network, so the last $q$ is a convex function
without new pieces, and adding it makes the output convex. This is the pair of tropical polynomials
of [ZNL18] without its terms: only the term that wins on each cell is ever formed.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat, fmpz_mat

from hardmax.models._arithmetic.layers import Numbers, passed_on
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
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


def carries_a_difference(network: ArgmaxNetwork) -> bool:
    """Say whether every group passes its maximum on, as units do and heads do not."""
    return all(bool(layer.passes_maximum.all()) for layer in network.layers)


def carried_liftings(network: ArgmaxNetwork, signatures: IntArray) -> WideArray:
    """Return the $q$ of the outputs on each cell: `(n_cells, dim_out, dim + 1)`.

    Args:
        network: A network of units, on its own input space.
        signatures: The winners of all groups, shape `(n_cells, n_groups)`.
    """
    embedding = _rows(network.embedding)
    zero = fmpq_mat(embedding.nrows(), embedding.ncols())
    scores = [SignedParts.of(*layer.exact_scores) for layer in network.layers]
    split = cache(lambda affine: SignedParts.of(*affine.exact))
    numbers = Numbers(lambda affine, pair: split(affine).apply(pair), ConvexPair.plus)
    known: dict[tuple[int, ...], ConvexPair] = {(): ConvexPair(embedding, zero)}
    result = []
    for signature in map(tuple, signatures.tolist()):
        pair = known[()]
        for depth, layer, groups in network.places:
            name = signature[: groups.stop]
            if name not in known:
                # The forms are split after they are composed with the query: a smaller q.
                blocks = _contributions(layer, scores[depth].apply(pair), signature[groups])
                known[name] = passed_on(layer, pair, blocks, numbers)
            pair = known[name]
        result.append(np.array(numbers.mapped(network.readout, pair).q.tolist(), dtype=object))
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
