"""Check a tiling in one or several processes, each of which checks a share of the cells.

Every process cuts the polygons that contain its cells. The work before the cells are split is
repeated in every process, but it is small.
"""

import pickle
from typing import Any

import numpy as np

from hardmax._ground.progress import track
from hardmax._ground.workers import Processes
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify._fast.tiling import check_tiling

# The approximate number of cells that are checked while another process starts.
HEAD_START = 10_000


def split_shares(n_cells: int, workers: int) -> list[tuple[int, int]]:
    """Split a list of cells into ranges, one for each process that is worth starting.

    The first range is for the current process, which is already running.

    Examples:
        >>> split_shares(20_000, 2), split_shares(15_000, 2)
        ([(0, 15000), (15000, 20000)], [(0, 15000)])
    """
    n = max(1, min(workers, n_cells // HEAD_START))
    later = (n_cells - HEAD_START) // n
    ends = [n_cells - later * k for k in range(n - 1, -1, -1)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def check_in_shares(task: tuple[Any, ...], workers: int) -> None:
    """Check a tiling in one or several processes.

    Args:
        task: The arguments of `check_tiling`, except for the share.
        workers: The maximum number of processes.

    Raises:
        RefusedError: The first error that `check_tiling` raises for a share.
    """
    network, domain, signatures, witnesses = task
    own, *others = split_shares(len(signatures), workers)
    if not others:
        with track(iter(()), "pieces") as bar:
            return check_tiling(network, domain, signatures, witnesses, own, bar.advance)
    narrow = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
    # Serialize the task once, not once per process.
    content = pickle.dumps((network, domain, narrow, witnesses))
    pool = Processes(len(others))
    try:
        answers = [pool.submit(_check_share, content, share) for share in others]
        with track(iter(()), "pieces") as bar:
            check_tiling(network, domain, signatures, witnesses, own, bar.advance)
        for answer in answers:
            refusal = answer.result()
            if refusal is not None:
                raise RefusedError(*refusal)
    finally:
        pool.shutdown(cancel_futures=True)


def _check_share(content: bytes, share: tuple[int, int]) -> tuple[str, int | None] | None:
    """Check a share; return the reason for refusal and the cell, or None."""
    try:
        network, domain, signatures, witnesses = pickle.loads(content)
        check_tiling(network, domain, signatures, witnesses, share)
    except RefusedError as refusal:
        return str(refusal), refusal.cell
    return None
