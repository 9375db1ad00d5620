r"""The points at which heads change their keys while a whole sequence moves on a straight path.

All tokens move, from $X_0$ at $t = 0$ to $X_1$ at $t = 1$, and with them their queries and keys.
The score of key $j$ for token $i$ is therefore a quadratic polynomial

$$s_{ij}(t) = \langle q_i + t\,\dot q_i,\ k_j + t\,\dot k_j\rangle
  = a_{ij} t^2 + b_{ij} t + c_{ij}.$$

The coefficients are integers with a common scale. Key $j$ overtakes key $w$ where the difference of
their scores, $a t^2 + b t + c$, changes from negative to positive. This happens at most once: at
$t = (-b + \sqrt D)/2a$ with $D = b^2 - 4ac > 0$, where the derivative is $+\sqrt D$ (if $a = 0$, at
$-c/b$ with $b > 0$). A breakpoint therefore has a name: the fraction if it is rational, otherwise
the primitive triple $(a, b, c)$. Of the two roots of an irreducible polynomial, the triple names
one and its negative names the other. Equal names mean equal numbers and different names mean
different numbers, and balls of sufficient precision decide which number is smaller.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from math import gcd, isqrt

import numpy as np
from flint import arb, ctx, fmpz_mat

from hardmax._ground.arguments import Sizes, integer, read_only_copy
from hardmax._ground.display import html_card, pluralize
from hardmax.exact.dyadic import integer_matrix
from hardmax.models.checkpoints.heads import refuse_query_norms
from hardmax.models.checkpoints.weights import AttentionWeights, TransformerWeights, visible_keys
from hardmax.typing import AnyArray, ArrayLike, FloatArray, IntArray

Triple = tuple[int, int, int]
Name = Fraction | Triple
_BITS = 80
"""The initial precision of balls in bits; it is doubled until two roots are separated."""


@dataclass(frozen=True, eq=False, repr=False)
class AttentionPath:
    """The changes of all heads of a layer along a path.

    Attributes:
        breakpoints: The distinct $t$ in $(0, 1)$ at which some head changes its key for some token,
            rounded; shape `(n_breakpoints,)`.
        changes: One row per change: the index of its breakpoint, the head, the token, the key
            before and the key after; shape `(n_changes, 5)`.
        first: The keys just after $t = 0$, shape `(n_heads, n)`.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> one, other = (run_transformer(model, word) for word in ([2, 0, 1], [1, 2, 0]))
        >>> path = attention_path(model, one.layers[0].inputs, other.layers[0].inputs)
        >>> len(path.changes) >= len(path.breakpoints), path.changes.shape[1]
        (True, 5)
    """

    breakpoints: FloatArray
    changes: IntArray
    first: IntArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        changes = pluralize(len(self.changes), "change")
        return f"AttentionPath({pluralize(self.n_cells, 'cell')}, {changes} of keys)"

    @property
    def n_cells(self) -> int:
        """The number of intervals on which no head changes its key."""
        return len(self.breakpoints) + 1


def attention_path(
    weights: TransformerWeights, start: ArrayLike, end: ArrayLike, layer: int = 0
) -> AttentionPath:
    r"""Return the changes of keys in all heads while all tokens move from one input to another.

    The result is exact for the stored weights and the two inputs. With rotary positions, it is
    exact for the rotated weights of each position, which are rounded.

    Args:
        weights: The model.
        start: The input of the layer's heads at $t = 0$ (see `LayerActivations.inputs`), `(n, d)`.
        end: The input at $t = 1$, in the same form.
        layer: The index of the layer.

    Examples:
        From the word "cab" to "bca", in the first layer of the small transformer:

        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> one, other = (run_transformer(model, word) for word in ([2, 0, 1], [1, 2, 0]))
        >>> path = attention_path(model, one.layers[0].inputs, other.layers[0].inputs)
        >>> path.n_cells > 1, path.first.shape
        (True, (16, 3))
    """
    layer = integer("layer", layer, at_least=0, at_most=len(weights.layers) - 1)
    sizes = Sizes(d=weights.dim)
    begin = sizes.floats("start", start, ("n", "d"))
    finish = sizes.floats("end", end, ("n", "d"))
    heads, n = weights.layers[layer].attention, len(begin)
    refuse_query_norms(heads)
    seen = visible_keys(n, heads.is_causal, heads.window)
    rows = np.vstack([begin, finish])
    group = heads.n_heads // heads.n_kv_heads
    found: list[tuple[Name, int, int, int, int]] = []
    first = np.zeros((heads.n_heads, n), dtype=np.int64)
    for head in range(heads.n_heads):
        queries = _project(rows, heads.query[head], _head_bias(heads.query_bias, head), heads)
        kv = head // group
        keys = _project(rows, heads.key[kv], _head_bias(heads.key_bias, kv), heads)
        a, b, c = _score_coefficients(queries, keys, n)
        for token in range(n):
            shown = np.flatnonzero(seen[token]).tolist()
            scores = [(a[token][j], b[token][j], c[token][j]) for j in shown]
            winner, events = _upper_envelope(scores)
            first[head, token] = shown[winner]
            found += [(at, head, token, shown[i], shown[j]) for at, i, j in events]
    return _collect_changes(found, first)


def _head_bias(biases: AnyArray | None, head: int) -> AnyArray | None:
    return None if biases is None else biases[head]


def _project(
    rows: FloatArray, weight: AnyArray, bias: AnyArray | None, heads: AttentionWeights
) -> fmpz_mat:
    """Return the queries or keys at both ends as integers with one scale, shape `(2 n, d_k)`."""
    shift = np.zeros(weight.shape[1]) if bias is None else bias
    joint = np.vstack([weight, shift[None]]).astype(np.float64)
    homogeneous = np.column_stack([rows, np.ones(len(rows))])
    if heads.rotary is None:
        return integer_matrix(homogeneous)[0] * integer_matrix(joint)[0]
    # Every position has its own weights; concatenating them gives them a common scale.
    n = len(rows) // 2
    turned = np.hstack([heads.rotary(joint, np.full(len(joint), place)) for place in range(n)])
    everything = integer_matrix(homogeneous)[0] * integer_matrix(turned)[0]
    d_k, table = weight.shape[1], everything.tolist()
    return fmpz_mat([row[(i % n) * d_k : (i % n + 1) * d_k] for i, row in enumerate(table)])


def _score_coefficients(queries: fmpz_mat, keys: fmpz_mat, n: int) -> list[list[list[int]]]:
    """Return the three coefficients of all scores, each as a table of integers `(n, n)`."""
    parts = []
    for both in (queries, keys):
        table = both.tolist()
        start, end = fmpz_mat(table[:n]), fmpz_mat(table[n:])
        parts.append((start, end - start))
    (q, dq), (k, dk) = parts
    tables = (dq * dk.transpose(), q * dk.transpose() + dq * k.transpose(), q * k.transpose())
    return [[[int(entry) for entry in row] for row in table.tolist()] for table in tables]


def _upper_envelope(scores: Sequence[Triple]) -> tuple[int, list[tuple[Name, int, int]]]:
    """Return the largest quadratic polynomial just after 0, and each change of it on (0, 1).

    Equal polynomials tie everywhere; the first of them represents them all.
    """
    distinct = {score: i for i, score in reversed(list(enumerate(scores)))}
    # Just after 0, compare the constants, then the slopes, then the curvatures.
    current = max(distinct, key=lambda score: score[::-1])
    winner = distinct[current]
    events: list[tuple[Name, int, int]] = []
    now: Name = Fraction(0)
    while True:
        best: Name | None = None
        after = current
        for score in distinct:
            gap = (score[0] - current[0], score[1] - current[1], score[2] - current[2])
            at = _find_sign_change(gap)
            if at is None or not _is_less(now, at) or not _is_less(at, Fraction(1)):
                continue
            if best is None or _is_less(at, best):
                best, after = at, score
            elif at == best and _is_larger_after(score, after, at):
                after = score
        if best is None:
            return winner, events
        events.append((best, distinct[current], distinct[after]))
        current, now = after, best


def _find_sign_change(gap: Triple) -> Name | None:
    """Return the name of the root at which a polynomial changes from negative to positive."""
    a, b, c = gap
    if not a:
        return Fraction(-c, b) if b > 0 else None
    discriminant = b * b - 4 * a * c
    if discriminant <= 0:
        return None
    root = isqrt(discriminant)
    if root * root == discriminant:
        return Fraction(root - b, 2 * a)
    common = gcd(a, b, c)
    return (a // common, b // common, c // common)


def _is_larger_after(one: Triple, other: Triple, at: Name) -> bool:
    """Whether the first of two polynomials that agree at a point is larger just after it."""
    a, b, c = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    if not a:
        return b > 0
    if b * b == 4 * a * c:  # The two polynomials touch there.
        return a > 0
    bits = _BITS
    while True:
        with ctx.workprec(bits):
            slope = 2 * a * _enclose_root(at) + b
            if slope > 0 or slope < 0:
                return bool(slope > 0)
        bits *= 2


def _is_less(one: Name, other: Name) -> bool:
    """Whether one root is less than another, decided exactly."""
    if one == other:
        return False
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one < other
    bits = _BITS
    while True:
        with ctx.workprec(bits):
            left, right = _enclose_root(one), _enclose_root(other)
            if left < right or left > right:
                return bool(left < right)
        bits *= 2


def _compare(one: Name, other: Name) -> int:
    return _is_less(other, one) - _is_less(one, other)


def _enclose_root(name: Name) -> arb:
    """Enclose a root in a ball, at the precision of the context."""
    if isinstance(name, Fraction):
        return arb(name.numerator) / name.denominator
    a, b, c = name
    root = arb(b * b - 4 * a * c).sqrt()
    # Use the form of the root that does not cancel.
    return -2 * c / (b + root) if b > 0 else (root - b) / (2 * a)


def _collect_changes(
    found: list[tuple[Name, int, int, int, int]], first: IntArray
) -> AttentionPath:
    names = {event[0] for event in found}
    order = sorted(names, key=cmp_to_key(_compare))
    with ctx.workprec(_BITS):
        breakpoints = np.array([float(_enclose_root(name).mid()) for name in order])
    number = {name: i for i, name in enumerate(order)}
    rows = sorted((number[at], *rest) for at, *rest in found)
    changes = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    changes.setflags(write=False)
    first.setflags(write=False)
    return AttentionPath(read_only_copy(breakpoints), changes, first)
