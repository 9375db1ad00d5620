r"""Functions of one variable without large numbers that cancel: segment by segment.

Two maxima whose difference has steep or many pieces grow far beyond the function, as kinks of one
sign add up (`knots`). In two layers nothing grows: with knots $t_1 < \dots < t_n$, values $y_k$,
slopes $m_k$ between them and $r_k = \max(x, t_k)$,

$$f(x) = y_n + \sum_{k < n} m_k (r_k - r_{k+1}) + m_- (\min(x, t_1) - t_1) + m_+ (r_n - t_n).$$

Each difference is 0 right of its segment and $t_k - t_{k+1}$ left of it, so no term exceeds what
the function changes over one segment. The first layer has the $r_k$, the second the differences,
which must be taken before the slopes are multiplied. A sum of hats (`hats`) is larger, but knots
need not be float32 numbers for it to be right in float32.
"""

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import owned
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    exact_numbers,
    read_box,
    round_up,
)
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork


def maxout_from_segments(knots: Knots, box: Box | str) -> MaxoutForm:
    r"""Write a function of one variable as a maxout network of two hidden layers.

    Args:
        knots: The function.
        box: A box in one dimension.

    Raises:
        ArgumentError: If a slope is beyond the largest float64.

    Examples:
        >>> steep = Knots([0.0, 0.25, 0.5, 1.0], [0.0, 8.0, -8.0, 1.0])
        >>> form = maxout_from_segments(steep, Box([0], [1]))
        >>> form.network, form.method
        (MaxoutNetwork(1 -> [4, 3] -> 1, ranks 1 to 2), 'segments')
        >>> form.network([[0.125], [0.5], [0.75]]).ravel().tolist()
        [4.0, -8.0, -3.5]
    """
    box = read_box(box, 1)
    t, n = knots.positions, len(knots.positions)
    ends = [1.0 * (box.low[0] < t[0]), 1.0 * (box.high[0] > t[-1])]
    forms = [np.array([[1.0], [0.0]])] * n
    offsets = [np.array([0.0, position]) for position in t]
    steps = [np.eye(n)[k] - np.eye(n)[k + 1] for k in range(n - 1)]
    shifts = [0.0] * (n - 1)
    exact = exact_numbers(t)
    low, high = exact_numbers(box.low)[0], exact_numbers(box.high)[0]
    lengths = list(exact[1:] - exact[:-1])
    chosen = list(range(1, n))
    if ends[1] or n == 1:
        steps.append(np.eye(n)[-1])
        shifts.append(-float(t[-1]))
        lengths.append(max(high - exact[-1], fmpq(0)))
        chosen.append(n)
    if ends[0]:
        # The maximum of -x and -t is minus the minimum of x and t.
        forms.append(np.array([[-1.0], [0.0]]))
        offsets.append(np.array([0.0, -float(t[0])]))
        steps = [*(np.r_[step, 0.0] for step in steps), -np.eye(n + 1)[-1]]
        shifts.append(-float(t[0]))
        lengths.append(exact[0] - low)
        chosen.append(0)
    slopes = knots.exact_forms[chosen, :, 0]
    stored = nearest_floats(slopes)
    if not np.isfinite(stored).all():
        raise ArgumentError("every slope must fit float64; one is beyond the largest float64.")
    moved = np.abs(slopes - exact_numbers(stored)) * np.array(lengths, dtype=object)[:, None]
    network = MaxoutNetwork(
        [forms, [step[None] for step in steps], stored],
        [offsets, [np.array([shift]) for shift in shifts], knots.values[-1]],
    )
    return MaxoutForm(network, owned(round_up(moved.sum(axis=0).tolist())), box, "segments")
