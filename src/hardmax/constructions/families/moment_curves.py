r"""Keys on the moment curve, for which every small set of keys can win together.

$$\gamma(t) = (t, t^2, \dots, t^d), \qquad t = \dots, -1, 0, 1, 2, \dots$$

*Theorem.* Let $S$ be a set of $\kappa$ of $N$ keys. (a) If $2\kappa \le d$ or $N - 1 \le d$, then
for some $x$, the set $S$ consists of the $\kappa$ winners for the scores
$\langle x, \gamma(t_j) \rangle$. (b) For the scores $\langle x, \gamma(t_j)\rangle - t_j^{d+1}$,
this holds if $2\kappa \le d + 1$ or $N - 1 \le d$. (c) Both statements also hold for the losers
instead of the winners, with $+ t_j^{d+1}$ in (b).

*Proof.* The polynomial $f(t) = -\prod_{j\in S}(t - t_j)^2$ is 0 on $S$ and negative at the other
keys. If $2\kappa \le d$, it is a linear form of $\gamma(t)$ plus a constant, which is the same for
all keys; a large multiple of this form also dominates any offsets. If $2\kappa = d + 1$, it is a
linear form plus a constant plus $-t^{d+1}$. For the losers, take $-f$. If $N - 1 \le d$, the keys
are affinely independent (Vandermonde), so linear forms plus constants take arbitrary values on
them. $\square$

Let $\kappa = \min(k, N - k)$. If $k > N - k$, apply the theorem to the losers. Hence all
$\binom Nk$ sets of $k$ winners occur if $d \ge \min(2\kappa, N - 1)$ (without bias) or
$d \ge \min(2\kappa - 1, N - 1)$ (with bias).
"""

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.constructions.families.model_sizes import refuse_size
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.forms import AffineForms
from hardmax.typing import FloatArray


def moment_curve(n_points: int, dim: int) -> FloatArray:
    r"""Return points $(t, t^2, \dots, t^d)$ for consecutive integers $t$ around 0.

    For these points as keys of a bias-free top-$k$ head, all $\binom Nk$ sets of winners occur if
    `dim` is at least $\min(2k, 2(N-k), N-1)$; the proof is at the top of this module. Their convex
    hull is a cyclic polytope.

    Args:
        n_points: The number of points $N \ge 1$.
        dim: The dimension $d \ge 1$.

    Returns:
        The points, shape `(n_points, dim)`.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is below 1, or float64 would round a power.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [Zie95].

    Examples:
        >>> from hardmax import PowerDiagram
        >>> from hardmax.tropical import order_k_diagram
        >>> points = moment_curve(7, 4)
        >>> points[-1].tolist()
        [3.0, 9.0, 27.0, 81.0]
        >>> order_k_diagram(PowerDiagram.from_keys(points), 2).n_cells
        21
        >>> moment_curve(1, 2).tolist()
        [[0.0, 0.0]]
    """
    n_points = integer("n_points", n_points, at_least=1)
    dim = integer("dim", dim, at_least=1)
    return _compute_powers("n_points", n_points, dim, dim)


def moment_curve_forms(n_keys: int, dim: int, *, losers: bool = False) -> AffineForms:
    r"""Return scores $\langle x, (t, \dots, t^d)\rangle \mp t^{d+1}$ for integers $t$ around 0.

    The offsets save one dimension. With the minus sign, all $\binom Nk$ sets of $k$ winners occur
    if $d \ge \min(2k - 1, N - 1)$. With the plus sign, all sets of $N - k$ losers occur if
    $d \ge \min(2(N-k) - 1, N - 1)$. The proof is at the top of this module.

    Args:
        n_keys: The number of forms $N \ge 1$.
        dim: The dimension $d \ge 1$.
        losers: Whether to use the plus sign, which is better if $2k \ge N$.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is below 1, or float64 would round a power.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [Zie95].

    Examples:
        All 21 pairs of 7 keys occur in three dimensions; without offsets, only 15 of them do:

        >>> from hardmax import PowerDiagram
        >>> from hardmax.tropical import order_k_diagram
        >>> forms = moment_curve_forms(7, 3)
        >>> order_k_diagram(PowerDiagram.from_keys(forms.slopes, forms.offsets), 2).n_cells
        21
        >>> order_k_diagram(PowerDiagram.from_keys(forms.slopes), 2).n_cells
        15

        With concave scores, the middle one of three keys is never the only loser. With convex
        scores, it can be:

        >>> [
        ...     order_k_diagram(PowerDiagram.from_keys(forms.slopes, forms.offsets), 2).n_cells
        ...     for forms in (moment_curve_forms(3, 1), moment_curve_forms(3, 1, losers=True))
        ... ]
        [2, 3]
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    dim = integer("dim", dim, at_least=1)
    if not isinstance(losers, bool | np.bool_):
        raise DtypeError(f"`losers` must be True or False; got {losers!r}.")
    powers = _compute_powers("n_keys", n_keys, dim, dim + 1)
    return AffineForms(powers[:, :-1], powers[:, -1] if losers else 0.0 - powers[:, -1])


def _compute_powers(name: str, n_points: int, dim: int, highest: int) -> FloatArray:
    largest = n_points // 2
    # Check the size first, because computing a huge power could take forever.
    if (largest.bit_length() - 1) * highest > 53 or largest**highest > 2**53:
        raise ArgumentError(
            f"`{name}` must keep all powers below 2^53, so that they are exact in float64; got "
            f"{n_points}, which requires {largest}^{highest}."
        )
    refuse_size(n_points * highest, **{name: n_points}, dim=dim)
    t = np.arange(-((n_points - 1) // 2), largest + 1, dtype=np.int64)
    return np.asarray(t[:, None] ** np.arange(1, highest + 1), dtype=np.float64)
