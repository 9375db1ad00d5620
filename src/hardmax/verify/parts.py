r"""A certificate in parts, each checked alone: by any number of processes, in bounded memory.

Parts are certificates whose cells, taken together, are claimed to be all cells. A part is checked
as a whole certificate is (`_fast/walk.py`, `_fast/refusals.py`), but a node, the cells that begin
with some winners, may have cells of other parts as well, some of which stand for all
(`certificate_parts`). `docs/certificates.md` has the proof for refusals.

*Why this is right for tilings.* Let $S$ be all winners that cells of a node, a polygon $P$, list in
the group by which it is split. Each part checks for every winner $j$ of its own cells that on
$P_j = \{j \ge i \text{ for all } i \in S\}$ no form of the group is above $j$. Let a point in no
listed cell, off the finitely many lines where forms tie, have the signature $\sigma$; let
$\sigma_1, \dots, \sigma_m$ be as long as possible a beginning that is listed, and let $j$ be the
largest at the point of the winners $S$ that come next in cells with this beginning. Some part has
such a cell, with $j$. It has cut its polygons by winners that are those of $\sigma$, so the point
lies in $P_j$, and $\sigma_{m + 1}$ is above $j$ there: this part was refused.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.progress import track
from hardmax._ground.workers import Workers, in_order
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import TILING, Certificate
from hardmax.regions.certificate_parts import PartContext, PartEnds, part_contexts, part_ends
from hardmax.typing import AnyArray
from hardmax.verify._fast.certificates import as_strip, check_shapes, order_of
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.refusals import RefusedError, check_refusals
from hardmax.verify._fast.tiling import check_tiling

Part = str | os.PathLike[str] | Certificate
"""A part, or the file it is in."""


class _Summary(NamedTuple):
    """What others need to know of a part.

    Attributes:
        claim: All but its cells and its proofs, the same for all parts.
        kind: Its kind, which is the last of these.
        n_cells: How many cells it lists.
        ends: What others need to know of them.
    """

    claim: tuple[Any, ...]
    kind: str
    n_cells: int
    ends: PartEnds


def check_parts(
    network: ArgmaxNetwork,
    parts: Sequence[Part],
    check_domain: Callable[[Certificate], None],
    workers: int,
    executor: Workers | None = None,
) -> int:
    """Check that parts of a certificate, in any order, prove their claim together.

    Args:
        network: The network.
        parts: The parts, at least two. Each is read twice, and only few are in memory at once.
        check_domain: Raises `RefusedError` if a certificate is not about the domain that is meant.
        workers: How many are checked at once.
        executor: By whom; by processes if there are several workers.

    Returns:
        The proved number of cells.

    Raises:
        RefusedError: If they do not; the message names the part.
    """
    executor = executor or ("processes" if workers > 1 else None)
    summaries: list[tuple[_Summary, Part]] = []
    answers = in_order(partial(_summary, network), parts, workers, executor)
    refusals: list[str] = []
    # All are read before one is refused: that a file cannot be read is an error, whatever else is.
    for part, answer in zip(parts, track(answers, "parts read", len(parts)), strict=True):
        if isinstance(answer, str):
            refusals.append(answer)
        else:
            summaries.append((answer, part))
    if refusals:
        raise RefusedError(refusals[0])
    check_domain(loaded(parts[0]))
    summaries.sort(key=lambda one: _key(one[0].ends.early[0]))
    found = [summary for summary, _ in summaries]
    for one, other in pairwise(found):
        if one.claim != other.claim:
            raise RefusedError("the parts are about different models or domains")
        if _key(one.ends.late[-1]) >= _key(other.ends.early[0]):
            raise RefusedError("the parts list cells twice, or between those of another part")
    contexts = part_contexts(network, [one.ends for one in found], found[0].kind)
    tasks = zip((part for _, part in summaries), contexts, strict=True)
    n_cells = sum(one.n_cells for one in found)
    with track(iter(()), "cells checked", n_cells) as bar:
        verdicts = in_order(partial(_refusal, network), tasks, workers, executor)
        for one, refusal in zip(found, verdicts, strict=True):
            if refusal is not None:
                raise RefusedError(refusal)
            bar.advance(one.n_cells)
    return n_cells


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
        if (order_of(own.signatures) != np.arange(own.n_cells)).any():
            raise RefusedError("the cells of a part must be in order")
    except RefusedError as refusal:
        return _named(part, str(refusal))
    return _Summary(
        own.subject(), own.kind, own.n_cells, part_ends(network, own.signatures, own.kind)
    )


def _key(signature: AnyArray) -> bytes:
    """Return what sorts cells."""
    return signature.astype(">u4").tobytes()


def _refusal(network: ArgmaxNetwork, task: tuple[Part, PartContext]) -> str | None:
    """Check a part; return what is wrong with it."""
    part, (before, behind) = task
    own = loaded(part)
    n, chart, rows, witnesses = len(own.signatures), own.chart, own.rows, own.witnesses.tolist()
    if chart.shape[1] == 2 and own.kind == TILING:
        chart, rows, witnesses = as_strip(chart, rows, witnesses)
    # Who lists a cell checks its witness; here any point of the domain stands for it.
    points = [witnesses[0]] * len(before) + witnesses + [witnesses[0]] * len(behind)
    cells = np.concatenate([before, own.signatures, behind]).astype(np.int64)
    share = len(before), len(before) + n
    try:
        if own.kind == TILING:
            domain = chart, own.chart_denominator, rows
            check_tiling(network, domain, cells, points, share)
        else:
            exact = exact_network(network, chart, own.chart_denominator)
            check_refusals(exact, rows, cells, points, own.proofs, share)
    except RefusedError as refusal:
        cell = -1 if refusal.cell is None else refusal.cell - len(before)
        where = f"cell {cell}: " if 0 <= cell < n else ""
        return _named(part, f"{where}{refusal}")
    return None
