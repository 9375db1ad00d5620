"""Extreme keys: this library against one linear program per key, in the same run.

The peer decides one key by asking HiGHS for weights that write it as a convex combination of the
others, or for a direction that separates it; the cheaper of the two is timed on a few keys and
multiplied by their number. It gives no proof; ours is exact, and the last columns include a
certificate for every key and its independent verification. CPU seconds.

    python benchmarks/bench_extreme_points.py
"""

import time

import numpy as np
from scipy.optimize import linprog

from hardmax.geometry.extreme_points import certify_extreme_points, extreme_points

N_PEER_KEYS = 4
SIZES = ((1024, 64), (4096, 64), (4096, 8))


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
    for n_keys, dim in SIZES:
        for kind in ("gaussian", "spectrum 1/i", "half inside", "scales 1..1e-8"):
            points = keys(kind, n_keys, dim)
            ours, mask = timed(extreme_points, points)
            certify, certificates = timed(certify_extreme_points, points)
            verify, verified = timed(certificates.verify, points)
            assert verified
            assert (certificates.is_extreme == mask).all()
            sample = np.linspace(0, n_keys - 1, N_PEER_KEYS).astype(int)
            peers = []
            for peer in (separates, combines):
                seconds, answers = timed(lambda: [peer(points, i) for i in sample])  # noqa: B023
                peers.append(seconds / N_PEER_KEYS * n_keys)
                disagree = sum(a != mask[i] for a, i in zip(answers, sample, strict=True))
                if disagree:
                    print(f"  {peer.__name__}: HiGHS is wrong on {disagree} of {N_PEER_KEYS} keys")
            peer = min(peers)
            print(
                f"{kind:16s} {n_keys:5d} {dim:3d} {mask.sum():7d} {peer:8.1f}s {ours:6.2f}s "
                f"{peer / ours:7.0f}x {certify:7.1f}s {verify:6.1f}s"
            )


if __name__ == "__main__":
    main()
