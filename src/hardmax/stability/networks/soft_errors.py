"""Propagation of the error of the soft stream through a network in balls, for `certify_soft`."""

from collections.abc import Iterable
from typing import NamedTuple

from flint import arb, arb_mat, fmpz

from hardmax.exact.ball_matrices import ball_matrix, differences, mean_row, rows_of
from hardmax.models._arithmetic.layers import VectorBackend, finish_layer
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.stability.networks.hard_traces import HardLayer

_THIN = 2.0**-30
"""Maximum radius of weights that need no comparison with the hull of the values."""


class SoftErrors(NamedTuple):
    """The result of an error pass.

    Attributes:
        output: The soft output minus the hard output.
        rivals: For each head, a ball whose upper end bounds the weight of all keys other than the
            hard winner.
        margins: For each head, its gap in the hard network; None if it has no rivals.
        units_agree: Whether every unit certainly has the same winner in both networks.
    """

    output: list[arb]
    rivals: list[arb]
    margins: list[arb | None]
    units_agree: bool


class _LayerBalls:
    """The arrays of a layer in balls."""

    def __init__(self, layer: ArgmaxLayer) -> None:
        matrix, exponent = layer.exact_scores
        self.rows: list[list[fmpz]] = [row[:-1] for row in matrix.tolist()]
        self.unit = arb(2) ** exponent
        self.values = rows_of(ball_matrix(layer.values))
        self._gaps: dict[tuple[int, int], arb_mat] = {}
        self._centered: dict[tuple[int, ...], list[list[arb]]] = {}

    def slope(self, form: int) -> arb_mat:
        """Return the slope of one score in the stream, as a row."""
        return arb_mat(1, len(self.rows[form]), [arb(x) * self.unit for x in self.rows[form]])

    def gaps(self, winner: int, start: int, end: int) -> arb_mat:
        """Return the slopes of winner minus form for all forms of a group, formed exactly."""
        if (winner, start) not in self._gaps:
            best = self.rows[winner]
            table = [
                [arb(b - r) * self.unit for b, r in zip(best, rival, strict=True)]
                for rival in self.rows[start:end]
            ]
            self._gaps[winner, start] = arb_mat(table)
        return self._gaps[winner, start]

    def centre_values(self, tied: list[int], start: int, end: int) -> list[list[arb]]:
        """Return the values of a group minus the mean value of the tied winners."""
        key = (start, *tied)
        if key not in self._centered:
            mean = mean_row([self.values[j] for j in tied])
            self._centered[key] = differences(self.values[start:end], mean)
        return self._centered[key]


class ErrorPass:
    """Propagates errors of the soft stream through a network at given temperatures.

    Errors are mapped without biases. The gaps already contain the queries, so only the second half
    of each step through a layer remains.
    """

    def __init__(self, network: ArgmaxNetwork, taus: list[float]) -> None:
        self.network = network
        self._weights: dict[AffineMap, arb_mat] = {}
        self._numbers = VectorBackend(self._apply_weight, _add_vectors)
        self.taus = [arb(tau) for tau in taus]
        self.prepared = [_LayerBalls(layer) for layer in network.layers]

    def __call__(self, trace: Iterable[HardLayer | None]) -> SoftErrors | None:
        """Propagate the error along a trace of the hard network; None if the trace ends early."""
        error: list[arb] | None = None
        rivals: list[arb] = []
        margins: list[arb | None] = []
        agree = True
        for index, hard in enumerate(trace):
            if hard is None:
                return None
            step = _LayerStep(self.prepared[index], hard, error, self.taus[index])
            blocks = [arb(0)] * hard.layer.output.dim_in
            for group in range(hard.layer.n_groups):
                slot = int(hard.layer.slots[group])
                for k, entry in enumerate(step.contribution(group), slot):
                    blocks[k] += entry
                if hard.layer.is_table[group]:
                    rivals.append(step.rivals)
                    margins.append(step.margin(group))
                else:
                    agree &= step.keeps_winner(group)
            before = [arb(0)] * hard.layer.dim_in if error is None else error
            error = finish_layer(hard.layer, before, blocks, self._numbers)
        final = error if error is not None else [arb(0)] * self.network.readout.dim_in
        output = self._numbers.apply_affine(self.network.readout, final)
        return SoftErrors(output, rivals, margins, agree)

    def _apply_weight(self, affine: AffineMap, error: list[arb]) -> list[arb]:
        if affine not in self._weights:
            self._weights[affine] = ball_matrix(affine.weight.T)
        entries: list[arb] = (self._weights[affine] * arb_mat(len(error), 1, error)).entries()
        return entries


class _LayerStep:
    """One layer at one point; `error` is None if the soft and the hard stream are equal."""

    def __init__(
        self, prepared: _LayerBalls, hard: HardLayer, error: list[arb] | None, tau: arb
    ) -> None:
        self.prepared, self.hard, self.tau = prepared, hard, tau
        self.column = None if error is None else arb_mat(len(error), 1, error)
        self.rivals = arb(0)
        self._gaps: dict[int, list[arb]] = {}

    def contribution(self, group: int) -> list[arb]:
        """Return the soft contribution of a group to its block minus the hard one."""
        layer = self.hard.layer
        if layer.is_table[group] and self.tau > 0:
            return self._soften(group)
        if self.column is None:
            self.rivals = arb(0)
            return []
        if layer.passes_maximum[group]:
            return [self._winner_error(group) + _largest([-g for g in self.gaps(group)])]
        return self._bound_hard_error(group)

    def gaps(self, group: int) -> list[arb]:
        """Return the gaps $G_j$ of a group: hard winner minus each form, in the soft network."""
        if group not in self._gaps:
            start, end = self._forms(group)
            gaps = self.hard.gaps[start:end]
            if self.column is not None:
                moved = self.prepared.gaps(self.hard.winners[group], start, end) * self.column
                gaps = [g + d for g, d in zip(gaps, moved.entries(), strict=True)]
            self._gaps[group] = gaps
        return self._gaps[group]

    def margin(self, group: int) -> arb | None:
        """Return the smallest gap of a head's winner in the hard network, 0 on a wall."""
        start, end = self._forms(group)
        tied = self.hard.tied[group]
        rows = self.prepared.rows
        rivals = [self.hard.gaps[j] for j in range(start, end) if j not in tied]
        # Forms that tie without being copies are rivals: a change of the stream separates them.
        rivals += [arb(0) for j in tied if rows[j] != rows[tied[0]]]
        return _smallest(rivals) if rivals else None

    def keeps_winner(self, group: int) -> bool:
        """Return whether the hard winner of a group certainly wins in the soft network."""
        if self.column is None:
            return True
        start, _ = self._forms(group)
        tied = self.hard.tied[group]
        return all(
            g.is_zero() if j in tied else g > 0 for j, g in enumerate(self.gaps(group), start)
        )

    def _forms(self, group: int) -> tuple[int, int]:
        starts = self.hard.layer.starts
        return int(starts[group]), int(starts[group + 1])

    def _winner_error(self, group: int) -> arb:
        return (self.prepared.slope(self.hard.winners[group]) * self.column)[0, 0]

    def _soften(self, group: int) -> list[arb]:
        start, end = self._forms(group)
        tied = self.hard.tied[group]
        low, high = _bound_exponentials(self.gaps(group), self.tau)
        low_total, high_total = sum(low, arb(0)), sum(high, arb(0))
        kept = sum((low[j - start] for j in tied), arb(0))
        lost = sum((h for j, h in enumerate(high, start) if j not in tied), arb(0))
        self.rivals = lost / (kept + lost)
        moved = self.prepared.centre_values(tied, start, end)
        result = [arb(0)] * len(moved[0])
        is_thin = True
        # Copies of the winner have equal weights, and their values minus the mean add up to 0.
        are_copies = all(self.gaps(group)[j - start].is_zero() for j in tied)
        for j, row in enumerate(moved, start):
            if j in tied and are_copies:
                continue
            weight = _enclose_share(low[j - start], high[j - start], low_total, high_total)
            is_thin &= bool(weight.rad() < _THIN)
            if j in tied:
                weight -= arb(1) / len(tied)
            result = [r + weight * v for r, v in zip(result, row, strict=True)]
        if is_thin:
            return result
        columns = zip(*moved, strict=True)
        return [_intersect_with_hull(r, list(c)) for r, c in zip(result, columns, strict=True)]

    def _bound_hard_error(self, group: int) -> list[arb]:
        """Enclose the error of a group that stays hard, over all forms that can win."""
        start, _ = self._forms(group)
        layer, values = self.hard.layer, self.prepared.values
        gaps = self.gaps(group)
        best = _smallest([g.upper() for g in gaps])
        candidates = [j for j, g in enumerate(gaps, start) if not g > best]
        tied = self.hard.tied[group]
        hard = mean_row([self._form_contribution(j, arb(0)) for j in tied])
        column = self.column
        parts = []
        for j in candidates:
            moved = (self.prepared.slope(j) * column)[0, 0]
            soft = self._form_contribution(j, moved)
            if j == self.hard.winners[group] and len(tied) == 1:
                # The winner's own score cancels.
                parts.append([float(layer.gains[j]) * moved] + [arb(0)] * (len(values[j]) - 1))
            else:
                parts.append([s - h for s, h in zip(soft, hard, strict=True)])
        self.rivals = arb(int(any(j not in tied for j in candidates)))
        return [_hull(column) for column in zip(*parts, strict=True)]

    def _form_contribution(self, form: int, moved: arb) -> list[arb]:
        row = list(self.prepared.values[form])
        row[0] += float(self.hard.layer.gains[form]) * (self.hard.scores[form] + moved)
        return row


def _bound_exponentials(gaps: list[arb], tau: arb) -> tuple[list[arb], list[arb]]:
    r"""Return lower and upper bounds on $e^{-G/\tau}$, all divided by a common factor.

    The ends of the gaps are divided separately, because the radius of a ball has few digits and a
    gap with lower end 0 would become negative.
    """
    least, most = ([(-end / tau) for end in ends] for ends in _split_ends(gaps))
    shift = _largest([t.upper() for t in most])
    low = [(t.lower() - shift).exp().lower().nonnegative_part() for t in least]
    high = [(t.upper() - shift).exp().upper() for t in most]
    return low, high


def _split_ends(balls: list[arb]) -> tuple[list[arb], list[arb]]:
    """Return the upper and the lower ends of balls."""
    return [ball.upper() for ball in balls], [ball.lower() for ball in balls]


def _enclose_share(low: arb, high: arb, low_total: arb, high_total: arb) -> arb:
    """Enclose the ratio of one exponential to the sum of all."""
    least = low / (low + (high_total - high).nonnegative_part())
    most = high / (high + (low_total - low).nonnegative_part())
    weight = (least if low > 0 else arb(0)).union(most)
    return weight if weight.is_finite() else arb(0.5, 0.5)


def _intersect_with_hull(ball: arb, hull: list[arb]) -> arb:
    """Intersect a ball with the hull of other balls that is known to contain the number."""
    low, high = _smallest(hull).lower(), _largest(hull).upper()
    low, high = low.max(ball.lower()).lower(), high.min(ball.upper()).upper()
    return low.union(high)


def _hull(balls: Iterable[arb]) -> arb:
    first, *others = balls
    for other in others:
        first = first.union(other)
    return first


def _largest(balls: list[arb]) -> arb:
    best = balls[0]
    for ball in balls[1:]:
        best = best.max(ball)
    return best


def _smallest(balls: list[arb]) -> arb:
    return -_largest([-ball for ball in balls])


def _add_vectors(left: list[arb], right: list[arb]) -> list[arb]:
    return [x + y for x, y in zip(left, right, strict=True)]
