"""Extreme keys: this library against one linear program per key, in the same run.

The peer decides one key by asking HiGHS for weights that write it as a convex combination of the
others, or for a direction that separates it; the cheaper of the two is timed on a few keys and
multiplied by their number. It gives no proof; ours is exact, and the last columns include a
certificate for every key and its independent verification. CPU seconds.

    python -m benchmarks extreme_points
"""

import time

import numpy as np
from scipy.optimize import linprog

from hardmax.geometry.extreme_points import certify_extreme_points, extreme_points

KINDS = ("gaussian", "spectrum 1/i", "half inside", "scales 1..1e-8")
CASES = (
    *((kind, 1024, 64, 8) for kind in KINDS),
    *((kind, 4096, 64, 2) for kind in KINDS),
    ("gaussian", 4096, 8, 4),
)
"""Which keys, how many, in which dimension, and for how many of them the peer is timed."""


def keys(kind, n_keys, dim, seed=0):
    """Gaussian keys, with a decaying spectrum, with half of them well inside, badly scaled."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_keys, dim))
    if kind == "spectrum 1/i":
        points /= np.arange(1, dim + 1)
    elif kind == "half inside":
        points[n_keys // 2 :] *= 0.1
    elif kind == "scales 1..1e-8":
        points *= np.logspace(0, -8, dim)
    return points


def timed(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def separates(points, i):
    """Ask HiGHS for a direction in which key `i` wins by one."""
    rows = np.delete(points, i, axis=0) - points[i]
    free = (None, None)
    program = linprog(
        np.zeros(points.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=free, method="highs"
    )
    return program.status == 0


def combines(points, i):
    """Ask HiGHS for weights that write key `i` as a combination; True if there are none."""
    others = np.delete(points, i, axis=0)
    system = np.vstack([others.T, np.ones(len(others))])
    target = np.append(points[i], 1.0)
    program = linprog(np.zeros(len(others)), A_eq=system, b_eq=target, method="highs")
    return program.status == 2


def main():
    extreme_points(keys("half inside", 40, 3))
    print(
        f"{'keys':16s} {'N':>5s} {'d':>3s} {'extreme':>7s} {'HiGHS':>9s} {'ours':>7s} {'ratio':>8s}"
        f" {'certify':>8s} {'verify':>7s}"
    )
    for kind, n_keys, dim, n_timed in CASES:
        points = keys(kind, n_keys, dim)
        ours, mask = timed(extreme_points, points)
        certify, certificates = timed(certify_extreme_points, points)
        verify, verified = timed(certificates.verify, points)
        assert verified
        assert (certificates.is_extreme == mask).all()
        sample = np.linspace(0, n_keys - 1, n_timed).astype(int)
        peer = min(peer_seconds(peer, points, sample, mask) for peer in (separates, combines))
        print(
            f"{kind:16s} {n_keys:5d} {dim:3d} {mask.sum():7d} {peer:8.1f}s {ours:6.2f}s "
            f"{peer / ours:7.0f}x {certify:7.1f}s {verify:6.1f}s",
            flush=True,
        )


def peer_seconds(peer, points, sample, mask):
    """Seconds the peer would take for all keys; says so where its answers are wrong."""
    seconds, answers = timed(lambda: [peer(points, i) for i in sample])
    wrong = sum(answer != mask[i] for answer, i in zip(answers, sample, strict=True))
    if wrong:
        print(f"  HiGHS ({peer.__name__}) is wrong on {wrong} of the next {len(sample)} keys")
    return seconds / len(sample) * len(points)


if __name__ == "__main__":
    main()
