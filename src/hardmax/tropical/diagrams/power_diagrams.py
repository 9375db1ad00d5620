"""Power diagrams: the partition of query space by hard attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax._ground.display import format_card, pluralize
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.dyadic import ScaledIntegers, round_scaled_integers, scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.descriptions import round_points
from hardmax.geometry.domain_protocol import Domain
from hardmax.geometry.domain_text import read_domain
from hardmax.geometry.extreme_points import active_forms
from hardmax.geometry.planar_envelopes import PlanarEnvelope, planar_envelope
from hardmax.geometry.polytopes import Polytope, domain_rows
from hardmax.geometry.space_envelopes import DIMENSIONS, SpaceEnvelope, space_envelope
from hardmax.tropical.coefficients import like_terms
from hardmax.tropical.diagrams.diagram_pictures import diagram_picture
from hardmax.tropical.diagrams.planar_cells import planar_cells
from hardmax.tropical.diagrams.power_cells import (
    PowerCell,
    UpperEnvelope,
    cells_by_decisions,
    has_few_vertices,
    upper_envelope,
)
from hardmax.tropical.diagrams.power_forms import (
    compose,
    difference_rank,
    find_common_tie,
    forms_of_sites,
    largest_forms,
    weights_of_forms,
)
from hardmax.tropical.diagrams.space_cells import space_cells
from hardmax.tropical.envelopes import active_rows
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, WideArray

_LOW_RANK = 3
"""Up to this rank, computing all vertices is cheaper than searching for the active sites with one
cone decision each."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PowerDiagram:
    r"""The power diagram of sites $s_j$ with weights $w_j$, or the routing of a hard head.

    The cell of site $j$ is the closed convex set on which its power distance is smallest,

    $$P_j = \{x : \|x - s_j\|^2 - w_j \le \|x - s_i\|^2 - w_i \text{ for all } i\}
          = \{x : f_j(x) = \max_i f_i(x)\}, \quad
      f_j(x) = \langle s_j, x \rangle + \tfrac12 (w_j - \|s_j\|^2).$$

    The affine forms $f_j$ define the diagram. The constructor computes them from sites and weights
    without rounding. `PowerDiagram.from_keys` takes them directly as keys $k_j$ and logit biases
    $c_j$: $f_j(q) = \langle q, k_j\rangle + c_j$, so $s_j = k_j$ and $w_j = \|k_j\|^2 + 2 c_j$.
    All decisions are exact for these forms.

    *Degenerate sites.* Of sites with the same form, the first owns the cell. A weight (or bias) of
    $-\infty$ masks a site, which then never wins. A site owns no cell if its form is maximal only
    on a set without interior, such as a key on a facet of the hull or at the midpoint of two
    others.

    Args:
        sites: The sites $s_j$, shape `(n_sites, dim)` with `n_sites >= 1` and `dim >= 1`.
        weights: The weights $w_j$, shape `(n_sites,)`. A weight of $-\infty$ masks a site; at least
            one weight must be finite.

    Attributes:
        coefficients: The exact forms $f_j$ as rows (slope, offset), shape `(n_sites, dim + 1)`.
            Rows of masked sites are zero.
        masked: Whether a site is masked, shape `(n_sites,)`.

    Raises:
        EmptyInputError: If there are no sites or no coordinates.
        NonFiniteError: If an entry is NaN, or is infinite but not a mask.
        ArgumentError: If every site is masked.

    References:
        [Aur87]; the attention case is Theorem IV.3 of [SL26].

    Examples:
        >>> diagram = PowerDiagram.from_keys([[1, 0], [-1, 0], [0, 0], [0, 2]])
        >>> diagram
        PowerDiagram(4 sites in R^2, a fan)
        >>> diagram.active.tolist(), diagram.neighbours.tolist()
        ([True, True, False, True], [[0, 1], [0, 3], [1, 3]])
        >>> diagram.locate([[3, 1], [0, 0], [0, 5]]).tolist()
        [0, 0, 3]

        With equal weights, the diagram is the Voronoi diagram:

        >>> voronoi = PowerDiagram([[0.0], [1.0], [3.0]], [0, 0, 0])
        >>> [cell.vertices.tolist() for cell in voronoi.cells()]
        [[[0.5]], [[2.0], [0.5]], [[2.0]]]
    """

    coefficients: ScaledIntegers
    masked: BoolArray

    def __init__(self, sites: ArrayLike, weights: ArrayLike) -> None:
        sizes = Sizes()
        points = sizes.floats("sites", sites, ("n_sites", "dim"))
        powers = sizes.floats("weights", weights, ("n_sites",), infinity="negative")
        masked = np.isneginf(powers)
        self._set(forms_of_sites(points, np.where(masked, 0.0, powers)), masked, "weights")
        self.__dict__["sites"] = read_only_copy(points)
        self.__dict__["weights"] = read_only_copy(powers)

    @classmethod
    def from_keys(cls, keys: ArrayLike, bias: ArrayLike | None = None) -> PowerDiagram:
        r"""Return the diagram of $\arg\max_j \langle q, k_j\rangle + c_j$.

        Args:
            keys: The keys $k_j$, shape `(n_keys, d_k)` with `n_keys >= 1` and `d_k >= 1`.
            bias: The biases $c_j$, shape `(n_keys,)`. By default, zero. A bias of $-\infty$ masks a
                key.

        Examples:
            The key between two others wins nowhere unless it has a positive bias, however small:

            >>> PowerDiagram.from_keys([[1], [2], [3]]).active.tolist()
            [True, False, True]
            >>> PowerDiagram.from_keys([[1], [2], [3]], [0, 1e-300, 0]).active.tolist()
            [True, True, True]
        """
        sizes = Sizes()
        slopes = sizes.floats("keys", keys, ("n_keys", "d_k"))
        zeros = np.zeros(slopes.shape[0])
        offsets = sizes.floats(
            "bias", zeros if bias is None else bias, ("n_keys",), infinity="negative"
        )
        masked = np.isneginf(offsets)
        forms = np.column_stack([slopes, np.where(masked, 0.0, offsets)])
        diagram = cls._from_exact(scaled_integers(forms), masked, "bias")
        diagram.__dict__["_live_floats"] = np.ascontiguousarray(forms[~masked])
        diagram.__dict__["sites"] = read_only_copy(slopes)
        return diagram

    @classmethod
    def from_polynomial(cls, polynomial: TropicalPolynomial) -> PowerDiagram:
        """Return the diagram whose cells are the linear pieces of a tropical polynomial."""
        if not isinstance(polynomial, TropicalPolynomial):
            raise DtypeError(
                f"`polynomial` must be a TropicalPolynomial; got {type(polynomial).__name__}."
            )
        masked = np.zeros(polynomial.n_terms, dtype=np.bool_)
        return cls._from_exact(polynomial.coefficients, masked, "polynomial")

    def to_polynomial(self) -> TropicalPolynomial:
        r"""Return the tropical polynomial $\max_j f_j$ over the sites that are not masked."""
        return TropicalPolynomial.from_coefficients(self._live_forms)

    def __repr__(self) -> str:
        kind = f"{pluralize(self.n_sites, 'site')} in R^{self.dim}"
        if self._live_offsets_agree:
            kind += ", a fan"
        if self.masked.any():
            kind += f", {int(self.masked.sum())} masked"
        return f"PowerDiagram({kind})"

    def _repr_html_(self) -> str:
        masked = np.flatnonzero(self.masked) if self.masked.any() else None
        rows = {"sites": self.sites, "weights": self.weights, "masked": masked}
        return format_card(repr(self), rows, diagram_picture(self))

    @property
    def n_sites(self) -> int:
        """The number of sites, including masked and inactive ones."""
        return int(self.masked.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.coefficients.integers.shape[1]) - 1

    @cached_property
    def live(self) -> IntArray:
        """The indices of the sites that are not masked, in ascending order."""
        return np.flatnonzero(~self.masked)

    @cached_property
    def sites(self) -> FloatArray:
        """The sites $s_j$, shape `(n_sites, dim)`; rounded if they do not fit float64."""
        slopes = self.coefficients.integers[:, :-1]
        return read_only_copy(
            round_scaled_integers(ScaledIntegers(slopes, self.coefficients.exponent))[0]
        )

    @cached_property
    def weights(self) -> FloatArray:
        r"""The weights $w_j$, shape `(n_sites,)`: as given, or $\|k_j\|^2 + 2 c_j$ rounded once."""
        powers, _ = round_scaled_integers(self._exact_weights)
        return read_only_copy(np.where(self.masked, -np.inf, powers))

    @cached_property
    def forms(self) -> AffineForms:
        r"""The forms $f_j$ of the sites that are not masked (`live`), in float64.

        Raises:
            ArgumentError: If the forms do not fit float64, as is usual for offsets
                $\tfrac12(w_j - \|s_j\|^2)$. Use `coefficients` instead, which is exact.
        """
        floats, fits = round_scaled_integers(self._live_forms)
        if not fits:
            raise ArgumentError(
                "the affine forms of this diagram do not fit float64, so `forms` would be "
                "rounded; use `coefficients`, which is exact."
            )
        return AffineForms(floats[:, :-1], floats[:, -1])

    def locate(self, points: ArrayLike) -> IntArray:
        """Return the site that wins at each row of `points`, exactly; in a tie, the first one."""
        return self._winners(points)[0]

    def n_winners(self, points: ArrayLike) -> IntArray:
        """Count the sites that attain the maximum at each row of `points`, exactly.

        Sites with equal forms are counted separately.

        Examples:
            >>> PowerDiagram.from_keys([[1], [-1], [1]]).n_winners([[0.0], [1.0]]).tolist()
            [3, 2]
        """
        return self._winners(points)[1]

    @cached_property
    def active(self) -> BoolArray:
        """Whether a site owns a full-dimensional cell, decided exactly, shape `(n_sites,)`."""
        mask = np.zeros(self.n_sites, dtype=np.bool_)
        if self._plane is not None:
            mask[self.live[self._plane.sites]] = True
        elif self._space is not None:
            mask[self.live[self._space.sites]] = True
        elif self._rank <= _LOW_RANK:
            mask[self._rivals[self._envelope.owners]] = True
        else:
            floats, fits = round_scaled_integers(self._live_forms)
            if fits:
                mask[self.live] = active_forms(AffineForms(floats[:, :-1], floats[:, -1]))
            else:
                mask[self.live] = active_rows(self._live_forms.integers)
        mask.setflags(write=False)
        return mask

    @property
    def n_cells(self) -> int:
        """The number of sites that own a full-dimensional cell."""
        return int(self.active.sum())

    def cells(self, domain: Domain | str | None = None) -> list[PowerCell]:
        r"""Return the cells that meet the interior of a domain, clipped to it and sorted by site.

        Args:
            domain: A full-dimensional domain, such as a `Box`, or its text. By default, the whole
                space.

        Raises:
            DtypeError: If `domain` has an unsupported type.
            ShapeMismatchError: If `domain` has the wrong dimension.
            ArgumentError: If `domain` has no interior.

        Examples:
            >>> from hardmax import Box
            >>> diagram = PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
            >>> [cell.is_bounded for cell in diagram.cells()]
            [False, False, False]
            >>> clipped = diagram.cells(Box([-1, -1], [1, 1]))
            >>> [str(cell.polytope.volume) for cell in clipped]
            ['5/4', '5/4', '3/2']
        """
        domain = read_domain(domain)
        rows = [] if domain is None else domain_rows(domain, self.dim)
        if isinstance(domain, Polytope) and domain.affine_dim < self.dim:
            raise ArgumentError(
                "`domain` must have interior points; got a polytope of dimension "
                f"{domain.affine_dim} in R^{self.dim}."
            )
        if self._plane is not None:
            return planar_cells(self._plane, self.live, rows)
        if self._space is not None:
            return space_cells(self._space, self.live, rows)
        if not rows and has_few_vertices(len(self._rivals), self._rank):
            return [self._envelope.cell(j, self._rivals) for j in self._envelope.owners]
        # Sites that win nowhere do not win on the domain either.
        names = np.flatnonzero(self.active) if "active" in self.__dict__ else self._rivals
        if rows and has_few_vertices(len(names) + len(rows), self.dim):
            envelope = upper_envelope(self._forms_of(names), self.dim, rows)
            return [envelope.cell(j, names) for j in envelope.owners]
        names = np.flatnonzero(self.active)
        return cells_by_decisions(self._forms_of(names), self.dim, rows, names)

    @cached_property
    def neighbours(self) -> IntArray:
        """The pairs `i < j` of sites whose cells share a facet, sorted, shape `(n_pairs, 2)`."""
        if self._plane is not None:
            return self.live[self._plane.pairs]
        if self._space is not None:
            return self.live[self._space.pairs]
        if has_few_vertices(len(self._rivals), self._rank):
            pairs = self._rivals[np.array(self._envelope.pairs(), dtype=np.int64).reshape(-1, 2)]
        else:
            found = [(c.site, j) for c in self.cells() for j in c.neighbours if j > c.site]
            pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    @property
    def ridge_points(self) -> IntArray:
        """An alias of `neighbours`, for compatibility with `scipy.spatial.Voronoi`."""
        return self.neighbours

    @property
    def points(self) -> FloatArray:
        """An alias of `sites`, for compatibility with `scipy.spatial.Voronoi`."""
        return self.sites

    @cached_property
    def vertices(self) -> FloatArray:
        """The vertices of all cells, rounded, shape `(n_vertices, dim)`.

        If the cells contain lines, the rows are one point of each minimal face instead.
        """
        if self._plane is not None:
            return self._plane.vertices
        if self._space is not None:
            return self._space.vertices
        return round_points(self._envelope.vertices, self.dim)

    @cached_property
    def is_fan(self) -> bool:
        """Whether every cell is a cone with apex 0. This is always the case without biases."""
        if self._live_offsets_agree:
            return True
        offsets = self.coefficients.integers[self.active, -1]
        return bool((offsets == offsets[0]).all())

    @property
    def is_voronoi(self) -> bool:
        """Whether all weights that are not masked are equal, decided exactly.

        Without biases, this means that all keys have the same norm.
        """
        powers = self._exact_weights.integers[self.live]
        return bool((powers == powers[0]).all())

    @cached_property
    def apex(self) -> WideArray | None:
        """A point where all active forms tie, as fractions, or `None`. For a fan, this is 0."""
        return find_common_tie(self.coefficients.integers[self.active])

    def pull_back(
        self, query_weight: ArrayLike, query_bias: ArrayLike | None = None
    ) -> PowerDiagram:
        r"""Return the diagram of $x \mapsto f_j(x W_Q + b_Q)$ in model space, without rounding.

        $W_Q$ may have any rank. Cells of the pull-back contain all lines with directions
        $x W_Q = 0$. A cell that does not meet the image of $x \mapsto x W_Q + b_Q$ disappears.

        Args:
            query_weight: The matrix $W_Q$, which acts on row vectors, shape `(dim_in, dim)`.
            query_bias: The vector $b_Q$, shape `(dim,)`. By default, zero.

        References:
            Remark IV.5 of [SL26].

        Examples:
            >>> diagram = PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
            >>> wide = diagram.pull_back([[1, 0], [0, 0], [2, 0]])
            >>> wide.active.tolist(), wide.cells()[0].polytope.lineality.tolist()
            ([True, False, True], [[0.0, 1.0, 0.0], [1.0, 0.0, -0.5]])
        """
        sizes = Sizes(dim=self.dim)
        weight = sizes.floats("query_weight", query_weight, ("dim_in", "dim"))
        zeros = np.zeros(self.dim)
        bias = sizes.floats("query_bias", zeros if query_bias is None else query_bias, ("dim",))
        exact = compose(self.coefficients, weight, bias)
        return PowerDiagram._from_exact(exact, self.masked, "bias")

    @classmethod
    def _from_exact(
        cls, coefficients: ScaledIntegers, masked: BoolArray, source: str
    ) -> PowerDiagram:
        diagram = cls.__new__(cls)
        diagram._set(coefficients, masked, source)
        return diagram

    def _set(self, coefficients: ScaledIntegers, masked: BoolArray, source: str) -> None:
        if masked.all():
            raise ArgumentError(
                f"`{source}` must leave at least one site that is not masked (-inf); "
                f"got {masked.size} masked of {masked.size}."
            )
        integers = coefficients.integers.copy()
        integers[masked] = 0
        integers.setflags(write=False)
        hidden = masked.copy()
        hidden.setflags(write=False)
        object.__setattr__(self, "coefficients", ScaledIntegers(integers, coefficients.exponent))
        object.__setattr__(self, "masked", hidden)

    @cached_property
    def _live_forms(self) -> ScaledIntegers:
        return ScaledIntegers(self.coefficients.integers[self.live], self.coefficients.exponent)

    @cached_property
    def _live_floats(self) -> FloatArray | None:
        """The live forms in float64, if they were given in float64."""
        return None

    @cached_property
    def _exact_weights(self) -> ScaledIntegers:
        return weights_of_forms(self.coefficients)

    @cached_property
    def _live_offsets_agree(self) -> bool:
        offsets = self._live_forms.integers[:, -1]
        return bool((offsets == offsets[0]).all())

    @cached_property
    def _rivals(self) -> IntArray:
        """A set of sites with pairwise different slopes that contains all active sites."""
        if self._rank > _LOW_RANK:
            return np.flatnonzero(self.active)
        return self.live[np.sort(like_terms(self._live_forms.integers))]

    @cached_property
    def _plane(self) -> PlanarEnvelope | None:
        """All cells in the plane, or None if the sites lie on a line."""
        if self.dim != 2:
            return None
        return planar_envelope(self._live_forms.integers, self._live_floats)

    @cached_property
    def _space(self) -> SpaceEnvelope | None:
        """All cells in three or four dimensions, or None if the sites lie in a hyperplane."""
        if self.dim not in DIMENSIONS:
            return None
        return space_envelope(self._live_forms.integers, self._live_floats)

    @cached_property
    def _envelope(self) -> UpperEnvelope:
        return upper_envelope(self._forms_of(self._rivals), self.dim)

    @cached_property
    def _rank(self) -> int:
        return difference_rank(self._live_forms.integers)

    def _forms_of(self, sites: IntArray) -> list[Vector]:
        return [tuple(row) for row in self.coefficients.integers[sites].tolist()]

    def _winners(self, points: ArrayLike) -> tuple[IntArray, IntArray]:
        array = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        form, n_tied = largest_forms(self._live_forms, array)
        return self.live[form], n_tied
