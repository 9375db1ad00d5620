"""One hash of the results of searches: equal on all machines and for all versions.

python -m benchmarks.same_bits
"""

import hashlib
import platform

import numpy as np

import hardmax as hm
from benchmarks.random_networks import Weights, gaussian_weights, integer_weights

MODELS: list[tuple[Weights, object]] = [
    *((gaussian_weights(seed, 2, 10, 10), hm.WholeSpace(2)) for seed in range(4)),
    *((gaussian_weights(seed, 2, 10, 10), hm.Box([-2, -2], [2, 2])) for seed in range(4, 8)),
    *((integer_weights(seed, 2, 8, 8), hm.Box([-2, -2], [2, 2])) for seed in range(4)),
    *((gaussian_weights(seed, 3, 6, 5), hm.Box([-1] * 3, [1] * 3)) for seed in range(3)),
]


def main() -> None:
    total, found = 0, hashlib.sha256()
    for weights, domain in MODELS:
        part = hm.enumerate_regions(weights.model, domain)
        assert hm.verify_certificate(weights.model, part.certificate()).ok
        total += part.n_found
        for array in (part.signatures, part.volumes, part.witnesses):
            found.update(np.ascontiguousarray(array).tobytes())
    versions = f"Python {platform.python_version()}, numpy {np.__version__}"
    print(f"{found.hexdigest()[:16]}  {total} cells, {platform.machine()}, {versions}")


if __name__ == "__main__":
    main()
