r"""Functions of one variable, given by their values at knots.

In dimension 1, a difference of maxima can be written down directly. With the change of slope $j_k$
at knot $t_k$, increases belong to the first maximum and decreases to the second,

$$f(x) = \ell_0(x) + \sum_{j_k > 0} j_k (x - t_k)_+ \;-\; \sum_{j_k < 0} |j_k| (x - t_k)_+ ,$$

and each of the two sums is the maximum of its pieces. The number of its pieces is the number of its
knots plus one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import Sizes, floats_any_shape, read_only_copy
from hardmax._ground.display import html_card
from hardmax.constructions.compilers.functions.common_forms import common_form
from hardmax.constructions.compilers.functions.exact_pieces import describe_values
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    assemble,
    exact_numbers,
    read_box,
)
from hardmax.errors import DiscontinuityError, ShapeMismatchError
from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, WideArray


@dataclass(frozen=True, eq=False)
class Knots:
    r"""A function of one variable that is affine between its knots.

    Attributes:
        positions: The positions of the knots, in any order, shape `(n_knots,)`. A position may
            occur twice if the values agree.
        values: The values at the knots, shape `(n_knots,)`, or `(n_knots, dim_out)` for a
            vector-valued function.
        left_slope: The slope to the left of the first knot: a number, or an array of shape
            `(dim_out,)`. By default, the slope of the first segment (0 for a single knot).
        right_slope: The slope to the right of the last knot: a number, or an array of shape
            `(dim_out,)`. By default, the slope of the last segment (0 for a single knot).

    Raises:
        DiscontinuityError: If two knots at the same position have different values.

    Examples:
        >>> hat = Knots([-1.0, 0.0, 1.0], [0.0, 1.0, 0.0], left_slope=0.0, right_slope=0.0)
        >>> hat
        Knots(3 knots, 1 -> 1)
        >>> Knots([0.0, 1.0, 1.0], [0.0, 2.0, 3.0])
        Traceback (most recent call last):
            ...
        hardmax.errors.DiscontinuityError: `values` must describe a continuous function, but at
        position 1.0 the function jumps between 2.0 and 3.0.
    """

    positions: FloatArray
    values: FloatArray
    left_slope: FloatArray | float | None = None
    right_slope: FloatArray | float | None = None

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        positions = sizes.floats("positions", self.positions, ("n_knots",))
        if np.ndim(self.values) == 1:
            values = sizes.floats("values", self.values, ("n_knots",))[:, None]
        else:
            values = sizes.floats("values", self.values, ("n_knots", "dim_out"))
        order = np.argsort(positions, kind="stable")
        positions, values = positions[order], values[order]
        fresh = np.r_[True, positions[1:] != positions[:-1]]
        for k in np.flatnonzero(~fresh).tolist():
            if not np.array_equal(values[k], values[k - 1]):
                raise DiscontinuityError(
                    "`values` must describe a continuous function, but at position "
                    f"{positions[k]} the function jumps between "
                    f"{describe_values(values[k - 1].tolist())} and "
                    f"{describe_values(values[k].tolist())}."
                )
        object.__setattr__(self, "positions", read_only_copy(positions[fresh]))
        object.__setattr__(self, "values", read_only_copy(values[fresh]))
        for name in ("left_slope", "right_slope"):
            given = getattr(self, name)
            if given is not None:
                slope = floats_any_shape(name, given)
                if slope.shape not in ((), (values.shape[1],)):
                    raise ShapeMismatchError(
                        f"`{name}` must be a number, or one number for each of the "
                        f"{values.shape[1]} outputs; got an array of shape {slope.shape}."
                    )
                slopes = np.broadcast_to(slope, (values.shape[1],))
                object.__setattr__(self, name, read_only_copy(np.ascontiguousarray(slopes)))

    def __repr__(self) -> str:
        n = len(self.positions)
        return f"Knots({n} knot{'s' * (n != 1)}, 1 -> {self.dim_out})"

    @property
    def dim_out(self) -> int:
        """The number of outputs."""
        return int(self.values.shape[1])

    @cached_property
    def exact_forms(self) -> WideArray:
        """The forms left of, between and right of the knots: shape `(n_knots + 1, dim_out, 2)`."""
        t, y = exact_numbers(self.positions), exact_numbers(self.values)
        inner = list((y[1:] - y[:-1]) / (t[1:] - t[:-1])[:, None])
        flat = np.array([fmpq(0)] * self.dim_out, dtype=object)
        left = (inner or [flat])[0] if self.left_slope is None else self._exact(self.left_slope)
        right = (inner or [flat])[-1] if self.right_slope is None else self._exact(self.right_slope)
        slopes = np.stack([left, *inner, right])
        at, through = np.r_[t[:1], t], np.concatenate([y[:1], y])
        return np.stack([slopes, through - slopes * at[:, None]], axis=-1)

    @staticmethod
    def _exact(slope: FloatArray | float) -> WideArray:
        return exact_numbers(np.asarray(slope))


def maxout_from_knots(knots: Knots, box: Box | str) -> MaxoutForm:
    r"""Write a function of one variable as a maxout network with one hidden layer.

    The slopes between knots are quotients, which are rounded to float64. The attribute `rounding`
    of the result bounds the effect on the box.

    Args:
        knots: The function.
        box: A box of dimension 1, or its text.

    Examples:
        >>> hat = Knots([-1.0, 0.0, 1.0], [0.0, 1.0, 0.0], left_slope=0.0, right_slope=0.0)
        >>> form = maxout_from_knots(hat, Box([-2], [2]))
        >>> form.network, form.rounding.tolist()
        (MaxoutNetwork(1 -> [2] -> 1, ranks 2 to 3), [0.0])
        >>> form.network([[-1.5], [-0.25], [0.5], [2.0]]).ravel().tolist()
        [0.0, 0.75, 0.5, 0.0]
    """
    return maxout_from_line(
        exact_numbers(knots.positions).tolist(), knots.exact_forms, read_box(box, 1)
    )


def maxout_from_line(breakpoints: Sequence[fmpq], forms: WideArray, box: Box) -> MaxoutForm:
    """Write a continuous function of one variable, given by exact pieces, as a maxout network.

    Args:
        breakpoints: The points where the pieces meet, in rising order, as flint rationals.
        forms: The pieces from left to right, shape `(n_breakpoints + 1, dim_out, 2)`.
        box: A box of dimension 1.
    """
    dim_out = forms.shape[1]
    units: list[WideArray] = []
    columns = []
    places: list[FloatArray] = []
    words = set()
    for c in range(dim_out):
        up, down = [forms[0, c]], [np.array([fmpq(0), fmpq(0)], dtype=object)]
        ends: tuple[list[fmpq], list[fmpq]] = ([], [])
        for t, before, after in zip(breakpoints, forms[:-1, c], forms[1:, c], strict=True):
            jump = after[0] - before[0]
            side, at = (up, ends[0]) if jump > 0 else (down, ends[1])
            if jump:
                side.append(side[-1] + np.array([abs(jump), -abs(jump) * t], dtype=object))
                at.append(t)
        if len(down) == 1:
            chosen, word = [(up, 1.0, ends[0])], "convex"
        elif len(up) == 1:
            # The single affine piece is merged into the second maximum, so one unit suffices.
            chosen, word = [([form - up[0] for form in down], -1.0, ends[1])], "concave"
        else:
            up, down = _subtract_common_form(up, down, ends[1], box)
            chosen, word = [(up, 1.0, ends[0]), (down, -1.0, ends[1])], "difference"
        words.add(word)
        for side, sign, at in chosen:
            units.append(np.stack(side))
            columns.append(sign * np.eye(dim_out)[c])
            # Each piece starts at its breakpoint, except that the first piece ends at the first.
            standing = nearest_floats(np.array([*(at[:1] or [fmpq(0)]), *at], dtype=object))
            places.append(np.clip(standing, box.low, box.high)[:, None])
    method = words.pop() if len(words) == 1 else "difference"
    return assemble(units, np.stack(columns), box, method, places)


def _subtract_common_form(
    up: list[WideArray], down: list[WideArray], ends: list[fmpq], box: Box
) -> tuple[list[WideArray], list[WideArray]]:
    """Subtract an affine function from both maxima (see `common_forms`)."""
    breakpoints = nearest_floats(np.array(ends, dtype=object))
    x = np.clip(np.r_[box.low, breakpoints, box.high], box.low, box.high)
    own = nearest_floats(np.stack(down))[np.searchsorted(breakpoints, x)]
    with np.errstate(over="ignore", invalid="ignore"):
        common = common_form(x[:, None], own[:, 0] * x + own[:, 1])
    if common is None:
        return up, down
    return [form - common for form in up], [form - common for form in down]
