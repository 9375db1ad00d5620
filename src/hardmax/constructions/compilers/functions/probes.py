r"""Points spread over a box, so that no narrow feature of a function hides in a large simplex.

A mesh that is refined where samples show an error must see the error first. Samples at a few places
of each simplex miss a peak between them, and then nothing is refined there, ever. Probes are
evaluated once, before the mesh exists, and every simplex is judged by those inside it as well: what
is wider than about $n^{-1/d}$ of the box is seen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray

_N_PROBES = 4096
_AT_ONCE = 64
_INSIDE = -(2.0**-30)
_NOTHING = 2.0**-40
"""Errors below this fraction of the largest value are taken for rounding."""


@dataclass(frozen=True, eq=False)
class Probes:
    """A function at points of a box.

    Attributes:
        box: The box.
        places: The points, relative to the box: from 0 to 1, shape `(n_probes, dim)`.
        values: The function there, shape `(n_probes, dim_out)`.
    """

    box: Box
    places: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, f: Callable[[FloatArray], FloatArray], box: Box) -> "Probes":
        r"""Evaluate a function at evenly spread points that no bisection of the box meets.

        They are $\{k\alpha_i + \frac12\}$, $\alpha_i = g^{-i}$ with the root $g > 1$ of $g^{d+1} =
        g + 1$: the golden ratio if $d = 1$.

        Examples:
            >>> probes = Probes.of(lambda x: x[:, :1] ** 2, Box([2.0], [4.0]))
            >>> probes.values.shape, bool(np.diff(np.sort(probes.places[:, 0])).max() < 0.001)
            ((4096, 1), True)
        """
        roots = np.roots([1.0, *[0.0] * (box.dim - 1), -1.0, -1.0])
        root = float(roots[np.abs(roots.imag) < 1e-9].real.max())
        steps = root ** -np.arange(1.0, box.dim + 1.0)
        places = (np.arange(_N_PROBES)[:, None] * steps + 0.5) % 1.0
        points = box.low * (1.0 - places) + box.high * places
        return cls(box, places, f(np.clip(points, box.low, box.high)))

    def errors(self, corners: FloatArray, at_corners: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest error of interpolation at the probes in each simplex, and where.

        Args:
            corners: The simplices, shape `(n, dim + 1, dim)`.
            at_corners: The function there, shape `(n, dim + 1, dim_out)`.

        Returns:
            The errors, shape `(n,)`, 0 where there is no probe or no more than rounding; and the
            barycentric coordinates of the worst probes, shape `(n, dim + 1)`.
        """
        worst, where = np.zeros(len(corners)), np.zeros(corners.shape[:2])
        for start in range(0, len(corners), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            weights = self._weights(corners[part])
            errors = np.abs(self.values - weights @ at_corners[part]).max(axis=2)
            errors[(weights < _INSIDE).any(axis=2)] = 0.0
            rows, best = np.arange(len(errors)), errors.argmax(axis=1)
            worst[part] = errors[rows, best]
            where[part] = np.maximum(weights[rows, best], 0.0)
        worst[worst <= _NOTHING * np.abs(self.values).max()] = 0.0
        where[worst == 0.0, 0] = 1.0
        return worst, where / where.sum(axis=1, keepdims=True)

    def _weights(self, corners: FloatArray) -> FloatArray:
        """The barycentric coordinates of all probes in simplices: `(n, n_probes, dim + 1)`."""
        side = self.box.high - self.box.low
        relative = (corners - self.box.low) / side
        frames = np.linalg.inv(relative[:, 1:] - relative[:, :1])
        inner = (self.places - relative[:, :1]) @ frames
        return np.concatenate([1.0 - inner.sum(axis=2, keepdims=True), inner], axis=2)
