r"""The gaps of the winners on a cell as exact affine forms.

On the cell of a signature, every gap $g_{h,j} = s_{h,w} - s_{h,j}$ of a head's winner over a rival
is an affine function of the coordinates. Hence the points of the cell where every head leads by at
least $\delta_h$ form a polyhedron, and the largest level that some point of the cell reaches is the
solution of a linear program.
"""

from collections.abc import Callable, Container, Sequence
from fractions import Fraction
from typing import NamedTuple

from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.linear_programs import Height, largest_height
from hardmax.models._arithmetic.recomposition import iter_exact_layers
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import IntArray


class ScoreGap(NamedTuple):
    r"""One gap $u(\langle a, t\rangle + c)$.

    Attributes:
        head: The index of the head.
        row: The integers $(a, c)$.
        unit: The factor $u > 0$.
    """

    head: int
    row: Vector
    unit: Fraction

    def height_row(self, weight: Fraction) -> Vector:
        """Return the constraint that the gap is at least `weight` times the height, as a row."""
        scaled = weight / self.unit
        *a, c = (scaled.denominator * x for x in self.row)
        return (*a, scaled.numerator, c)

    def row_at(self, level: Fraction) -> Vector:
        r"""Return the row $(a, b)$, $\langle a, t\rangle \le b$, of a gap of at least `level`."""
        *a, k, c = self.height_row(level)
        return (*(-x for x in a), c - k)

    def at(self, point: Sequence[Fraction]) -> Fraction:
        """Return the gap at a rational point."""
        return self.unit * sum(
            (a * t for a, t in zip(self.row, point, strict=False)), Fraction(self.row[-1])
        )


class CellGaps(NamedTuple):
    """The gaps on one cell.

    Attributes:
        dim: The dimension of the coordinates.
        walls: Integer forms $(a, c)$ of the domain and of the units, nonnegative on the cell.
        gaps: The gaps of all heads, one for each rival that is not a copy of the winner.
        n_winners: For each head, the number of keys that coincide with the winner, including it.
        n_rivals: For each head, the number of keys that do not coincide with the winner.
    """

    dim: int
    walls: list[Vector]
    gaps: list[ScoreGap]
    n_winners: list[int]
    n_rivals: list[int]

    def largest_level(self, weights: Callable[[int], Fraction]) -> Height:
        r"""Find the largest $y$ such that some point of the closed cell has $g_h \ge w_h y$.

        Args:
            weights: A function that returns the weight $w_h \ge 0$ of a head.
        """
        return largest_height(self._level_rows(self.gaps, weights), self.dim)

    def mean_gaps(self) -> list[ScoreGap]:
        """Return the mean gap of every head over its rivals."""
        found = []
        for head, n in enumerate(self.n_rivals):
            own = [gap for gap in self.gaps if gap.head == head]
            if own:
                # All gaps of a head have the same unit.
                total = tuple(map(sum, zip(*(gap.row for gap in own), strict=True)))
                found.append(ScoreGap(head, total, own[0].unit / n))
        return found

    def of_heads(self, heads: Container[int]) -> "CellGaps":
        """Return the cell with the gaps of the given heads only; other gaps become walls."""
        kept = [gap for gap in self.gaps if gap.head in heads]
        others = [gap.row for gap in self.gaps if gap.head not in heads]
        return self._replace(gaps=kept, walls=[*self.walls, *others])

    def wall_rows(self) -> list[Vector]:
        """Return the walls as constraint rows in which the height has coefficient 0."""
        return [(*wall[:-1], 0, wall[-1]) for wall in self.walls]

    def rows_at(self, levels: Callable[[int], Fraction], gaps: Sequence[ScoreGap]) -> list[Vector]:
        r"""Return rows $(a, b)$, $\langle a, t\rangle \le b$, of the part where $g_h \ge \delta_h$.

        The right sides $\delta_h$ are the `levels` of the heads.
        """
        rows: list[Vector] = [(*(-x for x in wall[:-1]), wall[-1]) for wall in self.walls]
        return rows + [gap.row_at(levels(gap.head)) for gap in gaps]

    def _level_rows(
        self, gaps: Sequence[ScoreGap], weights: Callable[[int], Fraction]
    ) -> list[Vector]:
        return self.wall_rows() + [gap.height_row(weights(gap.head)) for gap in gaps]


def cell_gaps(
    network: ArgmaxNetwork, domain: ChartedDomain, signature: Sequence[int] | IntArray
) -> CellGaps:
    """Compose the exact gaps of all heads on the cell of a signature."""
    walls: list[Vector] = list(domain.cone_rows[:-1])
    gaps: list[ScoreGap] = []
    n_winners: list[int] = []
    n_rivals: list[int] = []
    for layer, scores, winners in iter_exact_layers(network, domain.coordinates, signature):
        unit = Fraction(2) ** scores.exponent / scores.denominator
        for group, winner in enumerate(winners):
            start, end = int(layer.starts[group]), int(layer.starts[group + 1])
            best = scores.rows[start + winner]
            below = [
                tuple(int(b - r) for b, r in zip(best, rival, strict=True))
                for rival in scores.rows[start:end]
                if rival != best
            ]
            if layer.is_table[group]:
                gaps += [ScoreGap(len(n_winners), row, unit) for row in below]
                n_winners.append(end - start - len(below))
                n_rivals.append(len(below))
            else:
                walls += [row for row in below if any(row[:-1])]
    return CellGaps(domain.dim, walls, gaps, n_winners, n_rivals)
