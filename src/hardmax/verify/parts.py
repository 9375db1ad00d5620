r"""Check the parts of a certificate separately, in any number of processes and bounded memory.

Parts are certificates whose cells together are claimed to be all cells. A part is checked like a
whole certificate (`_fast/walk.py`, `_fast/refusals.py`), except that a node (the cells that begin
with some winners) may also have cells of other parts, a few of which represent all of them
(`certificate_parts`). `docs/certificates.md` has the proof for refusals.

*Proof for tilings.* Let $S$ be the set of all winners that the cells of a node, a polygon $P$, list
in the group by which the node is split. Each part checks, for every winner $j$ of its own cells,
that no form of the group is larger than $j$ on $P_j = \{j \ge i \text{ for all } i \in S\}$. Now
suppose that a point lies in no listed cell, and on none of the finitely many lines of ties. Let
$\sigma$ be its signature, let $\sigma_1, \dots, \sigma_m$ be the longest prefix that is listed, let
$S$ be the set of winners that come next in cells with this prefix, and let $j$ be the largest of
them at the point. Some part has such a cell with $j$. That part has cut its polygons by the winners
of $\sigma$, so the point lies in $P_j$, and $\sigma_{m + 1}$ is larger than $j$ there. So this part
was refused.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.progress import track
from hardmax._ground.workers import Workers, map_in_order
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.certificate_format import TILING, Certificate
from hardmax.regions.certificate_parts import PartContext, PartEnds, part_contexts, part_ends
from hardmax.typing import AnyArray
from hardmax.verify._fast.certificates import as_strip, check_shapes, order_of
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.refusals import RefusedError, check_refusals
from hardmax.verify._fast.tiling import check_tiling

Part = str | os.PathLike[str] | Certificate
"""A part, or the path of its file."""


class _PartSummary(NamedTuple):
    """The data about a part that the checks of the other parts need.

    Attributes:
        claim: All fields except the cells and the proofs; the same for all parts.
        kind: The kind of the certificate, which is the last field of `claim`.
        n_cells: The number of cells that the part lists.
        ends: The data about the first and last cells that other parts need.
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
    """Check that the parts of a certificate, in any order, prove their claim together.

    Args:
        network: The network.
        parts: The parts, at least two. Each is read twice, and only a few are in memory at once.
        check_domain: Raises `RefusedError` if a certificate is about the wrong domain.
        workers: The number of parts checked concurrently.
        executor: Where parts are checked. The default is processes if there are several workers.

    Returns:
        The proven number of cells.

    Raises:
        RefusedError: If the parts do not prove their claim; the message names the part.
    """
    executor = executor or ("processes" if workers > 1 else None)
    summaries: list[tuple[_PartSummary, Part]] = []
    answers = map_in_order(partial(_summarize, network), parts, workers, executor)
    refusals: list[str] = []
    # Read all parts before refusing one, because an unreadable file is an error in any case.
    for part, answer in zip(parts, track(answers, "parts read", len(parts)), strict=True):
        if isinstance(answer, str):
            refusals.append(answer)
        else:
            summaries.append((answer, part))
    if refusals:
        raise RefusedError(refusals[0])
    check_domain(load_part(parts[0]))
    summaries.sort(key=lambda one: _sort_key(one[0].ends.early[0]))
    found = [summary for summary, _ in summaries]
    for one, other in pairwise(found):
        if one.claim != other.claim:
            raise RefusedError("the parts are about different models or domains")
        if _sort_key(one.ends.late[-1]) >= _sort_key(other.ends.early[0]):
            raise RefusedError("two parts overlap, or list the same cell")
    contexts = part_contexts(network, [one.ends for one in found], found[0].kind)
    tasks = zip((part for _, part in summaries), contexts, strict=True)
    n_cells = sum(one.n_cells for one in found)
    with track(iter(()), "cells checked", n_cells) as bar:
        verdicts = map_in_order(partial(_check_part, network), tasks, workers, executor)
        for one, refusal in zip(found, verdicts, strict=True):
            if refusal is not None:
                raise RefusedError(refusal)
            bar.advance(one.n_cells)
    return n_cells


def load_part(part: Part) -> Certificate:
    """Return a part, read from its file if a path is given."""
    return part if isinstance(part, Certificate) else Certificate.load(part)


def _name_part(part: Part, reason: str) -> str:
    return reason if isinstance(part, Certificate) else f"{Path(part).name}: {reason}"


def _summarize(network: ArgmaxNetwork, part: Part) -> _PartSummary | str:
    """Check the shapes and the order of a part; return its summary, or the reason for refusal."""
    try:
        own = load_part(part)
        check_shapes(network, own)
        if (order_of(own.signatures) != np.arange(own.n_cells)).any():
            raise RefusedError("the cells of a part must be in lexicographic order")
    except RefusedError as refusal:
        return _name_part(part, str(refusal))
    return _PartSummary(
        own.subject(), own.kind, own.n_cells, part_ends(network, own.signatures, own.kind)
    )


def _sort_key(signature: AnyArray) -> bytes:
    """Return a sort key for the lexicographic order of cells."""
    return signature.astype(">u4").tobytes()


def _check_part(network: ArgmaxNetwork, task: tuple[Part, PartContext]) -> str | None:
    """Check a part; return the reason for refusal, or None."""
    part, (before, behind) = task
    own = load_part(part)
    n, chart, rows, witnesses = len(own.signatures), own.chart, own.rows, own.witnesses.tolist()
    if chart.shape[1] == 2 and own.kind == TILING:
        chart, rows, witnesses = as_strip(chart, rows, witnesses)
    # The part that lists a cell checks its witness. For cells of other parts, any point will do.
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
        return _name_part(part, f"{where}{refusal}")
    return None
