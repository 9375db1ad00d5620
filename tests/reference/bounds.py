"""Counts by definition, in integers and fractions: slow, obvious, independent of the formulas."""

from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, prod

from tests.reference.convexity import open_cone_is_nonempty


def serra_by_enumeration(input_dim, widths):
    """Sum over the index set J of Serra's theorem, one index after the other."""

    def total(layer, smallest):
        if layer == len(widths):
            return 1
        return sum(
            comb(widths[layer], j) * total(layer + 1, min(smallest, widths[layer] - j))
            for j in range(min(smallest, widths[layer]) + 1)
        )

    return total(0, input_dim)


def weibel_sum(partial_counts, n_polytopes, dim):
    """Weibel's alternating sum for the vertices of a sum of at least `dim` polytopes.

    `partial_counts` maps tuples of up to `dim - 1` indices to the vertices of that partial sum.
    """
    alpha = 2 if dim % 2 else 0
    return alpha + sum(
        (-1) ** (dim - 1 - j)
        * comb(n_polytopes - 1 - j, dim - 1 - j)
        * sum(partial_counts[s] - alpha for s in combinations(range(n_polytopes), j))
        for j in range(1, dim)
    )


def weibel_maximum(sizes, dim):
    """Insert the products into Weibel's alternating sum."""
    products = {
        s: prod(sizes[i] for i in s)
        for j in range(1, dim)
        for s in combinations(range(len(sizes)), j)
    }
    return weibel_sum(products, len(sizes), dim)


def joint_cells(groups, affine, is_open=open_cone_is_nonempty):
    """List the choices of one winner per group that happen on an open set.

    A group is a list of integer tuples: the slope, and last the offset if `affine`.
    """
    dim = len(groups[0][0])
    upwards = [[0] * (dim - 1) + [1]] if affine else []
    found = [((), upwards)]
    for group in groups:
        longer = []
        for choice, rows in found:
            for j, winner in enumerate(group):
                beaten = [
                    [a - b for a, b in zip(winner, other, strict=True)]
                    for i, other in enumerate(group)
                    if i != j
                ]
                if is_open(rows + beaten):
                    longer.append(((*choice, j), rows + beaten))
        found = longer
    return [choice for choice, _ in found]


def winning_sets(forms, k, affine, is_open=open_cone_is_nonempty):
    """List the sets of `k` forms that are the largest ones on an open set."""
    dim = len(forms[0])
    upwards = [[0] * (dim - 1) + [1]] if affine else []
    return [
        chosen
        for chosen in combinations(range(len(forms)), k)
        if is_open(
            upwards
            + [
                [a - b for a, b in zip(forms[i], forms[j], strict=True)]
                for i in chosen
                for j in range(len(forms))
                if j not in chosen
            ]
        )
    ]


def attaining_points(sizes, dim):
    """Polygons whose sum has as many vertices as possible: integer points, one list per size.

    Head m has the points (t u_m, -t^2 + e_m t), scaled; (u_m, e_m) lies on the moment curve.
    """
    scale = 4 * len(sizes) ** (dim - 1)
    return [
        [
            (
                *(scale * t * m**power for power in range(dim - 1)),
                -scale * t * t + m ** (dim - 1) * t,
            )
            for t in range(-(size // 2), size - size // 2)
        ]
        for m, size in enumerate(sizes, start=1)
    ]


def slabs(sizes, dim, rng):
    """Heads that cut space into parallel slabs, in general position: `(slope, offset)` tuples."""
    groups = []
    for size in sizes:
        direction = [int(x) for x in rng.integers(-1000, 1000, dim)]
        shift = int(rng.integers(-1000, 1000))
        groups.append([(*(p * a for a in direction), p * shift - 700 * p * p) for p in range(size)])
    return groups


# Exact polygons: a convex polygon is a list of points (Fraction, Fraction) in cyclic order.


def square(half_width):
    """The square with this half width about the origin."""
    w = Fraction(half_width)
    return [(-w, -w), (w, -w), (w, w), (-w, w)]


def part_above(polygon, form):
    """The part of a polygon where `form = (a, b, c)`, a x + b y + c, is positive; maybe None."""
    a, b, c = form
    values = [a * x + b * y + c for x, y in polygon]
    if not any(v > 0 for v in values):
        return None
    points = []
    for i, (p, v) in enumerate(zip(polygon, values, strict=True)):
        q, w = polygon[i - 1], values[i - 1]
        if (v > 0 and w < 0) or (v < 0 and w > 0):
            s = w / (w - v)
            points.append((q[0] + s * (p[0] - q[0]), q[1] + s * (p[1] - q[1])))
        if v >= 0:
            points.append(p)
    return points


def cut_by_relu(polygon, stream, weight, bias):
    """Cut by ReLU units: yields `(polygon, bits, activations)`; `stream` holds forms of (x, y)."""
    pieces = [(polygon, (), [])]
    for column, shift in zip(weight.T, bias, strict=True):
        form = _combine(column, stream, shift)
        longer = []
        for piece, bits, active in pieces:
            on = part_above(piece, form)
            off = part_above(piece, [-x for x in form])
            if on is not None:
                longer.append((on, (*bits, 1), [*active, form]))
            if off is not None or on is None:
                rest = piece if off is None else off
                longer.append((rest, (*bits, 0), [*active, [Fraction(0)] * 3]))
        pieces = longer
    return pieces


def cut_by_heads(polygon, stream, heads):
    """Cut by hard attention heads: yields `(polygon, winners)`.

    A head is `(slopes, offsets, values)`; its scores are `slopes @ z + offsets`.
    """
    pieces = [(polygon, ())]
    for slopes, offsets, _ in heads:
        forms = [_combine(row, stream, c) for row, c in zip(slopes, offsets, strict=True)]
        longer = []
        for piece, winners in pieces:
            for j, form in enumerate(forms):
                part = piece
                for i, other in enumerate(forms):
                    if i != j and part is not None:
                        part = part_above(part, [a - b for a, b in zip(form, other, strict=True)])
                if part is not None:
                    longer.append((part, (*winners, j)))
        pieces = longer
    return pieces


def relu_patterns(weights, biases, half_width):
    """Activation patterns of a ReLU network on two inputs, layer by layer, inside a square."""
    cells = [(square(half_width), (), identity_stream())]
    for weight, bias in zip(weights, biases, strict=True):
        cells = [
            (piece, (*bits, more), active)
            for polygon, bits, stream in cells
            for piece, more, active in cut_by_relu(polygon, stream, weight, bias)
        ]
    return [bits for _, bits, _ in cells]


def transformer_signatures(
    blocks, half_width, start=None, attention_residual=True, ffn_residual=True
):
    """Signatures and maps of a hard transformer in the plane.

    A block is `(heads, ffn)`, where ffn is None or `(w_in, b_in, w_out, b_out)`.
    """
    zero = [Fraction(0)] * 3
    cells = [(start or square(half_width), (), identity_stream())]
    for heads, ffn in blocks:
        routed = []
        for polygon, signature, stream in cells:
            for piece, winners in cut_by_heads(polygon, stream, heads):
                moved = [list(form if attention_residual else zero) for form in stream]
                for (_, _, values), j in zip(heads, winners, strict=True):
                    for form, value in zip(moved, values[j], strict=True):
                        form[2] += Fraction(value)
                routed.append((piece, (*signature, winners), moved))
        if ffn is None:
            cells = routed
            continue
        w_in, b_in, w_out, b_out = ffn
        cells = []
        for polygon, signature, stream in routed:
            for piece, bits, active in cut_by_relu(polygon, stream, w_in, b_in):
                out = []
                for i, form in enumerate(stream):
                    made = _combine(w_out[:, i], active, b_out[i])
                    kept = form if ffn_residual else zero
                    out.append([a + b for a, b in zip(made, kept, strict=True)])
                cells.append((piece, (*signature, bits), out))
    return [(signature, tuple(map(tuple, stream))) for _, signature, stream in cells]


def identity_stream():
    """The forms x and y."""
    return [[Fraction(1), Fraction(0), Fraction(0)], [Fraction(0), Fraction(1), Fraction(0)]]


def _combine(coefficients, forms, shift):
    total = [Fraction(0), Fraction(0), Fraction(shift)]
    for c, form in zip(coefficients, forms, strict=True):
        if c:
            total = [t + Fraction(c) * f for t, f in zip(total, form, strict=True)]
    return total


# Networks on a line, exactly: a piece is (low, high, stream), the stream a list of (slope, offset).


def cut_interval(low, high, stream, groups):
    """Cut an interval by the winner of every group of forms `(coefficients, constant)`."""
    pieces = [(low, high, ())]
    for group in groups:
        forms = [_on_line(stream, coefficients, constant) for coefficients, constant in group]
        longer = []
        for lo, hi, winners in pieces:
            for j, (a, b) in enumerate(forms):
                left, right = lo, hi
                for i, (c, e) in enumerate(forms):
                    if i == j:
                        continue
                    if a == c:
                        right = right if b > e or (b == e and j < i) else left
                    elif a > c:
                        left = max(left, (e - b) / (a - c))
                    else:
                        right = min(right, (e - b) / (a - c))
                if left < right:
                    longer.append((left, right, (*winners, j)))
        pieces = longer
    return pieces


def folding_pieces(n_keys, n_heads, n_units, depth, residual=False):
    """The affine pieces on [0, 1] of blocks that subtract floor(n x) / n and fold n times that.

    Every head is an argmax over its keys and every unit a ReLU. Without units the heads of each
    block divide the interval that the block before left over.
    """
    n_cells = 1 + n_heads * (n_keys - 1)
    pieces = [(Fraction(0), Fraction(1), [(Fraction(1), Fraction(0))])]
    for layer in range(depth):
        unit = Fraction(1) if n_units else Fraction(1, n_cells**layer)
        breaks = [unit * Fraction(i, n_cells) for i in range(1, n_cells)]
        heads = [
            [((j,), -sum(breaks[head::n_heads][:j], Fraction(0))) for j in range(n_keys)]
            for head in range(n_heads)
        ]
        pieces = [
            (lo, hi, [(a, b - unit * Fraction(sum(winners), n_cells))])
            for low, high, [(a, b)] in pieces
            for lo, hi, winners in cut_interval(low, high, [(a, b)], heads)
        ]
        if n_units:
            pieces = _fold(pieces, n_cells, n_units, residual)
    return pieces


def _fold(pieces, n_cells, n_units, residual):
    kinks = [Fraction(-1), *(Fraction(i, n_units) for i in range(1, n_units))]
    strengths = [Fraction(n_units), *(2 * n_units * Fraction((-1) ** i) for i in range(1, n_units))]
    if residual:
        strengths[0] -= Fraction(1, n_cells)
    units = [[((0,), 0), ((n_cells,), -kink)] for kink in kinks]
    result = []
    for low, high, [(a, b)] in pieces:
        for lo, hi, bits in cut_interval(low, high, [(a, b)], units):
            slope, offset = (a, b) if residual else (Fraction(0), Fraction(0))
            offset -= strengths[0]  # what the first unit has at 0
            for bit, kink, strength in zip(bits, kinks, strengths, strict=True):
                slope += bit * strength * n_cells * a
                offset += bit * strength * (n_cells * b - kink)
            result.append((lo, hi, [(slope, offset)]))
    return result


def maxout_zigzag(n_units, rank, depth, last_width):
    """The pieces on [0, 1] of `depth` maxout layers that fold, and one that cuts.

    Units in even places are added by the next layer, units in odd places subtracted.
    """
    n_minus = n_units // 2 * (rank - 1)
    n_kinks = 2 * n_minus + n_units % 2
    at = [Fraction(i, n_kinks + 1) for i in range(1, n_kinks + 1)]
    # Convex kinks first and then alternating; each unit takes up to rank - 1 of its own sign.
    convex, concave = at[0::2], at[1::2]
    units, signs = [], []
    for i in range(n_units):
        own = convex if i % 2 == 0 else concave
        kinks = own[(i // 2) * (rank - 1) : (i // 2 + 1) * (rank - 1)]
        slope, offset = Fraction(0), Fraction(0)
        forms = [(slope, offset)]
        for kink in kinks:
            slope += 2 * (n_kinks + 1)
            offset -= 2 * (n_kinks + 1) * kink
            forms.append((slope, offset))
        units.append(forms)
        signs.append(1 if i % 2 == 0 else -1)
    # 1 - (n_kinks + 1) x + sum of the kinks is the zigzag; the first unit carries the line.
    units[0] = [(s - (n_kinks + 1), o + 1) for s, o in units[0]]
    pieces = [(Fraction(0), Fraction(1), [(Fraction(1), Fraction(0))])]
    for _ in range(depth):
        groups = [[((s,), o) for s, o in forms] for forms in units]
        pieces = [
            (lo, hi, [_signed_sum(stream, groups, winners, signs)])
            for low, high, stream in pieces
            for lo, hi, winners in cut_interval(low, high, stream, groups)
        ]
    n_last = last_width * (rank - 1)
    last = [Fraction(i + 1, n_last + 1) for i in range(n_last)]
    groups = [
        [((j,), -sum(last[unit::last_width][:j], Fraction(0))) for j in range(rank)]
        for unit in range(last_width)
    ]
    return [
        (lo, hi, winners)
        for low, high, stream in pieces
        for lo, hi, winners in cut_interval(low, high, stream, groups)
    ]


def _signed_sum(stream, groups, winners, signs):
    chosen = [
        _on_line(stream, *group[winner]) for group, winner in zip(groups, winners, strict=True)
    ]
    return tuple(sum(sign * f[i] for sign, f in zip(signs, chosen, strict=True)) for i in (0, 1))


def _on_line(stream, coefficients, constant):
    slope = sum((c * a for c, (a, _) in zip(coefficients, stream, strict=True)), Fraction(0))
    offset = sum((c * b for c, (_, b) in zip(coefficients, stream, strict=True)), Fraction(0))
    return slope, offset + constant


def random_network(rng, sizes, scale=8):
    """Integer weights and biases of a ReLU network with these layer sizes."""
    weights = [rng.integers(-scale, scale + 1, (m, n)).astype(object) for m, n in pairwise(sizes)]
    biases = [rng.integers(-scale, scale + 1, n).astype(object) for n in sizes[1:]]
    return weights, biases
