r"""Signs of forms that are known only within radii, at points known only within radii.

The filter of an engine: it answers what float64 can prove and says what it cannot. Those are
then decided from the stored weights, by `exact_forms.ExactForms` or `determinants.sign_at_vertex`.
"""

from typing import Any, NamedTuple

import numpy as np

from hardmax.algebra.exact.composition import EnclosedForms
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.rounding import UNDERFLOW_ALLOWANCE, rounding_factor
from hardmax.arguments import Sizes
from hardmax.errors import ArgumentError
from hardmax.typing import BoolArray, FloatArray, SignArray


class EnclosedSigns(NamedTuple):
    """Signs, and where they are not known.

    Attributes:
        sign: Entries -1, 0, +1, shape `(n_points, n_forms)`; 0 where ambiguous.
        ambiguous: Where nothing is proved, shape `(n_points, n_forms)`.
    """

    sign: SignArray
    ambiguous: BoolArray


def enclosed_signs(
    forms: EnclosedForms,
    points: FloatArray,
    point_radii: FloatArray | None = None,
    *,
    tally: Decisions | None = None,
) -> EnclosedSigns:
    r"""Decide the signs $\operatorname{sign} g_j^*(v^*)$ that the enclosures prove.

    The true form $g^*$ lies within the radii $r, s$ of $g = (a, c)$, and the true point $v^*$
    within $\rho$ of $v$ in every coordinate. Then

    $$|g^*(v^*) - g(v)| \le e_g + |g|_1 \rho, \qquad e_g = \sum_k r_k |v_k| + s, \quad
      |g|_1 = \sum_k (|a_k| + r_k),$$

    because $g^*(v^*) - g(v) = (g^* - g)(v) + \langle a^*, v^* - v \rangle$. The computed value
    $\hat g$ of $g(v)$ is off by at most $\hat\beta$ of Lemma 2 in `rounding`; the sign is accepted
    if $|\hat g| > \hat\beta + e_g + |g|_1 \rho$, where the last two are inflated by $1 + \kappa$
    and $T$ against their own rounding and that of the sum, as in `EnclosedForms.compose`. A form
    that is exactly zero has sign 0, and that is certain; no other zero ever is. NaN and
    infinities, in points, radii or results, are ambiguous.

    Args:
        forms: The forms $g_j$ and their radii.
        points: The $v$, shape `(n_points, dim)`; NaN and infinities are allowed.
        point_radii: The $\rho \ge 0$, shape `(n_points,)`; 0 if left out.
        tally: Counts the signs proved, as filtered.

    Examples:
        >>> forms = EnclosedForms([[1.0], [0.0]], [-1.0, 0.0], [[1e-9], [0.0]], [0.0, 0.0])
        >>> signs = enclosed_signs(forms, np.array([[1.5], [1.0 + 1e-10], [np.nan]]))
        >>> signs.sign.tolist()
        [[1, 0], [0, 0], [0, 0]]
        >>> signs.ambiguous.tolist()
        [[False, False], [True, False], [True, False]]
    """
    sizes = Sizes(dim=forms.dim)
    points = sizes.floats(
        "points", _nan_as_inf(points), ("n_points", "dim"), nonempty=(), infinity="both"
    )
    if point_radii is None:
        point_radii = np.zeros(len(points))
    rho = sizes.floats(
        "point_radii", _nan_as_inf(point_radii), ("n_points",), nonempty=(), infinity="positive"
    )
    if rho.min(initial=0.0) < 0.0:
        raise ArgumentError(f"`point_radii` must be at least 0; got {rho.min()}.")
    # No path to the bound has more than dim + 8 roundings, and the factor pays for 4 dim + 14.
    factor = rounding_factor(2 * forms.dim + 3)
    with np.errstate(over="ignore", invalid="ignore"):
        values = points @ forms.slopes.T + forms.offsets
        lengths = np.abs(points)
        magnitude = lengths @ np.abs(forms.slopes).T + np.abs(forms.offsets)
        norms = (np.abs(forms.slopes) + forms.slope_radii).sum(axis=1)
        errors = lengths @ forms.slope_radii.T + forms.offset_radii
        # An exact point needs no norm, which may be infinite where the errors are not.
        errors += np.where(rho[:, np.newaxis] > 0.0, rho[:, np.newaxis] * norms, 0.0)
        bounds = factor * magnitude + (1.0 + factor) * errors + 2.0 * UNDERFLOW_ALLOWANCE
        proved = (np.abs(values) > bounds) & np.isfinite(values)
        sign = np.where(proved, np.sign(values), 0.0).astype(np.int8)
    is_zero = ~(forms.slopes.any(axis=1) | forms.slope_radii.any(axis=1))
    is_zero &= (forms.offsets == 0.0) & (forms.offset_radii == 0.0)
    ambiguous = ~proved & ~is_zero
    if tally is not None:
        tally.record(filtered=int(np.count_nonzero(~ambiguous)))
    return EnclosedSigns(sign, ambiguous)


def _nan_as_inf(value: Any) -> Any:
    """Let NaN through the reading of arguments as the infinity it is treated like."""
    array = np.asarray(value)
    return np.where(np.isnan(array), np.inf, array) if array.dtype.kind == "f" else value
