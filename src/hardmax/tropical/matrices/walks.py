r"""The heaviest walks in a weighted graph, or a positive cycle if there are none, exactly.

The weight of a walk is the exact sum of its float64 edges, an integer times a power of two. The
computation guesses in floats and decides in integers:

1. Compiled Bellman–Ford in floats proposes a predecessor for every node.
2. Exact weights are summed along the proposed tree.
3. Exact Bellman–Ford passes run until no edge improves a label. In each pass, a float filter with a
   proven bound discards edges that certainly do not improve one, so that few edges need integers.

A cycle of predecessors is a positive cycle, because the edge that closed it strictly improved a
label. Without such a cycle, $n + 1$ exact passes settle every label. Hence the result is correct
for any guess; a good guess only makes it faster.
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
"""Number of edges filtered at once, which needs about 8 MiB per temporary array."""


class ExactWeights:
    r"""Edge weights $a_{ij} - \lambda$ with float64 $a$ and rational $\lambda$, as integers.

    Attributes:
        rounded: The weights in float64, shape `(n, n)`; -inf where there is no edge.
        radius: At least $|\text{rounded} - \text{exact}|$ for every edge.
        unit: The weight of one integer unit.
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
        """Return the exact weight of the edge `i -> j`, in units."""
        numerator, denominator = float(self._matrix[i, j]).as_integer_ratio()
        return numerator * (self._scale // denominator) * self._factor - self._offset

    def total(self, cycle: tuple[int, ...]) -> int:
        """Return the exact weight of a closed walk, in units."""
        return sum(self.edge(i, j) for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@dataclass(frozen=True, eq=False)
class HeaviestWalks:
    """The result of `heaviest_walks`: labels and a forest, or a positive cycle.

    Attributes:
        labels: For each node, the exact weight of the heaviest walk to it, in units, or None if no
            walk reaches it. The labels are not final if there is a cycle.
        parents: For each node, its predecessor on that walk, or -1 at a start, shape `(n,)`.
        cycle: The nodes of a cycle of positive weight, in the order of the edges and starting at
            the smallest node. None if no start reaches such a cycle.
    """

    labels: list[int | None]
    parents: IntArray
    cycle: tuple[int, ...] | None


def heaviest_walks(weights: ExactWeights, starts: BoolArray) -> HeaviestWalks:
    """Find the heaviest walk from the `starts` to every node.

    Args:
        weights: The weights of the edges.
        starts: Whether a walk may begin at a node (with weight 0), shape `(n,)`.

    Examples:
        >>> weights = ExactWeights(np.array([[-np.inf, 0.5], [-np.inf, -np.inf]]))
        >>> walks = heaviest_walks(weights, np.array([True, False]))
        >>> walks.labels, walks.parents.tolist(), walks.cycle
        ([0, 4503599627370496], [-1, 0], None)
    """
    guess = _guess_parents(weights, starts)
    cycle = _find_positive_cycle(weights, guess)
    if cycle is not None:
        return HeaviestWalks([None] * len(starts), guess, cycle)
    labels, parents = _sum_along(weights, guess, starts)
    while _improve_labels(weights, labels, parents):
        cycle = _find_positive_cycle(weights, parents)
        if cycle is not None:
            break
    return HeaviestWalks(labels, parents, cycle)


def _guess_parents(weights: ExactWeights, starts: BoolArray) -> IntArray:
    """Propose parents by Bellman–Ford in floats; stop early at a positive cycle."""
    n = len(starts)
    edges = prepare_array(weights.rounded)
    labels = np.where(starts, 0.0, -np.inf)
    parents = np.full(n, -1, dtype=np.int64)
    done, sweeps = 0, 4
    while done <= n:
        arrays = address(edges), address(labels), address(parents)
        if core().hm_max_plus_relax(n, *arrays, sweeps):
            break
        if _find_positive_cycle(weights, parents) is not None:
            break
        done, sweeps = done + sweeps, 2 * sweeps
    return parents


def _find_positive_cycle(weights: ExactWeights, parents: IntArray) -> tuple[int, ...] | None:
    """Return a cycle of the parent graph whose exact weight is positive, if there is one."""
    for cycle in _list_cycles(parents.tolist()):
        if weights.total(cycle) > 0:
            return cycle
    return None


def _list_cycles(parents: list[int]) -> list[tuple[int, ...]]:
    """Return all cycles of the parent graph, in the order of edges from their smallest nodes."""
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

    Two kinds of nodes revert to their start: nodes behind a cycle of the guess (which has weight at
    most zero, but looked positive due to rounding), and nodes whose start is better than their
    walk.
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


def _improve_labels(weights: ExactWeights, labels: list[int | None], parents: IntArray) -> bool:
    """Make one exact pass over all edges; return whether a label changed."""
    changed = False
    for i, j in _list_suspects(weights, labels):
        base, old = labels[i], labels[j]
        assert (
            base is not None
        )  # `_list_suspects` lists edges from reached nodes, which stay reached.
        weight = base + weights.edge(i, j)
        if old is None or weight > old:
            labels[j], parents[j] = weight, i
            changed = True
    return changed


def _list_suspects(weights: ExactWeights, labels: list[int | None]) -> list[tuple[int, int]]:
    r"""List the edges that floats cannot prove to satisfy $x_i + w_{ij} \le x_j$.

    The rounded labels are within $u|x|$ of the exact labels (plus an underflow term), the rounded
    weights are within `radius` of the exact weights, and the two additions below add at most
    $3u(|x_i| + |w_{ij}| + |x_j|)$. The bound used is twice the sum of these errors. If labels and
    weights are exactly floats, the rounding error of the addition is itself a float and decides
    ties, which are frequent in data such as integers. Infinities and NaN prove nothing, so their
    edges are listed.
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
