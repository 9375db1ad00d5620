r"""The heaviest walks in a weighted graph, or the positive cycle that forbids them, exactly.

The weight of a walk is the exact sum of its float64 edges, an integer times a power of two. The
computation guesses in floats and settles in integers:

1. Compiled Bellman–Ford in floats proposes, for every node, the node before it.
2. Exact weights are summed along the proposed tree.
3. Exact Bellman–Ford passes run until no edge improves a label. In each pass a float filter with
   a proven bound discards the edges that certainly do not, so that integers meet few edges.

A cycle among the nodes before each other is a positive cycle, because the edge that closed it
improved a label strictly; and $n + 1$ exact passes without one settle every label. So the answer
is right whatever the guess was; the guess only makes it fast.

`kleene` and `graphs` stand on top of this, `relax` of the compiled core below.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax._ground.arguments import prepare_array
from hardmax.exact.dyadic import nearest_float
from hardmax.exact.rounding import FEW_UNDERFLOWS, UNIT_ROUNDOFF
from hardmax.typing import BoolArray, FloatArray, IntArray

_CHUNK = 2**20
"""Edges filtered at a time: some 8 MiB for each temporary."""


class ExactWeights:
    r"""Edge weights $a_{ij} - \lambda$ with float64 $a$ and rational $\lambda$, as integers.

    Attributes:
        rounded: The weights in float64, shape `(n, n)`; -inf where there is no edge.
        radius: At least $|\text{rounded} - \text{exact}|$ for every edge.
        unit: What one integer step is worth.
    """

    def __init__(self, matrix: FloatArray, shift: Fraction = Fraction(0)) -> None:
        edges = np.isfinite(matrix)
        self._matrix = matrix
        # Every finite float is an integer times 2**-1074; most matrices need far fewer bits.
        exponents = np.frexp(matrix[edges & (matrix != 0.0)])[1]
        bits = max(0, 53 - int(exponents.min())) if exponents.size else 0
        self._scale = 1 << min(bits, 1074)
        self._factor = shift.denominator
        self._offset = shift.numerator * self._scale
        self.unit = Fraction(1, self._scale * self._factor)
        if not shift:
            self.rounded, self.radius = np.array(matrix), 0.0
            return
        step = float(shift)
        with np.errstate(over="ignore"):
            self.rounded = np.where(edges, matrix - step, -np.inf)
        largest = float(np.abs(matrix[edges]).max(initial=0.0))
        self.radius = 8 * UNIT_ROUNDOFF * (largest + abs(step)) + FEW_UNDERFLOWS

    def edge(self, i: int, j: int) -> int:
        """The exact weight of the edge `i -> j`, in units."""
        numerator, denominator = float(self._matrix[i, j]).as_integer_ratio()
        return numerator * (self._scale // denominator) * self._factor - self._offset

    def total(self, cycle: tuple[int, ...]) -> int:
        """The exact weight of a closed walk, in units."""
        return sum(self.edge(i, j) for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@dataclass(frozen=True, eq=False)
class HeaviestWalks:
    """What `heaviest_walks` found: labels and a forest, or a positive cycle.

    Attributes:
        labels: For each node the exact weight of the heaviest walk to it, in units; None where
            no walk arrives. Not final if there is a cycle.
        parents: For each node the one before it on that walk, -1 at a start; shape `(n,)`.
        cycle: The nodes of a cycle of positive weight in the order of its edges, from its
            smallest node; None if no start reaches one.
    """

    labels: list[int | None]
    parents: IntArray
    cycle: tuple[int, ...] | None


def heaviest_walks(weights: ExactWeights, starts: BoolArray) -> HeaviestWalks:
    """Settle the heaviest walk from the `starts` to every node.

    Args:
        weights: The edges.
        starts: Where a walk may begin, with weight 0; shape `(n,)`.

    Examples:
        >>> weights = ExactWeights(np.array([[-np.inf, 0.5], [-np.inf, -np.inf]]))
        >>> walks = heaviest_walks(weights, np.array([True, False]))
        >>> walks.labels, walks.parents.tolist(), walks.cycle
        ([0, 4503599627370496], [-1, 0], None)
    """
    guess = _guess(weights, starts)
    cycle = _positive_cycle(weights, guess)
    if cycle is not None:
        return HeaviestWalks([None] * len(starts), guess, cycle)
    labels, parents = _sum_along(weights, guess, starts)
    while _improve(weights, labels, parents):
        cycle = _positive_cycle(weights, parents)
        if cycle is not None:
            break
    return HeaviestWalks(labels, parents, cycle)


def _guess(weights: ExactWeights, starts: BoolArray) -> IntArray:
    """Propose parents by Bellman–Ford in floats, stopping early at a positive cycle."""
    n = len(starts)
    edges = prepare_array(weights.rounded)
    labels = np.where(starts, 0.0, -np.inf)
    parents = np.full(n, -1, dtype=np.int64)
    done, sweeps = 0, 4
    while done <= n:
        arrays = address(edges), address(labels), address(parents)
        if core().hm_max_plus_relax(n, *arrays, sweeps):
            break
        if _positive_cycle(weights, parents) is not None:
            break
        done, sweeps = done + sweeps, 2 * sweeps
    return parents


def _positive_cycle(weights: ExactWeights, parents: IntArray) -> tuple[int, ...] | None:
    """Return a cycle of the parent graph whose exact weight is positive, if there is one."""
    for cycle in _cycles(parents.tolist()):
        if weights.total(cycle) > 0:
            return cycle
    return None


def _cycles(parents: list[int]) -> list[tuple[int, ...]]:
    """All cycles of the parent graph, each in the order of its edges from its smallest node."""
    found = []
    seen_by = [-1] * len(parents)
    for root in range(len(parents)):
        node, trail = root, []
        while node >= 0 and seen_by[node] < 0:
            seen_by[node] = root
            trail.append(node)
            node = parents[node]
        if node >= 0 and seen_by[node] == root:
            cycle = trail[trail.index(node) :][::-1]
            first = cycle.index(min(cycle))
            found.append(tuple(cycle[first:] + cycle[:first]))
    return found


def _sum_along(
    weights: ExactWeights, guess: IntArray, starts: BoolArray
) -> tuple[list[int | None], IntArray]:
    """Sum exact weights from the roots of the guessed forest outwards.

    Nodes behind a cycle of the guess (of weight at most zero: rounding made it look positive)
    and nodes whose start is better than their walk go back to their start.
    """
    n = len(starts)
    labels: list[int | None] = [0 if start else None for start in starts]
    parents = np.full(n, -1, dtype=np.int64)
    children: list[list[int]] = [[] for _ in range(n)]
    for node, parent in enumerate(guess.tolist()):
        if parent >= 0:
            children[parent].append(node)
    pending = [node for node in range(n) if guess[node] < 0]
    while pending:
        parent = pending.pop()
        base = labels[parent]
        for node in children[parent]:
            assert base is not None  # A parent was reached before its children.
            weight, start = base + weights.edge(parent, node), labels[node]
            if start is None or weight > start:
                labels[node], parents[node] = weight, parent
            pending.append(node)
    return labels, parents


def _improve(weights: ExactWeights, labels: list[int | None], parents: IntArray) -> bool:
    """Make one exact pass over all edges; return whether a label changed."""
    changed = False
    for i, j in _suspects(weights, labels):
        base, old = labels[i], labels[j]
        assert base is not None  # `_suspects` starts at reached nodes only, and none is lost.
        weight = base + weights.edge(i, j)
        if old is None or weight > old:
            labels[j], parents[j] = weight, i
            changed = True
    return changed


def _suspects(weights: ExactWeights, labels: list[int | None]) -> list[tuple[int, int]]:
    r"""List the edges that floats cannot prove to satisfy $x_i + w_{ij} \le x_j$.

    The rounded labels are within $u|x|$ of the exact ones (plus an underflow term), the rounded
    weights within `radius`, and the two additions below add $3u(|x_i| + |w_{ij}| + |x_j|)$ at
    most; the bound used is twice the sum. Where labels and weights are floats exactly, the
    rounding error of the addition is itself a float and decides a tie; that settles data such as
    integers, which is full of them. Infinities and NaN prove nothing and stay suspects.
    """
    exact = [None if label is None else label * weights.unit for label in labels]
    x = np.array([-np.inf if value is None else nearest_float(value) for value in exact])
    is_float = np.array(
        [
            weights.radius == 0.0 and value is not None and np.isfinite(f) and Fraction(f) == value
            for value, f in zip(exact, x.tolist(), strict=True)
        ],
        dtype=bool,
    )
    reached = np.flatnonzero([value is not None for value in exact])
    n = len(labels)
    pairs: list[tuple[int, int]] = []
    step = max(1, _CHUNK // max(n, 1))
    for start in range(0, len(reached), step):
        rows = reached[start : start + step]
        w, xi = weights.rounded[rows], x[rows, None]
        with np.errstate(all="ignore"):
            total = xi + w
            slack = 8 * UNIT_ROUNDOFF * (np.abs(xi) + np.abs(w) + np.abs(x))
            proved = total - x < -(slack + 2 * weights.radius + 2.0**-1060)
            # The rounding error of xi + w, exactly (Knuth's two-sum).
            part = total - xi
            error = (xi - (total - part)) + (w - part)
            tie_proved = (total < x) | ((total == x) & (error <= 0.0))
        proved |= is_float[rows, None] & is_float & tie_proved
        found = np.argwhere((w > -np.inf) & ~proved)
        pairs += [(int(rows[i]), int(j)) for i, j in found]
    return pairs
