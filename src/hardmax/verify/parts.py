r"""A certificate in parts, each checked alone: by any number of processes, in bounded memory.

Parts are certificates by tiling whose cells, taken together, are claimed to be all cells. A part is
checked as a whole certificate is (`_fast/walk.py`), but a node, a polygon $P$ with the cells that
begin with some winners, may have cells of other parts as well. Let $S$ be all winners that these
list in the group by which the node is split. The cells of a part follow one another, so a node with
cells of others begins as the first or the last cell of the part does; and for each of its prefixes
and each winner that comes next elsewhere, one cell of another part stands for all (`_thinned`).

*Why this is right.* Each part checks for every winner $j$ of its own cells that on
$P_j = \{j \ge i \text{ for all } i \in S\}$ no form of the group is above $j$. Let a point in no
listed cell, off the finitely many lines where forms tie, have the signature $\sigma$; let
$\sigma_1, \dots, \sigma_m$ be as long as possible a beginning that is listed, and let $j$ be the
largest at the point of the winners $S$ that come next in cells with this beginning. Some part has
such a cell, with $j$. It has cut its polygons by winners that are those of $\sigma$, so the point
lies in $P_j$, and $\sigma_{m + 1}$ is above $j$ there: this part was refused.
"""

import os
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.workers import Workers, in_order
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import TILING, Certificate
from hardmax.typing import AnyArray
from hardmax.verify._fast.certificates import as_strip, check_shapes, order_of
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify._fast.tiling import check_tiling

Part = str | os.PathLike[str] | Certificate
"""A part, or the file it is in."""


class _Summary(NamedTuple):
    """What others need to know of a part.

    Attributes:
        claim: All but its cells, the same for all parts.
        n_cells: How many cells it lists.
        early: Its first cell, and cells that stand for others behind it.
        late: Cells that stand for others, and its last cell.
    """

    claim: tuple[Any, ...]
    n_cells: int
    early: AnyArray
    late: AnyArray


def check_parts(
    network: ArgmaxNetwork,
    parts: Sequence[Part],
    workers: int,
    executor: Workers | None = None,
) -> int:
    """Check that parts of a certificate, in any order, prove their claim together.

    Args:
        network: The network.
        parts: The parts. Each is read twice, and only few are in memory at once.
        workers: How many are checked at once.
        executor: By whom; by processes if there are several workers.

    Returns:
        The proved number of cells.

    Raises:
        RefusedError: If they do not; the message names the part.
    """
    if not parts:
        raise RefusedError("there is no part")
    executor = executor or ("processes" if workers > 1 else None)
    summaries: list[tuple[_Summary, Part]] = []
    for part, answer in zip(
        parts, in_order(partial(_summary, network), parts, workers, executor), strict=True
    ):
        if isinstance(answer, str):
            raise RefusedError(answer)
        summaries.append((answer, part))
    summaries.sort(key=lambda one: one[0].early[0].astype(">u4").tobytes())
    found = [summary for summary, _ in summaries]
    for one, other in pairwise(found):
        if one.claim != other.claim:
            raise RefusedError("the parts are about different models or domains")
        if one.late[-1].astype(">u4").tobytes() >= other.early[0].astype(">u4").tobytes():
            raise RefusedError("the parts list cells twice, or between those of another part")
    tasks = zip((part for _, part in summaries), _contexts(found), strict=True)
    for refusal in in_order(partial(_refusal, network), tasks, workers, executor):
        if refusal is not None:
            raise RefusedError(refusal)
    return sum(one.n_cells for one in found)


def loaded(part: Part) -> Certificate:
    """Return a part, read from its file if it is in one."""
    return part if isinstance(part, Certificate) else Certificate.load(part)


def _named(part: Part, reason: str) -> str:
    return reason if isinstance(part, Certificate) else f"{Path(part).name}: {reason}"


def _summary(network: ArgmaxNetwork, part: Part) -> _Summary | str:
    """Look at the shapes and the order of a part; return what is wrong, if anything is."""
    try:
        own = loaded(part)
        check_shapes(network, own)
        if own.kind != TILING:
            raise RefusedError(f"a part must be a tiling; this shows {own.kind}")
        cells = _narrow(own.signatures)
        if (order_of(cells) != np.arange(len(cells))).any():
            raise RefusedError("the cells of a part must be in order")
    except RefusedError as refusal:
        return _named(part, str(refusal))
    tables = str(own.chart.tolist()), own.chart_denominator, str(own.rows.tolist())
    claim = (own.model, own.domain_fingerprint, *tables)
    early, late = _thinned(cells[1:], cells[0]), _thinned(cells[:-1], cells[-1])
    both = np.concatenate([cells[:1], early]), np.concatenate([late, cells[-1:]])
    return _Summary(claim, len(cells), *both)


def _narrow(signatures: AnyArray) -> AnyArray:
    return signatures.astype(np.min_scalar_type(signatures.max(initial=0)))


def _thinned(cells: AnyArray, reference: AnyArray) -> AnyArray:
    """Keep one of those cells that leave a reference at the same group for the same winner."""
    if not len(cells):
        return cells
    leaves = (cells != reference).argmax(axis=1)
    pairs = np.stack([leaves, cells[np.arange(len(cells)), leaves]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    return cells[np.sort(first)]


def _contexts(parts: list[_Summary]) -> list[tuple[AnyArray, AnyArray]]:
    """Find for each part the cells before and behind it that its nodes may have."""
    kind = np.result_type(*(part.early for part in parts))
    none = parts[0].early[:0].astype(kind)
    before, behind = [none], [none]
    for one, other in pairwise(parts):
        known = np.concatenate([before[-1], one.late.astype(kind)])
        before.append(_thinned(known, other.early[0]))
    for one, other in pairwise(parts[::-1]):
        known = np.concatenate([one.early.astype(kind), behind[-1]])
        behind.append(_thinned(known, other.late[-1]))
    return list(zip(before, behind[::-1], strict=True))


def _refusal(network: ArgmaxNetwork, task: tuple[Part, tuple[AnyArray, AnyArray]]) -> str | None:
    """Check a part; return what is wrong with it."""
    part, (before, behind) = task
    own = loaded(part)
    n, chart, rows, witnesses = len(own.signatures), own.chart, own.rows, own.witnesses.tolist()
    if chart.shape[1] == 2:
        chart, rows, witnesses = as_strip(chart, rows, witnesses)
    # Who lists a cell checks its witness; here any point of the domain stands for it.
    points = [witnesses[0]] * len(before) + witnesses + [witnesses[0]] * len(behind)
    cells = np.concatenate([before, own.signatures, behind]).astype(np.int64)
    share = len(before), len(before) + n
    try:
        check_tiling(network, (chart, own.chart_denominator, rows), cells, points, share)
    except RefusedError as refusal:
        cell = -1 if refusal.cell is None else refusal.cell - len(before)
        where = f"cell {cell}: " if 0 <= cell < n else ""
        return _named(part, f"{where}{refusal}")
    return None
