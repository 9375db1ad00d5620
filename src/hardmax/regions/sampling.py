r"""The number of cells that random points hit: a lower bound, with an estimate of what it misses.

Points are drawn in blocks, each from its own counter of a counter-based generator. The result
therefore depends on the seed alone, not on the number of points processed at once. A point counts
for its signature in exact arithmetic; points on a wall or on the boundary of the domain are
dropped. Every counted signature therefore belongs to a cell, and `distinct` never exceeds
`n_cells`.

There is no distribution-free upper bound on the number of cells: a million cells can hide in a set
of arbitrarily small measure. Samples only bound the measure of the cells that they have not hit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import log, sqrt

import numpy as np

from hardmax._core.library import core
from hardmax._ground.arguments import Sizes, integer, number
from hardmax._ground.display import format_card, public_fields
from hardmax._ground.workers import map_in_order, n_workers
from hardmax.errors import ArgumentError, DtypeError
from hardmax.models.model_arguments import read_model, read_network
from hardmax.regions._location.points import PointNamer, between
from hardmax.regions.charted_domains import (
    ChartedDomain,
    charted,
    enclosing_box,
    refuse_outside,
    strictly_inside,
)
from hardmax.typing import AnyArray, DomainLike, FloatArray, IntArray, ModelLike

Law = Callable[[np.random.Generator, int], FloatArray]
"""Draws a given number of points in the domain's coordinates, shape `(n, dim)`."""

_BLOCK = 4096
_PATIENCE = 1000
_ENTRIES_AT_ONCE = 1 << 24
"""Maximum number of coordinates in memory, for spaces of high dimension."""


@dataclass(frozen=True, eq=False, repr=False)
class SampledCount:
    r"""A lower bound on the number of cells from $n$ independent random points.

    Attributes:
        distinct: The number of cells hit by at least one point, a lower bound on the number of
            cells.
        n_samples: The number $n$ of points in the interior of a cell.
        n_dropped: The number of points on a wall, on the boundary of the domain, or outside it.
        n_once: The number $f_1$ of cells hit by exactly one point.
        n_twice: The number $f_2$ of cells hit by exactly two points.
        confidence: The confidence level of `interval`.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 1.0]], [[1.0], [1.0]]])
        >>> found = sample_regions(net, Box([-1, -1], [1, 1]), 1000, seed=0)
        >>> found.distinct, found.n_samples, found.n_once
        (4, 1000, 0)
    """

    distinct: int
    n_samples: int
    n_dropped: int
    n_once: int
    n_twice: int
    confidence: float

    def __repr__(self) -> str:
        return f"SampledCount(at least {self.distinct} cells, from {self.n_samples} points)"

    def _repr_html_(self) -> str:
        low, high = self.interval
        rows = {
            **public_fields(self),
            "lower_estimate": f"{self.lower_estimate:.5g}",
            "unseen_mass": f"{self.unseen_mass:.3g}, between {low:.3g} and {high:.3g}",
        }
        return format_card(repr(self), rows)

    @property
    def lower_estimate(self) -> float:
        r"""Chao's estimate $D + \frac{n-1}{n} \frac{f_1 (f_1 - 1)}{2 (f_2 + 1)}$ of a lower bound.

        Here $D$ is `distinct`. The expectation of the estimate is approximately at most the number
        of cells. It is not an upper bound, and the usual confidence intervals around it do not
        account for cells of small measure [Cha84].
        """
        if not self.n_samples:
            return 0.0
        hidden = self.n_once * (self.n_once - 1) / (2 * (self.n_twice + 1))
        return self.distinct + (self.n_samples - 1) / self.n_samples * hidden

    @property
    def unseen_mass(self) -> float:
        r"""The Good-Turing estimate $f_1 / n$ of the total measure of the cells not hit."""
        return self.n_once / self.n_samples if self.n_samples else 1.0

    @property
    def interval(self) -> tuple[float, float]:
        r"""A confidence interval for the total measure $M$ of the cells that were not hit.

        The interval contains $M$ with probability at least `confidence`. With $G = f_1 / n$ and
        $\delta = 1 -$ `confidence`, it is $[G - 1/n - a - b,\; G + a + b]$, intersected with
        $[0, 1]$, where $a = \sqrt{2 \ln(4/\delta) / n}$ and $b = \sqrt{\ln(4/\delta) / n}$.

        *Proof.* Moving one point changes $f_1$ by at most 2. By McDiarmid's inequality,
        $|G - \mathbb{E} G| < a$ except with probability $2 e^{-n a^2 / 2} = \delta/2$. Let $p_i$ be
        the measures of the cells and $q_i = (1 - p_i)^n$. The indicators of the cells that were not
        hit are negatively associated, so $\mathbb{E} e^{\lambda (M - \mathbb{E} M)}$ is at most the
        product for independent indicators. By Kearns and Saul, this product is at most
        $\exp(\lambda^2 \sum p_i^2 \phi(q_i) / 4)$ with $\phi(q) = (1 - 2q) / \ln((1-q)/q)
        \le 1 / \ln(1/q)$. Because $\ln(1/q_i) \ge n p_i$, it is at most $e^{\lambda^2 / (4n)}$.
        Hence $|M - \mathbb{E} M| < b$ except with probability $2 e^{-n b^2} = \delta/2$. Finally,
        $0 \le \mathbb{E} G - \mathbb{E} M = \sum p_i^2 (1 - p_i)^{n-1} \le 1/n$. $\square$

        References:
            [Goo53], [MS00], [MO03], [KS98].
        """
        if not self.n_samples:
            return 0.0, 1.0
        term = log(4.0 / (1.0 - self.confidence)) / self.n_samples
        spread = sqrt(2.0 * term) + sqrt(term)
        low = self.unseen_mass - 1.0 / self.n_samples - spread
        return max(low, 0.0), min(self.unseen_mass + spread, 1.0)


def sample_regions(
    model: ModelLike,
    domain: DomainLike,
    n_samples: int,
    seed: int,
    *,
    law: Law | None = None,
    confidence: float = 0.95,
    n_at_once: int = 1 << 16,
    workers: int | None = None,
) -> SampledCount:
    """Count the cells that random points of a domain hit.

    The number of cells found is a lower bound on the number of all cells. The function stores a
    hash and a count for each cell found, and the points of one chunk per thread.

    Args:
        model: The model, as for `enumerate_regions`.
        domain: A domain in the input space, or its text.
        n_samples: The number of points to draw.
        seed: A nonnegative integer. The same arguments with the same seed give the same result.
        law: A function that draws points: `law(generator, n)` returns coordinates in the domain,
            shape `(n, dim)`. Points outside the domain are dropped. By default, points are uniform
            in the domain, which must then be bounded.
        confidence: The confidence level of `interval`, between 0 and 1.
        n_at_once: The number of points that a thread processes at a time (fewer in high
            dimensions). It affects memory and speed, but not the result.
        workers: The number of threads that compute signatures (see `set_workers`). The result does
            not depend on it. `law` is called only in the caller's thread.

    Returns:
        The number of cells found, with estimates of the measure of the other cells.

    Raises:
        ArgumentError: If the domain is unbounded and `law` is None, or a number is out of range.
        DtypeError: If `law` is not callable, or `model` or `domain` has an unsupported type.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 1.0]], [[1.0], [1.0]]])
        >>> sample_regions(net, Box([-1, -1], [1, 1]), 1000, seed=0)
        SampledCount(at least 4 cells, from 1000 points)
    """
    model = read_model(model)
    network = read_network(model)
    where = charted(domain, network.dim_in)
    refuse_outside(model, where)
    total = integer("n_samples", n_samples, at_least=0)
    key = integer("seed", seed, at_least=0)
    level = number("confidence", confidence, above=0.0)
    if level >= 1.0:
        raise ArgumentError(f"`confidence` must be below 1; got {level}.")
    at_once = min(integer("n_at_once", n_at_once, at_least=1), _ENTRIES_AT_ONCE // where.dim)
    step = max(1, at_once // _BLOCK) * _BLOCK
    if law is not None and not callable(law):
        raise DtypeError(
            f"`law` must be a function called as law(generator, n); got {type(law).__name__}."
        )
    fill = _uniform(where) if law is None else _by_law(law)
    box = np.stack(where.corners) if law is None and where.corners is not None else None
    n_threads = n_workers(workers)
    tally = _Tally(PointNamer(network, where), box)
    chunks = _chunks(fill, where.dim, total, key, step)
    if law is not None:
        chunks = (partial(_given, points()) for points in chunks)
    counts: dict[int, int] = {}
    n_inside = 0
    core()  # Load the core here, so that several threads do not load it at once.
    for distinct, times in map_in_order(tally, chunks, n_threads):
        n_inside += int(times.sum())
        for name, count in zip(distinct.tolist(), times.tolist(), strict=True):
            counts[name] = counts.get(name, 0) + count
    how_often = list(counts.values())
    once, twice = how_often.count(1), how_often.count(2)
    return SampledCount(len(counts), n_inside, total - n_inside, once, twice, level)


Chunk = Callable[[], FloatArray]
"""Draws the points of a chunk."""


@dataclass(frozen=True, eq=False)
class _Tally:
    """Counts how often each signature occurs among the points of a chunk, by hashes.

    Attributes:
        namer: Computes the hash of the signature of each point.
        box: The corners of the box if points are drawn as fractions of its sides, otherwise None.
    """

    namer: PointNamer
    box: FloatArray | None

    def __call__(self, chunk: Chunk) -> tuple[AnyArray, IntArray]:
        return self.namer.tally(chunk(), self.box)


Fill = Callable[[np.random.Generator, FloatArray], None]
"""Draws points, or fractions of the sides of a box, into rows of shape `(n, dim)`."""


def _chunks(fill: Fill, dim: int, total: int, seed: int, step: int) -> Iterator[Chunk]:
    """Divide all points into chunks of whole blocks; block `b` depends only on the seed and `b`."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)

    def points(start: int) -> FloatArray:
        end = min(start + step, total)
        drawn = np.empty((end - start, dim))
        for first in range(start, end, _BLOCK):
            counter = first // _BLOCK << 64
            generator = np.random.Generator(np.random.Philox(key=key, counter=counter))
            fill(generator, drawn[first - start : first - start + _BLOCK])
        return drawn

    return (partial(points, start) for start in range(0, total, step))


def _given(points: FloatArray) -> FloatArray:
    return points


def _by_law(law: Law) -> Fill:
    """Draw a whole block from a law each time, because its points may depend on their number."""

    def fill(generator: np.random.Generator, rows: FloatArray) -> None:
        drawn, dim = np.asarray(law(generator, _BLOCK)), rows.shape[1]
        rows[...] = Sizes(n=_BLOCK, dim=dim).floats("law", drawn, ("n", "dim"))[: len(rows)]

    return fill


def _uniform(domain: ChartedDomain) -> Fill:
    """Return the uniform law on a bounded domain, by rejection from the box around it.

    For a box given by its corners, the law draws fractions of the sides.
    """
    box = enclosing_box(domain)
    if box is None:
        raise ArgumentError(
            "`law` is required for an unbounded domain, which has no uniform distribution. Pass "
            "a function law(generator, n) that draws points."
        )
    low, high, fills = box
    if fills:
        # Each point consumes the next random numbers, so the first points do not depend on `n`.
        def fill(generator: np.random.Generator, rows: FloatArray) -> None:
            generator.random(out=rows)
            if domain.corners is None:
                rows[...] = between(rows, low, high)

        return fill

    def draw(generator: np.random.Generator, n: int) -> FloatArray:
        found: list[FloatArray] = []
        n_found = 0
        for _ in range(_PATIENCE):
            if n_found >= n:
                return np.concatenate(found)[:n]
            points = between(generator.random((n, domain.dim)), low, high)
            kept = points[strictly_inside(domain, points)]
            found.append(kept)
            n_found += len(kept)
        raise ArgumentError(
            "`law` is required for this domain, because it fills too little of the box around it: "
            f"{n_found} of {_PATIENCE * n} uniform points were inside."
        )

    return _by_law(draw)
