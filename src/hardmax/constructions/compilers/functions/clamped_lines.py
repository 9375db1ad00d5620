r"""Functions of one variable as sums over their segments, without large terms that cancel.

If a function has steep or many pieces, the two maxima whose difference it is become far larger than
the function, because kinks of one sign add up (`knots`). With two layers, no term is large: with
knots $t_1 < \dots < t_n$, values $y_k$, slopes $m_k$ between them and $r_k = \max(x, t_k)$,

$$f(x) = y_n + \sum_{k < n} m_k (r_k - r_{k+1}) + m_- (\min(x, t_1) - t_1) + m_+ (r_n - t_n).$$

Each difference is 0 to the right of its segment and $t_k - t_{k+1}$ to the left, so no term exceeds
the change of the function over one segment. The first layer computes the $r_k$ and the second the
differences, which must be formed before they are multiplied by the slopes. A sum of hats (`hats`)
is larger, but it is accurate in float32 even if the knots are not float32 numbers.
"""

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import read_only_copy
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
    r"""Write a function of one variable as a maxout network with two hidden layers.

    The network is a sum over the segments between the knots, without large terms that cancel.

    Args:
        knots: The function.
        box: A box of dimension 1, or its text.

    Raises:
        ArgumentError: If a slope exceeds the largest float64.

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
        raise ArgumentError(
            "Every slope of `knots` must fit into float64; one exceeds the largest float64. "
            "Rescale the function."
        )
    moved = np.abs(slopes - exact_numbers(stored)) * np.array(lengths, dtype=object)[:, None]
    network = MaxoutNetwork(
        [forms, [step[None] for step in steps], stored],
        [offsets, [np.array([shift]) for shift in shifts], knots.values[-1]],
    )
    return MaxoutForm(
        network, read_only_copy(round_up(moved.sum(axis=0).tolist())), box, "segments"
    )
