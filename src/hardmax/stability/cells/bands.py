r"""Exact volumes of the margin bands around walls, and of the rest of a domain.

The part of a cell where every head leads by at least $\delta$ is a polyhedron with a rational
volume. The rest of the domain is the band around the walls, where attention is in transition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from hardmax._ground.arguments import floats_any_shape, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.polytopes import Polytope
from hardmax.models.model_arguments import read_network
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.engines import enumerate_regions
from hardmax.stability.cells.cell_gaps import cell_gaps
from hardmax.stability.models import head_names
from hardmax.typing import DomainLike, FloatArray, ModelLike, WideArray


@dataclass(frozen=True, eq=False, repr=False)
class MarginBands:
    r"""Exact volumes of the parts of cells where all heads lead by a given margin.

    Attributes:
        delta: The required margin of each head; shape `(n_heads,)`.
        volumes: For each cell, the volume of the part with the required margins, as a fraction;
            shape `(n_cells,)`.
        total: The volume of the domain.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = margin_bands(sign, Box([-1], [3]), delta=1.0)
        >>> found.volumes.tolist(), found.total
        ([Fraction(1, 2), Fraction(5, 2)], Fraction(4, 1))
    """

    delta: FloatArray
    volumes: WideArray
    total: Fraction

    _repr_html_ = html_card

    @property
    def inside(self) -> Fraction:
        """The exact share of the domain where every head leads by at least `delta`."""
        return Fraction(sum(self.volumes.tolist())) / self.total

    @property
    def band(self) -> Fraction:
        """The exact share of the domain where some head leads by less than `delta`."""
        return 1 - self.inside

    def __repr__(self) -> str:
        n = int(sum(volume > 0 for volume in self.volumes))
        return (
            f"MarginBands({float(self.band):.4g} of the domain in the bands, "
            f"{n} of {len(self.volumes)} cells reach beyond them)"
        )


def margin_bands(
    model: ModelLike, domain: DomainLike, delta: float | Sequence[float]
) -> MarginBands:
    r"""Compute the exact volume of the part of each cell where every head leads by $\delta$.

    The model may be deep: the gap of a later head is its gap in the hard network. The function
    computes one exact volume for each cell, which is fast in dimensions 1 and 2.

    Args:
        model: A model, as for `enumerate_regions`.
        domain: A bounded domain, as for `enumerate_regions`.
        delta: The margin $\delta \ge 0$: one number, or one number per head.

    Raises:
        ArgumentError: If the domain is unbounded, or a margin is negative.

    Examples:
        Two keys at -1 and 1; the gap is $2|x|$:

        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
        >>> margin_bands(sign, Box([-1], [3]), delta=1.0).band
        Fraction(1, 4)
    """
    network = read_network(model)
    levels = read_levels(delta, len(head_names(network)))
    partition = enumerate_regions(network, domain)
    total = domain_volume(partition.domain)
    exact = [Fraction(float(level)) for level in levels]
    volumes = np.empty(partition.n_found, dtype=object)
    for i, name in enumerate(partition.signatures.tolist()):
        cell = cell_gaps(network, partition.domain, name)
        volumes[i] = polytope_volume(cell.rows_at(exact.__getitem__, cell.gaps), cell.dim)
    return MarginBands(read_only_copy(levels), volumes, total)


def domain_volume(domain: ChartedDomain) -> Fraction:
    """Return the exact volume of a bounded domain in its own coordinates."""
    if domain.corners is not None:
        low, high = (end.tolist() for end in domain.corners)
        return prod(
            (Fraction(b) - Fraction(a) for a, b in zip(low, high, strict=True)), start=Fraction(1)
        )
    rows = [tuple(row) for row in domain.exact_rows.tolist()]
    volume = Polytope.from_rows(rows, domain.dim).volume
    if not isinstance(volume, Fraction):
        raise ArgumentError("`domain` must be bounded (of finite volume); got an unbounded one.")
    return volume


def polytope_volume(rows: list[Vector], dim: int) -> Fraction:
    """Return the volume of a bounded polytope given by rows; 0 if it is empty."""
    if any(not any(row[:-1]) and row[-1] < 0 for row in rows):
        return Fraction(0)
    volume = Polytope.from_rows(rows, dim).volume
    assert isinstance(volume, Fraction)
    return volume


def read_levels(delta: float | Sequence[float], n_heads: int) -> FloatArray:
    """Return the margin of each head, read from one number or one number per head."""
    levels = floats_any_shape("delta", delta)
    if levels.ndim > 1 or (levels.ndim == 1 and len(levels) != n_heads):
        raise ShapeMismatchError(
            f"`delta` must be one number, or one number per head with shape ({n_heads},); "
            f"got shape {levels.shape}."
        )
    if (levels < 0.0).any():
        raise ArgumentError(f"`delta` must be at least 0; got {float(levels.min())}.")
    return np.array(np.broadcast_to(levels, (n_heads,)))
