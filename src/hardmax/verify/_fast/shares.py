"""A tiling checked by several processes, each of which looks at a share of the cells.

Every process cuts the polygons that its cells come from: what comes before a split of the cells is
done more than once, which is little.
"""

import pickle
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._ground.workers import in_order
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify._fast.tiling import check_tiling


def check_in_shares(task: tuple[Any, ...], n_shares: int) -> None:
    """Check a tiling in several processes.

    Args:
        task: The arguments of `check_tiling` but the share.
        n_shares: How many processes.

    Raises:
        RefusedError: As `check_tiling` does, the first of those that the shares raise.
    """
    network, domain, signatures, witnesses = task
    n_cells = len(signatures)
    narrow = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
    # Written once, not once for each process.
    content = pickle.dumps((network, domain, narrow, witnesses))
    ends = [n_cells * k // n_shares for k in range(n_shares + 1)]
    work = partial(_refusal, content)
    for refusal in in_order(work, pairwise(ends), n_shares, "processes"):
        if refusal is not None:
            raise RefusedError(*refusal)


def _refusal(content: bytes, share: tuple[int, int]) -> tuple[str, int | None] | None:
    """Check a share; return what is wrong with it."""
    try:
        network, domain, signatures, witnesses = pickle.loads(content)
        check_tiling(network, domain, signatures, witnesses, share)
    except RefusedError as refusal:
        return str(refusal), refusal.cell
    return None
