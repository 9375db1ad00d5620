"""Affine forms: the scores of a head, the two forms of a ReLU, the pieces of a maxout unit."""

from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.typing import FloatArray


@dataclass(frozen=True, eq=False)
class AffineForms:
    r"""The affine forms $x \mapsto \langle a_j, x \rangle + c_j$.

    This is the basic object of the library: in a group of forms the largest wins. The coefficients
    are float64 numbers and are treated as exact dyadic rationals.

    Attributes:
        slopes: The slopes $a_j$, shape `(n_forms, dim)`, one form per row.
        offsets: The offsets $c_j$, shape `(n_forms,)`.

    Examples:
        >>> absolute_value = AffineForms([[1.0], [-1.0]], [0.0, 0.0])
        >>> absolute_value(np.array([[-3.0], [2.0]])).tolist()
        [[-3.0, 3.0], [2.0, -2.0]]
    """

    slopes: FloatArray
    offsets: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        sizes = Sizes()
        slopes = sizes.floats("slopes", self.slopes, ("n_forms", "dim"), nonempty=("n_forms",))
        offsets = sizes.floats("offsets", self.offsets, ("n_forms",))
        object.__setattr__(self, "slopes", read_only_copy(slopes))
        object.__setattr__(self, "offsets", read_only_copy(offsets))

    @property
    def n_forms(self) -> int:
        """The number of forms."""
        return int(self.slopes.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space on which the forms are defined."""
        return int(self.slopes.shape[1])

    def __call__(self, points: FloatArray) -> FloatArray:
        """Evaluate every form at every row of `points` in floats; shape `(n_points, n_forms)`."""
        points = Sizes(dim=self.dim).floats("points", points, ("n_points", "dim"), nonempty=())
        return np.asarray(points @ self.slopes.T + self.offsets)
