r"""Shares of a domain by sampling, with exact confidence intervals: for any dimension and depth.

A sample is decided by floats with proven radii where these suffice and by the exact margins or the
enclosed soft network where they do not, so a count is right for the points drawn; what remains is
the statistics of drawing them, and the interval of Clopper and Pearson covers that at any sample
size.

References:
    [CP34].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.arguments import integer, number
from hardmax.display import html_card
from hardmax.errors import ArgumentError
from hardmax.geometry.polytopes import Polytope
from hardmax.regions.charted_domains import ChartedDomain, charted, charted_network
from hardmax.stability.bands import read_levels
from hardmax.stability.float_leads import enclosed_leads
from hardmax.stability.margins import measure_margins
from hardmax.stability.models import head_names, read_model, read_soft_model
from hardmax.stability.soft_certificates import certify_soft, layer_temperatures
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import BoolArray, FloatArray

_AT_ONCE = 4096
_PATIENCE = 1000


@dataclass(frozen=True)
class SampledShare:
    """How many of some random points have a property.

    Attributes:
        n_hits: How many have it.
        n_samples: How many were drawn.
        confidence: The probability that the interval covers the share, at least.
    """

    n_hits: int
    n_samples: int
    confidence: float

    _repr_html_ = html_card

    @property
    def share(self) -> float:
        """The share of the sample."""
        return self.n_hits / self.n_samples

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of Clopper and Pearson for the share of the domain.

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
    model: Any,
    domain: Any,
    delta: float | Sequence[float],
    n_samples: int,
    seed: int = 0,
    *,
    confidence: float = 0.95,
) -> SampledShare:
    r"""Estimate the share of a domain where every head of the hard model leads by $\delta$.

    Args:
        model: A head, a block, a model with a `network`, or an `ArgmaxNetwork`.
        domain: A bounded domain, as for `enumerate_regions`; points are uniform on it.
        delta: The margin, at least 0, or one for each head.
        n_samples: How many points to draw, at least 1.
        seed: The seed, at least 0.
        confidence: Of the interval, between 0 and 1.

    Examples:
        >>> from hardmax.geometry.domains import Box
        >>> from hardmax.models.heads import AttentionHead
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> low, high = sample_margin_share(sign, Box([-1], [3]), 1.0, 1000).interval
        >>> low < 0.75 < high
        True
    """
    network = read_model(model)
    where = charted(domain, network.dim_in)
    levels = read_levels(delta, len(head_names(network)))
    charted_one, _ = charted_network(network, where)

    def decide(points: FloatArray) -> BoolArray:
        leads = enclosed_leads(charted_one, points)
        hit = (leads.low >= levels).all(axis=1) & leads.is_known
        open_ = np.flatnonzero(~hit & ~((leads.high < levels).any(axis=1) & leads.is_known))
        if len(open_):
            # Rounded down, but a level is a float64: the comparison is the exact one.
            hit[open_] = (measure_margins(charted_one, points[open_]).scores >= levels).all(axis=1)
        return np.asarray(hit)

    return _sampled(where, decide, n_samples, seed, confidence)


def sample_hard_share(
    model: Any,
    domain: Any,
    tau: float | Sequence[float],
    epsilon: float,
    n_samples: int,
    seed: int = 0,
    *,
    confidence: float = 0.95,
) -> SampledShare:
    r"""Estimate where every soft head puts at least $1-\varepsilon$ on the hard network's winner.

    The model may be deep: later heads see the soft stream. Arguments as for `sample_margin_share`
    and `persistent_cells`.
    """
    network = read_soft_model(model)
    where = charted(domain, network.dim_in)
    taus = layer_temperatures(model, network, tau)
    eps = float(number("epsilon", read_epsilon(epsilon)))
    charted_one, _ = charted_network(network, where)
    taus = [0.0] * (len(charted_one.layers) - len(network.layers)) + taus

    def decide(points: FloatArray) -> BoolArray:
        return np.asarray((certify_soft(charted_one, points, taus).rival_masses <= eps).all(axis=1))

    return _sampled(where, decide, n_samples, seed, confidence)


def _sampled(
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
    polytope = Polytope.from_rows([tuple(r) for r in domain.exact_rows.tolist()], domain.dim)
    if not polytope.is_bounded:
        raise ArgumentError("`domain` must be bounded to draw from it; got an unbounded one.")
    hits = 0
    for start in range(0, total, _AT_ONCE):
        points = _uniform(polytope, rng, min(_AT_ONCE, total - start))
        hits += int(decide(points).sum())
    return SampledShare(hits, total, level)


def _uniform(polytope: Polytope, rng: np.random.Generator, n: int) -> FloatArray:
    """Draw points of a polytope by rejection from the box around it."""
    low, high = polytope.vertices.min(axis=0), polytope.vertices.max(axis=0)
    found: list[FloatArray] = []
    n_found = 0
    for _ in range(_PATIENCE):
        u = rng.random((n, len(low)))
        points = (1.0 - u) * low + u * high
        kept = points[polytope.contains(points)]
        found.append(kept)
        n_found += len(kept)
        if n_found >= n:
            return np.concatenate(found)[:n]
    raise ArgumentError(
        "`domain` must fill more of the box around it: "
        f"{n_found} of {_PATIENCE * n} points fell inside."
    )
