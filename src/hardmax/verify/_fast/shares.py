"""A tiling checked by several processes, each of which looks at a share of the cells.

Every process cuts the polygons that its cells come from: what comes before a split of the cells is
done more than once, which is little.
"""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np

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
    content = pickle.dumps((network, domain, narrow, witnesses))
    path = os.pathsep.join(entry for entry in sys.path if entry)
    children = []
    try:
        for i in range(n_shares):
            share = [str(n_cells * k // n_shares) for k in (i, i + 1)]
            child = subprocess.Popen(
                [sys.executable, "-m", __name__, *share],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
            children.append(child)
        for child in children:
            assert child.stdin is not None
            child.stdin.write(content)
            child.stdin.close()
            child.stdin = None
        answers = [child.communicate()[0] for child in children]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
    for child, answer in zip(children, answers, strict=True):
        if child.returncode:
            raise RuntimeError(f"a process that checks a share ended with {child.returncode}")
        refusal = pickle.loads(answer)
        if refusal is not None:
            raise RefusedError(*refusal)


def main() -> None:
    """Check the share of this process."""
    share = int(sys.argv[1]), int(sys.argv[2])
    network, domain, signatures, witnesses = pickle.loads(sys.stdin.buffer.read())
    answer = None
    try:
        check_tiling(network, domain, signatures, witnesses, share)
    except RefusedError as refusal:
        answer = (str(refusal), refusal.cell)
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
