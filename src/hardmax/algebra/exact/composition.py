r"""Affine forms composed in float64, each coefficient with a radius that holds the truth.

A layer's forms are computed from the forms of the layer before. What matters is the form composed
exactly from the stored weights (`exact_forms.ExactForms`); float64 gives a form near it, and this
module says how near, coefficient by coefficient, so that nothing is lost on unbounded domains.
The constants $\kappa_n$, $T$ and the lemmas are those of `rounding`.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.algebra.exact.rounding import (
    UNDERFLOW_ALLOWANCE,
    dot_products_are_exact,
    rounding_factor,
)
from hardmax.algebra.exact.selection import selected_indices, selected_mask
from hardmax.algebra.forms import AffineForms
from hardmax.arguments import Sizes, floats_any_shape, owned
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class EnclosedForms:
    r"""Float64 forms and the radii within which the true forms lie.

    The true form $j$ is $x \mapsto \langle a_j^*, x \rangle + c_j^*$ with $|a_{jk}^* - a_{jk}| \le
    r_{jk}$ and $|c_j^* - c_j| \le s_j$. Where a computation overflowed the radius is infinite, and
    the centre, which then means nothing, is 0.

    Attributes:
        slopes: The $a_j$, shape `(n_forms, dim)`.
        offsets: The $c_j$, shape `(n_forms,)`.
        slope_radii: The $r_{jk} \in [0, \infty]$, shape `(n_forms, dim)`.
        offset_radii: The $s_j \in [0, \infty]$, shape `(n_forms,)`.

    Examples:
        Small integers compose without rounding, and the radii know it:

        >>> forms = EnclosedForms.stored(AffineForms([[1.0], [2.0]], [0.0, 1.0]))
        >>> exact = forms.compose(np.array([[3.0], [5.0]]))
        >>> exact.slopes.tolist(), exact.slope_radii.tolist()
        ([[13.0]], [[0.0]])
        >>> rounded = forms.compose(np.array([[0.1], [0.2]]))
        >>> bool(0 < rounded.slope_radii[0, 0] < 1e-14)
        True
    """

    slopes: FloatArray
    offsets: FloatArray
    slope_radii: FloatArray
    offset_radii: FloatArray

    def __post_init__(self) -> None:
        sizes = Sizes()
        matrix, vector = ("n_forms", "dim"), ("n_forms",)
        slopes = sizes.floats("slopes", self.slopes, matrix, nonempty=vector)
        offsets = sizes.floats("offsets", self.offsets, vector)
        slope_radii = sizes.floats(
            "slope_radii", self.slope_radii, matrix, nonempty=vector, infinity="positive"
        )
        offset_radii = sizes.floats("offset_radii", self.offset_radii, vector, infinity="positive")
        for name, radii in (("slope_radii", slope_radii), ("offset_radii", offset_radii)):
            if radii.min(initial=0.0) < 0.0:
                raise ArgumentError(f"`{name}` must be at least 0; got {radii.min()}.")
        object.__setattr__(self, "slopes", owned(slopes))
        object.__setattr__(self, "offsets", owned(offsets))
        object.__setattr__(self, "slope_radii", owned(slope_radii))
        object.__setattr__(self, "offset_radii", owned(offset_radii))

    @staticmethod
    def stored(forms: AffineForms) -> "EnclosedForms":
        """Read stored forms, which are exact as they stand: all radii are 0."""
        return EnclosedForms(
            forms.slopes, forms.offsets, np.zeros_like(forms.slopes), np.zeros_like(forms.offsets)
        )

    @property
    def n_forms(self) -> int:
        """How many forms there are."""
        return int(self.slopes.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space they are defined on."""
        return int(self.slopes.shape[1])

    def compose(self, weight: FloatArray, bias: FloatArray | None = None) -> "EnclosedForms":
        r"""Pass through an affine layer $z = h W + b$ with exact weights.

        A coefficient of form $i$ of the result is $\sum_{j=1}^n W_{ji} h_j^*$, plus $b_i$ for the
        offset, where the true $h_j^*$ lies within $r_j$ of the stored $h_j$. By Lemma 1 the
        computed value differs from the true one by at most

        $$\sum_j |W_{ji}| r_j + \gamma_{n+1} \Bigl(\sum_j |W_{ji}| |h_j| + |b_i|\Bigr) + n \eta,$$

        and the new radius is $(1 + \kappa_n) \hat E + T$, computed in float64 from

        $$E = \sum_j |W_{ji}| (r_j + t(h_j)) + t(b_i), \qquad
          t(h) = \mathrm{succ}(\mathrm{fl}(\kappa_n |h|)),\ t(0) = 0,$$

        where the next float64 above, $\mathrm{succ}$, makes $t(h) \ge \kappa_n |h|$ even where that
        product underflows (a large weight would magnify what is lost there). *It suffices:* as
        $\kappa_n \ge \gamma_{n+1}$, the bound is at most $E + n \eta$. All terms are non-negative,
        with at most $n + 2$ roundings on a path, so $E \le (1 + \gamma_{n+3}) (\hat E + n \eta)$.
        The number $1 + \kappa_n$ is a float64, and $(1 + \kappa_n)(1 - u)^2 \ge 1 +
        \gamma_{n+3}$ pays for the last two roundings, while $T / 2$ exceeds all underflow terms.
        $\square$

        Two cases are exact and get the radius they deserve: a coefficient to which no non-zero
        product contributes, and data on grids coarse enough for Lemma 3.

        Args:
            weight: The $W$, shape `(n_forms, n_out)`.
            bias: The $b$, shape `(n_out,)`; zero if left out.

        Returns:
            The forms of $z$, as many as $W$ has columns.

        Raises:
            ShapeMismatchError: If `weight` has not one row for each form.
        """
        sizes = Sizes(n_forms=self.n_forms)
        weight = sizes.floats("weight", weight, ("n_forms", "n_out"))
        added = np.zeros((weight.shape[1], self.dim + 1))
        if bias is not None:
            added[:, -1] = sizes.floats("bias", bias, ("n_out",))
        table, radii = self._tables()
        factor = rounding_factor(self.n_forms)
        with np.errstate(over="ignore", invalid="ignore"):
            centres = weight.T @ table + added
            share, added_share = _share(factor, table), _share(factor, added)
            if dot_products_are_exact(weight.T, table.T, added):
                share, added_share = np.zeros_like(share), np.zeros_like(added)
            errors = np.abs(weight).T @ (radii + share) + added_share
            errors = (1.0 + factor) * errors + UNDERFLOW_ALLOWANCE
        errors[~_any_nonzero_product(weight.T, radii + share)] = 0.0
        return _from_tables(centres, errors)

    def __add__(self, other: "EnclosedForms") -> "EnclosedForms":
        r"""Add form by form, as a residual connection does.

        The rounding error $t$ of a sum is itself a float64, computed exactly (Knuth's two-sum), so
        the new radius is $r + r' + |t|$, rounded up: nothing is added where the sum is exact.
        """
        if not isinstance(other, EnclosedForms):
            return NotImplemented
        if self.slopes.shape != other.slopes.shape:
            raise ShapeMismatchError(
                f"`other` must have {self.n_forms} forms in {self.dim} dimensions; "
                f"got {other.n_forms} in {other.dim}."
            )
        return _sum(*self._tables(), *other._tables())

    def pick(self, indices: IntArray) -> "EnclosedForms":
        """Keep the listed forms, in the listed order."""
        chosen = selected_indices("indices", indices, self.n_forms)
        table, radii = self._tables()
        return _from_tables(table[chosen], radii[chosen])

    def mask(self, keep: BoolArray) -> "EnclosedForms":
        """Replace every form that is not kept by the zero form, as an inactive ReLU does.

        The zero form is exact, whatever was known about the form it replaces.
        """
        on = selected_mask("keep", keep, self.n_forms)[:, np.newaxis]
        table, radii = self._tables()
        return _from_tables(np.where(on, table, 0.0), np.where(on, radii, 0.0))

    def difference(self, plus: IntArray, minus: IntArray) -> "EnclosedForms":
        """Enclose the differences of the forms `plus` and `minus`, one for each pair."""
        chosen = selected_indices("plus", plus, self.n_forms)
        rivals = selected_indices("minus", minus, self.n_forms)
        if len(chosen) != len(rivals):
            raise ShapeMismatchError(
                f"`minus` must name {len(chosen)} forms (as in `plus`); got {len(rivals)}."
            )
        table, radii = self._tables()
        return _sum(table[chosen], radii[chosen], -table[rivals], radii[rivals])

    def radius_on(self, bound: FloatArray | float) -> FloatArray:
        r"""Bound $\sup_x |g_j(x) - g_j^*(x)|$ over the box $|x_k| \le X_k$, for each form.

        The supremum is at most $\sum_k r_{jk} X_k + s_j$; it is computed with the factor
        $1 + \kappa_d$ and the term $T$ that make up for rounding, as in `compose`. A form whose
        radii all vanish has radius 0.

        Args:
            bound: The $X \ge 0$, one number or shape `(dim,)`.

        Returns:
            Shape `(n_forms,)`; infinite where a radius is.

        Examples:
            >>> forms = EnclosedForms([[1.0]], [0.0], [[2.0**-50]], [0.0])
            >>> bool(4 * 2.0**-50 <= forms.radius_on(4.0)[0] < 4.01 * 2.0**-50)
            True
        """
        box = np.abs(bound_on_coordinates(bound, self.dim))
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.slope_radii @ box + self.offset_radii
            total = (1.0 + rounding_factor(self.dim)) * total + UNDERFLOW_ALLOWANCE
        exact = ~self.slope_radii.any(axis=1) & (self.offset_radii == 0.0)
        return np.where(exact, 0.0, np.where(np.isnan(total), np.inf, total))

    def _tables(self) -> tuple[FloatArray, FloatArray]:
        """Return centres and radii, `(n_forms, dim + 1)` each, the offset last."""
        return (
            np.column_stack([self.slopes, self.offsets]),
            np.column_stack([self.slope_radii, self.offset_radii]),
        )


def bound_on_coordinates(bound: FloatArray | float, dim: int) -> FloatArray:
    """Read the half-widths of a box around the origin, one number or one for each coordinate."""
    box = floats_any_shape("bound", bound)
    if box.shape not in ((), (dim,)):
        raise ShapeMismatchError(
            f"`bound` must be one number or have shape ({dim},); got {box.shape}."
        )
    if box.min(initial=0.0) < 0.0:
        raise ArgumentError(f"`bound` must be at least 0; got {box.min()}.")
    return np.broadcast_to(box, (dim,))


def _share(factor: float, centres: FloatArray) -> FloatArray:
    r"""Return $\mathrm{succ}(\mathrm{fl}(\kappa |h|))$, and 0 where $h = 0$."""
    return np.where(centres == 0.0, 0.0, np.nextafter(factor * np.abs(centres), np.inf))


def _any_nonzero_product(left: FloatArray, right: FloatArray) -> BoolArray:
    """Say which entries of `left @ right` have a product of two non-zero numbers in them."""
    if left.all() and right.all():
        return np.ones((len(left), right.shape[1]), dtype=np.bool_)
    counts = (left != 0.0).astype(np.float64) @ (right != 0.0).astype(np.float64)
    return np.asarray(counts > 0.0)


def _sum(
    table: FloatArray, radii: FloatArray, other_table: FloatArray, other_radii: FloatArray
) -> EnclosedForms:
    with np.errstate(over="ignore", invalid="ignore"):
        total = table + other_table
        virtual = total - table
        rest = (table - (total - virtual)) + (other_table - virtual)
        # Three non-negative numbers lose a factor (1 - u)^2 at most when added, and 1 + 8u more
        # than restores it. Where the result is subnormal the additions were exact, and rounding
        # is monotone.
        errors = (radii + other_radii + np.abs(rest)) * (1.0 + 2.0**-50)
    return _from_tables(total, errors)


def _from_tables(centres: FloatArray, errors: FloatArray) -> EnclosedForms:
    """Pack centres and radii; what is not finite has an infinite radius."""
    known = np.isfinite(centres) & np.isfinite(errors)
    centres = np.where(known, centres, 0.0)
    errors = np.where(known, errors, np.inf)
    return EnclosedForms(centres[:, :-1], centres[:, -1], errors[:, :-1], errors[:, -1])
