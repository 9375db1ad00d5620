"""Depth-first search for the tuples of winners that occur on an open cone. No checks: see callers.

Heads come one after another. A node of the search is a tuple of winners for the first heads whose
open cone is not empty; its children are the winners of the next head inside that cone. The first
child is the winner at the node's own direction; the others are found by walking the vertex graph
of the head, because the winners inside a convex cone form a connected part of it. A vertex on
the rim of that part is refused with a proof: its row lies in the cone of `dim` rows of the node
(a basis, kept for the descendants, for which it stays valid), or the origin lies inside a simplex
of `dim + 1` rows. What rounding leaves open is handed back: a support to be proved exactly (a
claim), or a whole node (parked).

The search stops whenever a buffer may run full and continues from its stack when called again.
"""

import numpy as np
from numba import njit

from hardmax._kernels.min_norm_point import CONTAINED, SEPARATED, min_norm_point
from hardmax._kernels.orientation import (
    inside_simplicial_cone,
    invert_beyond_rounding,
    positive_beyond_rounding,
)
from hardmax._kernels.refinement_buffers import (
    N_BASES_HIT,
    N_CLAIMS,
    N_NODES,
    N_PARKED,
    N_PROGRAMS,
    N_SIMPLICES,
    N_WITNESSES,
    Fan,
    Found,
    Scratch,
    Stack,
)
from hardmax.typing import BoolArray, FloatArray, IntArray

FINISHED = 0
PAUSED = 1

_LOW_DIM = 4

# Never called from Python: a wrapper that unpacks some forty arrays takes long to compile.
_part = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_part
def _take(point: FloatArray, direction: FloatArray) -> None:
    """Copy a direction, scaled to largest entry one."""
    dim = point.shape[0]
    largest = 0.0
    for t in range(dim):
        largest = max(largest, abs(point[t]))
    for t in range(dim):
        direction[t] = point[t] / largest


@_part
def _guess(points: FloatArray, base: int, end: int, direction: FloatArray, mark: IntArray) -> int:
    """Return the unmarked vertex of a head with the largest computed score, or -1."""
    dim = direction.shape[0]
    best = -np.inf
    winner = -1
    for v in range(base, end):
        if mark[v - base] == 0:
            score = 0.0
            for t in range(dim):
                score += points[v, t] * direction[t]
            if score > best or winner < 0:
                best = score
                winner = v
    return winner


@_part
def _wins(table: FloatArray, first_row: IntArray, vertex: int, direction: FloatArray) -> bool:
    """Prove that the vertex beats every neighbour, hence every point of its head."""
    for r in range(first_row[vertex], first_row[vertex + 1]):
        if not positive_beyond_rounding(table, r, direction):
            return False
    return True


@_part
def _holds(table: FloatArray, rows: IntArray, n_rows: int, direction: FloatArray) -> bool:
    """Prove that the direction lies in the open cone of the first rows."""
    a = 0
    while a < n_rows and positive_beyond_rounding(table, rows[a], direction):
        a += 1
    return a == n_rows


@_part
def _refuse(
    fan: Fan, stack: Stack, level: int, last: int, n_active: int, work: Scratch, found: Found
) -> None:
    """Prove that the origin lies in the hull of the support, or hand that over as a claim.

    `last` is the position on the stack of the row that the node itself does not have: with one
    such row in the support, the others are a basis worth keeping.
    """
    dim = work.point.shape[0]
    if n_active == dim + 1:
        # The row on the right-hand side goes last; prefer the one that the node does not have.
        right = n_active - 1
        n_new = 0
        for a in range(n_active):
            if work.support[a] >= last:
                right = a
                n_new += 1
        filled = 0
        for a in range(n_active):
            if a != right:
                work.chosen[filled] = stack.rows[work.support[a]]
                filled += 1
        # The last place of the stack of bases is scratch space.
        place = min(stack.n_bases[level], stack.inverses.shape[0] - 1)
        row = stack.rows[work.support[right]]
        if invert_beyond_rounding(
            fan.rows, work.chosen, work.matrix, stack.inverses, stack.bounds, place
        ) and inside_simplicial_cone(fan.rows, row, -1.0, stack.inverses, stack.bounds, place):
            found.counters[N_SIMPLICES] += 1
            if n_new == 1 and place < stack.inverses.shape[0] - 1:
                stack.n_bases[level] = place + 1
            return
    n_claims = found.sizes[1]
    for a in range(dim + 1):
        found.claims[n_claims, a] = stack.rows[work.support[a]] if a < n_active else -1
    for h in range(found.claim_paths.shape[1]):
        found.claim_paths[n_claims, h] = stack.winner[h] if h < level else -1
    found.sizes[1] = n_claims + 1
    found.counters[N_CLAIMS] += 1


@_part
def _known(
    rows: FloatArray, row: int, inverses: FloatArray, bounds: FloatArray, n_bases: int
) -> bool:
    """Prove from a known basis that the row is positive on the whole node."""
    for b in range(n_bases - 1, -1, -1):
        if inside_simplicial_cone(rows, row, 1.0, inverses, bounds, b):
            return True
    return False


@_part
def _push(fan: Fan, stack: Stack, place: int, row: int) -> None:
    """Put a row on the stack."""
    stack.rows[place] = row
    stack.units[place] = fan.units[row]


@_part
def _accept(
    fan: Fan, stack: Stack, level: int, vertex: int, direction: FloatArray, work: Scratch
) -> None:
    """Make the vertex a child of the node."""
    place = stack.n_members[level]
    stack.members[level, place] = vertex
    stack.directions[level, place] = direction
    stack.n_members[level] = place + 1
    work.mark[vertex - fan.first_vertex[level]] = 1


@_part
def _test(
    fan: Fan, stack: Stack, level: int, vertex: int, row: int, work: Scratch, found: Found
) -> bool:
    """Decide whether a vertex wins inside the node; False if rounding does not allow it.

    `row` is the row by which a known winner beats the vertex, or -1. Three programs at most, one
    call: the node alone for a start, once; then with the reverse of `row`, which in low dimensions
    is often enough to refuse; then with all rows of the vertex.
    """
    base = fan.first_vertex[level]
    dim = work.point.shape[0]
    n_rows = stack.n_rows[level]
    reverse = -1
    count = n_rows
    n_start = 0
    for stage in range(3):
        if stage == 0:
            if work.n_start[0] >= 0 or n_rows == 0:
                continue
        elif stage == 1:
            n_start = max(work.n_start[0], 0)
            for a in range(n_start):
                work.support[a] = work.start[a]
            if row < 0 or dim > _LOW_DIM:
                continue
            reverse = fan.reverse[row]
            _push(fan, stack, count, reverse)
            count += 1
        else:
            for r in range(fan.first_row[vertex], fan.first_row[vertex + 1]):
                if r != reverse:
                    _push(fan, stack, count, r)
                    count += 1
        work.point[:] = 0.0
        status, n_active = min_norm_point(
            stack.units,
            count,
            n_start,
            0.0,
            20 * (dim + 2),
            work.support,
            work.weights,
            work.point,
            work.basis,
            work.upper,
            work.scratch,
        )
        found.counters[N_PROGRAMS] += 1
        if stage == 0:
            work.n_start[0] = n_active
            for a in range(n_active):
                work.start[a] = work.support[a]
            continue
        if status == CONTAINED:
            _refuse(fan, stack, level, n_rows, n_active, work, found)
            work.mark[vertex - base] = 2
            return True
        if status != SEPARATED:
            return False
        n_start = n_active
        _take(work.point, work.trial)
        # Whoever wins at this direction is a child, whether it is the vertex or not.
        other = vertex
        if stage == 1:
            end = fan.first_vertex[level + 1]
            other = _guess(fan.points, base, end, work.trial, work.mark)
        if _wins(fan.rows, fan.first_row, other, work.trial) and _holds(
            fan.rows, stack.rows, n_rows, work.trial
        ):
            _accept(fan, stack, level, other, work.trial, work)
            if other == vertex:
                return True
    return False


@_part
def _expand(fan: Fan, stack: Stack, level: int, work: Scratch, found: Found) -> bool:
    """Find all children of the node at this level; False if rounding does not allow it."""
    base = fan.first_vertex[level]
    end = fan.first_vertex[level + 1]
    work.mark[: end - base] = 0
    work.n_start[0] = -1
    stack.n_members[level] = 0
    work.trial[:] = stack.direction[level]
    first = _guess(fan.points, base, end, work.trial, work.mark)
    if _wins(fan.rows, fan.first_row, first, work.trial):
        _accept(fan, stack, level, first, work.trial, work)
        found.counters[N_WITNESSES] += 1
    member = 0
    r = -1
    while True:
        if stack.n_members[level] == 0:
            # A tie at the node's own direction: the vertices by decreasing score.
            work.trial[:] = stack.direction[level]
            rival = _guess(fan.points, base, end, work.trial, work.mark)
            if rival < 0:
                return False
        else:
            vertex = stack.members[level, member]
            r = max(r + 1, fan.first_row[vertex])
            if r >= fan.first_row[vertex + 1]:
                member += 1
                r = -1
                if member == stack.n_members[level]:
                    return True
                continue
            rival = fan.rival[r]
            if work.mark[rival - base] != 0:
                continue
            if _known(fan.rows, r, stack.inverses, stack.bounds, stack.n_bases[level]):
                found.counters[N_BASES_HIT] += 1
                work.mark[rival - base] = 2
                continue
        if not _test(fan, stack, level, rival, r, work, found):
            return False


@njit(cache=True)
def search(fan: Fan, stack: Stack, root: int, steps: int, work: Scratch, found: Found) -> int:
    """Search below the node on the stack until done, out of room, or out of steps.

    Args:
        fan: The rows.
        stack: The current path; its first node is at level `root`.
        root: The level where the search ends.
        steps: How many nodes to expand at most.
        work: Buffers.
        found: Filled from `sizes` on. Needs room for `n_widest` leaves and claims and one parked
            node at every step.

    Returns:
        `FINISHED` or `PAUSED`.
    """
    n_heads = stack.winner.shape[0]
    widest = stack.members.shape[1]
    while steps > 0:
        level = stack.level[0]
        if level < root:
            return FINISHED
        if stack.n_members[level] < 0:
            room = (
                found.sizes[0] + widest <= found.leaves.shape[0]
                and found.sizes[1] + 2 * widest <= found.claims.shape[0]
                and found.sizes[2] < found.parked.shape[0]
            )
            if not room:
                return PAUSED
            steps -= 1
            found.counters[N_NODES] += 1
            claims_before = found.sizes[1]
            if not _expand(fan, stack, level, work, found):
                # The node is done again exactly: its claims so far are not needed.
                found.sizes[1] = claims_before
                for h in range(n_heads):
                    found.parked[found.sizes[2], h] = stack.winner[h] if h < level else -1
                found.sizes[2] += 1
                found.counters[N_PARKED] += 1
                stack.level[0] = level - 1
                continue
            stack.next_member[level] = 0
            if level == n_heads - 1:
                for m in range(stack.n_members[level]):
                    place = found.sizes[0]
                    for h in range(level):
                        found.leaves[place, h] = stack.winner[h]
                    found.leaves[place, level] = stack.members[level, m]
                    found.directions[place] = stack.directions[level, m]
                    found.sizes[0] = place + 1
                stack.level[0] = level - 1
                continue
        m = stack.next_member[level]
        if m == stack.n_members[level]:
            stack.level[0] = level - 1
            continue
        stack.next_member[level] = m + 1
        vertex = stack.members[level, m]
        stack.winner[level] = vertex
        count = stack.n_rows[level]
        if stack.n_members[level] > 1:
            # Only a wall against another child can bound the part of the node this child wins.
            for r in range(fan.first_row[vertex], fan.first_row[vertex + 1]):
                for other in range(stack.n_members[level]):
                    if stack.members[level, other] == fan.rival[r]:
                        _push(fan, stack, count, r)
                        count += 1
                        break
        stack.n_rows[level + 1] = count
        stack.n_bases[level + 1] = stack.n_bases[level]
        stack.direction[level + 1] = stack.directions[level, m]
        stack.n_members[level + 1] = -1
        stack.level[0] = level + 1
    return PAUSED


@njit(cache=True)
def selects(fan: Fan, leaves: IntArray, directions: FloatArray, proved: BoolArray) -> None:
    """Prove, for each tuple of vertices on its own, that its direction selects it.

    Args:
        fan: The rows, of which those after the last vertex' must be positive too.
        leaves: `(n, n_heads)`, one vertex of each head.
        directions: `(n, dim)`, taken as exact, entries at most one in absolute value.
        proved: Buffer `(n,)`.
    """
    n_leaves, n_heads = leaves.shape
    for i in range(n_leaves):
        proved[i] = True
        for h in range(n_heads):
            if not _wins(fan.rows, fan.first_row, leaves[i, h], directions[i]):
                proved[i] = False
                break
        for r in range(fan.first_row[-1], fan.rows.shape[0]):
            if not positive_beyond_rounding(fan.rows, r, directions[i]):
                proved[i] = False
                break
