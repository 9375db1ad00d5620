"""Cells, neighbours and regions by their definitions, in fractions: slow, obvious, any dimension.

A network is only read as numbers. Whether an open polyhedron is empty is decided by a textbook
simplex method with Bland's rule, in rationals of flint. Nothing of the library computes here.
"""

from fractions import Fraction
from itertools import combinations

from flint import fmpq

from tests.reference.networks import form_rows


def open_cone_is_empty(rows):
    """Decide whether no u has <r, u> > 0 for all rows, by maximising s <= 1 with <r, u> >= s."""
    if not rows:
        return False
    n = len(rows[0])
    # Columns: u = p - q with p, q >= 0, then s, then the slacks; the origin is feasible.
    table = [[fmpq(x.numerator, x.denominator) for x in row] for row in rows]
    table = [[-x for x in row] + row + [fmpq(1)] for row in table]
    table.append([fmpq(0)] * (2 * n) + [fmpq(1)])
    slack = len(table)
    for i, row in enumerate(table):
        row.extend(fmpq(int(j == i)) for j in range(slack))
    right = [fmpq(0)] * len(rows) + [fmpq(1)]
    cost = [fmpq(0)] * (2 * n) + [fmpq(1)] + [fmpq(0)] * slack
    basis = [2 * n + 1 + i for i in range(slack)]
    value = fmpq(0)
    while value == 0:
        entering = next((j for j, c in enumerate(cost) if c > 0), None)
        if entering is None:
            return True
        ratios = [
            (right[i] / row[entering], basis[i], i)
            for i, row in enumerate(table)
            if row[entering] > 0
        ]
        _, _, leaving = min(ratios)
        pivot = table[leaving][entering]
        table[leaving] = [x / pivot for x in table[leaving]]
        right[leaving] /= pivot
        for i, row in enumerate(table):
            factor = row[entering]
            if i != leaving and factor:
                table[i] = [
                    a - factor * b if b else a for a, b in zip(row, table[leaving], strict=True)
                ]
                right[i] -= factor * right[leaving]
        factor = cost[entering]
        cost = [a - factor * b if b else a for a, b in zip(cost, table[leaving], strict=True)]
        value += factor * right[leaving]
        basis[leaving] = entering
    return False


def compose(forms, weight, bias):
    """Forms (a, c) of z through z W + b."""
    return [
        [
            sum((Fraction(w[k]) * z[i] for w, z in zip(weight, forms, strict=True)), Fraction(0))
            + (Fraction(bias[k]) if i == len(forms[0]) - 1 else 0)
            for i in range(len(forms[0]))
        ]
        for k in range(len(bias))
    ]


def chart_coordinates(weight, bias):
    """The coordinates of x = t W + b as forms in t."""
    return [[Fraction(row[k]) for row in weight] + [Fraction(bias[k])] for k in range(len(bias))]


def cells(network, coordinates, domain_rows):
    """List all cells as (signature, rows, map): each row (a, c) is positive at (t, 1) inside.

    Args:
        network: An ArgmaxNetwork.
        coordinates: The inputs as forms (a, c) in the coordinates t of the domain.
        domain_rows: Inequalities (a, b) for <a, t> <= b.
    """
    dim = len(coordinates[0]) - 1
    rows = [[-Fraction(x) for x in row[:-1]] + [Fraction(row[-1])] for row in domain_rows]
    rows.append([Fraction(0)] * dim + [Fraction(1)])
    start = compose(coordinates, network.embedding.weight.tolist(), network.embedding.bias.tolist())
    return list(_layer_cells(network, 0, start, (), rows))


def _layer_cells(network, index, stream, signature, rows):
    if index == len(network.layers):
        readout = network.readout
        yield signature, rows, compose(stream, readout.weight.tolist(), readout.bias.tolist())
        return
    layer = network.layers[index]
    query = compose(stream, layer.query.weight.tolist(), layer.query.bias.tolist())
    scores = score_forms(layer, query)
    for winners, inside in _split(layer, scores, 0, (), rows):
        after = _advance(layer, stream, scores, winners)
        yield from _layer_cells(network, index + 1, after, signature + winners, inside)


def score_forms(layer, query):
    """The scores of a layer from the forms of its query."""
    columns = [list(column) for column in zip(*form_rows(layer), strict=True)]
    return compose(query, columns, layer.offsets.tolist())


def _split(layer, scores, group, winners, rows):
    if group == layer.n_groups:
        yield winners, rows
        return
    forms = scores[int(layer.starts[group]) : int(layer.starts[group + 1])]
    for j, form in enumerate(forms):
        if form in forms[:j]:
            continue
        more = [
            [a - b for a, b in zip(form, other, strict=True)] for other in forms if other != form
        ]
        if not open_cone_is_empty(rows + more):
            yield from _split(layer, scores, group + 1, (*winners, j), rows + more)


def _advance(layer, stream, scores, winners):
    columns = len(stream[0])
    blocks = [[Fraction(0)] * columns for _ in range(layer.output.dim_in)]
    for g, winner in enumerate(winners):
        start, end, slot = int(layer.starts[g]), int(layer.starts[g + 1]), int(layer.slots[g])
        tied = [j for j in range(start, end) if scores[j] == scores[start + winner]]
        for j in tied:
            gain = Fraction(float(layer.gains[j])) / len(tied)
            blocks[slot] = [b + gain * s for b, s in zip(blocks[slot], scores[j], strict=True)]
            for k, value in enumerate(layer.values[j].tolist()):
                blocks[slot + k][-1] += Fraction(value) / len(tied)
    after = compose(blocks, layer.output.weight.tolist(), layer.output.bias.tolist())
    if layer.residual:
        after = [
            [a + b for a, b in zip(new, old, strict=True)]
            for new, old in zip(after, stream, strict=True)
        ]
    return after


def _direction(row):
    """Scale a row so that its first nonzero entry of the slope is 1 or -1."""
    lead = next((x for x in row[:-1] if x), None)
    return None if lead is None else tuple(x / abs(lead) for x in row)


def are_neighbours(rows, others):
    """Decide whether the closures of two disjoint open cells share a set of dimension d - 1."""
    mine = {_direction(row) for row in rows} - {None}
    theirs = {_direction(row) for row in others} - {None}
    height = (*[Fraction(0)] * (len(rows[0]) - 1), Fraction(1))
    for wall in mine:
        opposite = tuple(-x for x in wall)
        if opposite not in theirs:
            continue
        pivot = next(i for i, x in enumerate(wall) if x)
        rest = [row for row in (mine - {wall}) | (theirs - {opposite}) | {height}]
        # On the wall, u[pivot] is a combination of the other coordinates.
        inside = [
            [row[i] - row[pivot] * wall[i] / wall[pivot] for i in range(len(row)) if i != pivot]
            for row in rest
        ]
        if not open_cone_is_empty(inside):
            return True
    return False


def neighbours(found):
    """List all pairs of cells that share a part of a wall."""
    return [
        (i, j)
        for i, j in combinations(range(len(found)), 2)
        if are_neighbours(found[i][1], found[j][1])
    ]


def counts(found):
    """Return the numbers of cells, of regions and of affine maps."""
    maps = [tuple(map(tuple, forms)) for _, _, forms in found]
    label = list(range(len(found)))
    for i, j in neighbours(found):
        if maps[i] == maps[j]:
            old, new = label[j], label[i]
            label = [new if x == old else x for x in label]
    return len(found), len(set(label)), len(set(maps))
