r"""Shares of a domain estimated by sampling, with exact confidence intervals.

The methods work in any dimension and at any depth. Each sample is decided by floats with proven
radii if these are sufficient, and otherwise by the exact margins or the enclosed soft network.
Hence the count is correct for the sampled points, and only the sampling error remains. The
Clopper-Pearson interval covers this error at every sample size.

References:
    [CP34].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.enclosures import Enclosed, add_enclosures, scale_enclosure
from hardmax.models._arithmetic.form_scores import enclosed_scores
from hardmax.models._arithmetic.layers import ENCLOSED, decide
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.models.model_arguments import read_model, read_network
from hardmax.regions.charted_domains import (
    ChartedDomain,
    EnclosingBox,
    charted,
    charted_network,
    enclosing_box,
)
from hardmax.stability.cells.bands import read_levels
from hardmax.stability.margins import measure_margins
from hardmax.stability.models import head_names, read_soft_model
from hardmax.stability.networks.soft_certificates import certify_soft, layer_temperatures
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import BoolArray, DomainLike, FloatArray, ModelLike


class EnclosedGaps(NamedTuple):
    """Lower and upper bounds on gaps.

    Attributes:
        low: Lower bounds on the gaps, shape `(n_points, n_heads)`; `inf` for heads with one key.
        high: Upper bounds on the gaps, shape `(n_points, n_heads)`.
        is_known: False for points where floats could not decide a winner; the bounds are then
            meaningless. Shape `(n_points,)`.
    """

    low: FloatArray
    high: FloatArray
    is_known: BoolArray


def enclosed_gaps(network: ArgmaxNetwork, points: FloatArray) -> EnclosedGaps:
    """Enclose the gaps of all heads; points near a wall are marked as unknown."""
    is_known = np.ones(len(points), dtype=bool)
    gaps: list[tuple[FloatArray, FloatArray]] = []

    def contribute(place: Place, query: Enclosed) -> Enclosed:
        layer, scores = place.layer, enclosed_scores(place.layer, query)
        shape = len(points), layer.output.dim_in
        blocks = Enclosed(np.zeros(shape), np.zeros(shape))
        for group, slot in enumerate(layer.slots.tolist()):
            part, low, high = _enclose_group(layer, scores, group)
            np.logical_and(is_known, low > 0.0, out=is_known)
            where = np.s_[:, slot : slot + part.values.shape[1]]
            total = add_enclosures(Enclosed(blocks.values[where], blocks.radii[where]), part)
            blocks.values[where], blocks.radii[where] = total
            if layer.is_table[group]:
                gaps.append((low, high))
        return blocks

    decide(network, Enclosed.exactly(points), ENCLOSED, contribute)
    ends = np.array(gaps).reshape(len(gaps), 2, len(points))
    return EnclosedGaps(ends[:, 0].T, ends[:, 1].T, is_known)


def _enclose_group(
    layer: ArgmaxLayer, scores: Enclosed, group: int
) -> tuple[Enclosed, FloatArray, FloatArray]:
    """Return the contribution of a group, and lower and upper bounds on its winner's gap."""
    forms = slice(int(layer.starts[group]), int(layer.starts[group + 1]))
    values, radii = scores.values[:, forms], scores.radii[:, forms]
    each = np.arange(len(values))
    best = values.argmax(axis=1)
    top, spread = values[each, best], radii[each, best]
    low = high = np.full(len(values), np.inf)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if values.shape[1] > 1:
            others = np.where(np.arange(values.shape[1]) == best[:, None], -np.inf, values)
            # The radii of `enclosures` include a reserve for one more rounding of such sums.
            low = (top - spread) - (others + radii).max(axis=1)
            high = (top + spread) - (others - radii).max(axis=1)
            slack = 2.0**-50 * (np.abs(top) + np.abs(others[np.isfinite(others)]).max(initial=0.0))
            low, high = low - slack, high + slack
        low = np.where(np.isfinite(radii).all(axis=1), low, -np.inf)
        chosen = layer.values[forms][best]
        part = Enclosed(chosen.copy(), np.zeros_like(chosen))
        gains = layer.gains[forms][best]
        if gains.any():
            passed = scale_enclosure(gains, Enclosed(top, spread))
            first = add_enclosures(passed, Enclosed.exactly(chosen[:, 0]))
            part.values[:, 0], part.radii[:, 0] = first
    return part, low, high


_BATCH_SIZE = 4096
_MAX_ATTEMPTS = 1000


@dataclass(frozen=True)
class SampledShare:
    """The share of random points that have a property.

    Attributes:
        n_hits: The number of sampled points that have the property.
        n_samples: The number of sampled points.
        confidence: A lower bound on the probability that the interval contains the true share.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = sample_margin_share(sign, Box([-1], [3]), 1.0, 200)
        >>> found.n_samples, found.interval[0] < 0.75 < found.interval[1]
        (200, True)
    """

    n_hits: int
    n_samples: int
    confidence: float

    _repr_html_ = html_card

    @property
    def share(self) -> float:
        """The share of the sampled points that have the property."""
        return self.n_hits / self.n_samples

    @property
    def interval(self) -> tuple[float, float]:
        """The Clopper-Pearson confidence interval for the share of the domain.

        Examples:
            >>> SampledShare(0, 100, 0.95).interval[0]
            0.0
            >>> round(SampledShare(0, 100, 0.95).interval[1], 6) == round(1 - 0.025 ** 0.01, 6)
            True
        """
        from scipy.stats import beta

        tail = (1.0 - self.confidence) / 2.0
        hits, misses = self.n_hits, self.n_samples - self.n_hits
        low = float(beta.ppf(tail, hits, misses + 1)) if hits else 0.0
        high = float(beta.isf(tail, hits + 1, misses)) if misses else 1.0
        return low, high

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"SampledShare({self.share:.6g}, between {low:.6g} and {high:.6g} with confidence "
            f"{self.confidence:g}, {self.n_samples} samples)"
        )


def sample_margin_share(
    model: ModelLike,
    domain: DomainLike,
    delta: float | Sequence[float],
    n_samples: int,
    seed: int = 0,
    *,
    confidence: float = 0.95,
) -> SampledShare:
    r"""Estimate the share of a domain where every head of the hard model has margin $\delta$.

    Args:
        model: A model, as for `enumerate_regions`.
        domain: A bounded domain, as for `enumerate_regions`. Points are sampled uniformly from it.
        delta: The margin $\delta \ge 0$: one number, or one number per head.
        n_samples: The number of points to sample, at least 1.
        seed: The seed of the random generator, at least 0.
        confidence: The confidence level of the interval, between 0 and 1.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> low, high = sample_margin_share(sign, Box([-1], [3]), 1.0, 1000).interval
        >>> low < 0.75 < high
        True
    """
    network = read_network(model)
    where = charted(domain, network.dim_in)
    levels = read_levels(delta, len(head_names(network)))
    charted_one, _ = charted_network(network, where)

    def decide(points: FloatArray) -> BoolArray:
        gaps = enclosed_gaps(charted_one, points)
        hit = (gaps.low >= levels).all(axis=1) & gaps.is_known
        open_ = np.flatnonzero(~hit & ~((gaps.high < levels).any(axis=1) & gaps.is_known))
        if len(open_):
            # Scores are rounded down, but levels are float64, so the comparison is exact.
            hit[open_] = (measure_margins(charted_one, points[open_]).scores >= levels).all(axis=1)
        return np.asarray(hit)

    return _sample_share(where, decide, n_samples, seed, confidence)


def sample_hard_share(
    model: ModelLike,
    domain: DomainLike,
    tau: float | Sequence[float],
    epsilon: float,
    n_samples: int,
    seed: int = 0,
    *,
    confidence: float = 0.95,
) -> SampledShare:
    r"""Estimate the share of a domain where every soft head is $\varepsilon$-hard.

    A soft head is $\varepsilon$-hard at a point if it gives weight at least $1-\varepsilon$ to the
    winner of the hard network there. The model may be deep: later heads read the soft stream.

    Args:
        model: A model, as for `enumerate_regions`.
        domain: A bounded domain, as for `enumerate_regions`. Points are sampled uniformly from it.
        tau: The temperature, as for `certify_soft`.
        epsilon: The share $\varepsilon$ of the weight that rivals may have, between 0 and 1.
        n_samples: The number of points to sample, at least 1.
        seed: The seed of the random generator, at least 0.
        confidence: The confidence level of the interval, between 0 and 1.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> low, high = sample_hard_share(sign, Box([-1], [3]), 0.5, 0.25, 1000).interval
        >>> low < 0.8627 < high  # The winner has 3/4 from |x| = log(3) / 4 on: 1 - log(3) / 8.
        True
    """
    model = read_model(model)
    network = read_soft_model(model)
    where = charted(domain, network.dim_in)
    taus = layer_temperatures(model, network, tau)
    eps = float(number("epsilon", read_epsilon(epsilon)))
    charted_one, _ = charted_network(network, where)
    taus = [0.0] * (len(charted_one.layers) - len(network.layers)) + taus

    def decide(points: FloatArray) -> BoolArray:
        return np.asarray((certify_soft(charted_one, points, taus).rival_masses <= eps).all(axis=1))

    return _sample_share(where, decide, n_samples, seed, confidence)


def _sample_share(
    domain: ChartedDomain,
    decide: Callable[[FloatArray], BoolArray],
    n_samples: int,
    seed: int,
    confidence: float,
) -> SampledShare:
    total = integer("n_samples", n_samples, at_least=1)
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    level = number("confidence", confidence, above=0.0)
    if level >= 1.0:
        raise ArgumentError(f"`confidence` must be below 1; got {level}.")
    box = enclosing_box(domain)
    if box is None:
        raise ArgumentError("`domain` must be bounded for sampling; got an unbounded one.")
    hits = 0
    for start in range(0, total, _BATCH_SIZE):
        points = _draw_points(domain, box, rng, min(_BATCH_SIZE, total - start))
        hits += int(decide(points).sum())
    return SampledShare(hits, total, level)


def _draw_points(
    domain: ChartedDomain, box: EnclosingBox, rng: np.random.Generator, n: int
) -> FloatArray:
    """Draw uniform points of a domain by rejection sampling from its bounding box."""
    low, high, is_filled = box
    rows = [] if is_filled else [tuple(row) for row in domain.exact_rows.tolist()]
    polytope = Polytope.from_rows(rows, domain.dim)
    found: list[FloatArray] = []
    n_found = 0
    for _ in range(_MAX_ATTEMPTS):
        u = rng.random((n, len(low)))
        points = (1.0 - u) * low + u * high
        inside = ((points >= low) & (points <= high)).all(axis=1)
        if not is_filled:
            inside &= polytope.contains(points)
        kept = points[inside]
        found.append(kept)
        n_found += len(kept)
        if n_found >= n:
            return np.concatenate(found)[:n]
    raise ArgumentError(
        "`domain` fills too little of its bounding box for rejection sampling: only "
        f"{n_found} of {_MAX_ATTEMPTS * n} points fell inside. Pass a domain that fills "
        "more of its bounding box."
    )
