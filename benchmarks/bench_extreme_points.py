"""Extreme keys: this library against one linear program per key, in the same run.

For one key, HiGHS looks for weights that represent it as a convex combination of the others, or for
a direction that separates it. The cheaper of the two is timed on a few keys and multiplied by the
number of keys.
"""

import sys
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.extreme_points import certify_extreme_points, extreme_points

KINDS = ("gaussian", "spectrum 1/i", "half inside", "scales 1..1e-8")
N_TIMED = 2
"""Number of keys for which the other program is timed."""


def draw_keys(kind, n_keys, dim, seed=0):
    """Draw keys: Gaussian, with a decaying spectrum, half of them well inside, or badly scaled."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_keys, dim))
    if kind == "spectrum 1/i":
        points /= np.arange(1, dim + 1)
    elif kind == "half inside":
        points[n_keys // 2 :] *= 0.1
    elif kind == "scales 1..1e-8":
        points *= np.logspace(0, -8, dim)
    return points


def find_separating_direction(points, i):
    """Return whether HiGHS finds a direction in which key `i` wins by one."""
    rows = np.delete(points, i, axis=0) - points[i]
    free = (None, None)
    program = linprog(
        np.zeros(points.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=free, method="highs"
    )
    return program.status == 0


def find_combination(points, i):
    """Return whether HiGHS finds no weights that represent key `i` as a combination."""
    others = np.delete(points, i, axis=0)
    system = np.vstack([others.T, np.ones(len(others))])
    target = np.append(points[i], 1.0)
    program = linprog(np.zeros(len(others)), A_eq=system, b_eq=target, method="highs")
    return program.status == 2


def tables() -> Iterator[Table]:
    """Yield the times of large sets of keys."""
    extreme_points(draw_keys("half inside", 40, 3))
    rows = []
    cases = [("gaussian", 4096, 8), *((kind, 1024, 64) for kind in KINDS[1:])]
    cases += [(kind, 4096, 64) for kind in (KINDS if "--full" in sys.argv else KINDS[:1])]
    for kind, n_keys, dim in cases:
        points = draw_keys(kind, n_keys, dim)
        mask, ours = cpu_seconds(lambda p=points: extreme_points(p))
        certificates, certify = cpu_seconds(lambda p=points: certify_extreme_points(p))
        verified, verify = cpu_seconds(lambda p=points, c=certificates: c.verify(p))
        assert verified
        assert (certificates.is_extreme == mask).all()
        peer = min(
            estimate_peer_seconds(peer, points, mask)
            for peer in (find_separating_direction, find_combination)
        )
        rows.append((kind, n_keys, dim, int(mask.sum()), ours, peer, peer / ours, certify, verify))
    yield Table(
        "Keys that can win, with certificates",
        ("keys", "N", "d", "extreme", "CPU s", "HiGHS", "ratio", "certified", "verified"),
        rows,
        f"""All times are CPU seconds. HiGHS solves one linear program per key, without a proof; its
        time is extrapolated from {N_TIMED} keys. The last two columns are the times for finding a
        certificate for every key and for verifying all certificates.""",
    )


def estimate_peer_seconds(peer, points, mask):
    """Return the estimated seconds for all keys; infinity if an answer is wrong."""
    sample = np.linspace(0, len(points) - 1, N_TIMED).astype(int)
    answers, seconds = cpu_seconds(lambda: [peer(points, i) for i in sample])
    is_right = all(answer == mask[i] for answer, i in zip(answers, sample, strict=True))
    return seconds / N_TIMED * len(points) if is_right else np.inf
