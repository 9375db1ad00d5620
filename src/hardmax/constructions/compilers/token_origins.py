r"""Origins of the tokens of a compiled function: each piece is evaluated from a point of its cell.

A piece $\langle a, x\rangle + b$ that wins only far from 0, or on a thin cell, has large terms that
cancel, with a rounding error of $u(|a||x| + |b|)$. Token $c$ therefore starts with $x - o_c$
instead of $x$ (a position embedding), where $o_c$ is a corner of the cell of its pieces. The pieces
are evaluated as $\langle a, x - o_c\rangle + (b + \langle a, o_c\rangle)$, with a rounding error of
$u(|a||x - o_c| + |\ell(o_c)|)$, from the change over one cell and the value at its corner. Origins
are float32 numbers, so the shift is the same in both precisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax._ground.display import html_card, short_repr
from hardmax.constructions.compilers.unit_origins import float32_points
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.typing import FloatArray, IntArray, WideArray

_MOST_MATCHED = 1_500
"""Maximum number of pieces to match. Matching takes cubic time, a second for this number."""
_GAIN = 2.0
"""The shift is made only if it makes the numbers smaller by this factor."""


@dataclass(frozen=True, eq=False)
class TokenOrigins:
    """The origins of the tokens, and the token to which each piece of the first layer is written.

    Attributes:
        points: The origin of each token, float32 numbers, shape `(n_tokens, dim_in)`.
        tokens: The token of each piece, unit by unit, shape `(n_pieces,)`. The pieces of a unit
            have different tokens.

    Examples:
        >>> two = [np.array([[100.0], [101.0]])], [np.array([-99.0, -100.0])]
        >>> found = token_origins(*two, [np.array([[0.5], [1.0]])])
        >>> found.points.tolist(), found.tokens.tolist()
        ([[0.5], [1.0]], [0, 1])
    """

    points: FloatArray
    tokens: IntArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        points = float32_points(self.points)
        tokens = Sizes().ints("tokens", self.tokens, ("n_pieces",))
        if not ((tokens >= 0) & (tokens < len(points))).all():
            raise ArgumentError(
                f"`tokens` must contain indices from 0 to {len(points) - 1}; got indices from "
                f"{tokens.min()} to {tokens.max()}."
            )
        frozen = tokens.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "tokens", frozen)


def token_origins(
    slopes: Sequence[FloatArray], offsets: Sequence[FloatArray], places: Sequence[FloatArray]
) -> TokenOrigins | None:
    r"""Choose origins for the tokens of a layer, if this makes the numbers much smaller.

    The unit with the most pieces has one token for each of its pieces. A piece of another unit
    takes the token at the same point if that token is free. The remaining pieces are matched to the
    remaining tokens so that $|a||x - o|$ is small.

    Args:
        slopes: For each unit, its slopes $a$, shape `(n_forms, dim)`.
        offsets: For each unit, its offsets $b$, shape `(n_forms,)`.
        places: For each unit, a point of the cell of each form, shape `(n_forms, dim)`.

    Returns:
        The origins; None if the numbers would not become much smaller or would not fit float32.

    Examples:
        >>> two = [np.array([[100.0], [101.0]])], [np.array([-99.0, -100.0])]
        >>> token_origins(*two, [np.array([[0.5], [1.0]])]).points.tolist()
        [[0.5], [1.0]]
        >>> token_origins([np.array([[1.0]])], [np.array([1.0])], [np.array([[0.0]])]) is None
        True
    """
    widest = max(range(len(places)), key=lambda i: len(places[i]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        points = places[widest].astype(np.float32).astype(np.float64)
        if not np.isfinite(points).all():
            return None
        tokens = [
            _match_tokens(a, at, places[widest]) for a, at in zip(slopes, places, strict=True)
        ]
        plain = shifted = 0.0
        for a, b, at, own in zip(slopes, offsets, places, tokens, strict=True):
            origin = points[own]
            plain = max(plain, float((np.abs(a * at).sum(axis=1) + np.abs(b)).max()))
            moved = np.abs(a * (at - origin)).sum(axis=1) + np.abs((a * origin).sum(axis=1) + b)
            shifted = max(shifted, float(moved.max()))
    if not (np.isfinite(plain) and shifted * _GAIN < plain):
        return None
    return TokenOrigins(points, np.concatenate(tokens))


def shifted_offsets(slopes: WideArray, offsets: WideArray, origins: WideArray) -> FloatArray:
    r"""Return $b + \langle a, o\rangle$, correctly rounded.

    Args:
        slopes: The slopes $a$ as rationals, shape `(n_pieces, dim)`.
        offsets: The offsets $b$ as rationals, shape `(n_pieces,)`.
        origins: The origins $o$ as rationals, shape `(n_pieces, dim)`.
    """
    return nearest_floats(np.asarray(offsets + (slopes * origins).sum(axis=1), dtype=object))


def _match_tokens(slopes: FloatArray, at: FloatArray, places: FloatArray) -> IntArray:
    """Assign different tokens to the forms of a unit, with the origin at the place if possible."""
    from scipy.optimize import linear_sum_assignment

    free: dict[bytes, list[int]] = {}
    for token, place in reversed(list(enumerate(places))):
        free.setdefault((place + 0.0).tobytes(), []).append(token)
    tokens = np.full(len(at), -1, dtype=np.int64)
    for i, place in enumerate(at):
        same = free.get((place + 0.0).tobytes())
        if same:
            tokens[i] = same.pop()
    left = np.flatnonzero(tokens < 0)
    spare = np.setdiff1d(np.arange(len(places)), tokens)
    if len(left) * len(spare) > _MOST_MATCHED**2:
        tokens[left] = spare[: len(left)]
    elif len(left):
        steps = np.abs(at[left, None] - places[spare])
        cost = (np.abs(slopes[left])[:, None] * steps).sum(axis=2)
        _, chosen = linear_sum_assignment(np.where(np.isfinite(cost), cost, 2.0**1000))
        tokens[left] = spare[chosen]
    return tokens
