"""The cost of exactness: proven winners relative to a plain float evaluation."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.exact.forms import AffineForms
from hardmax.exact.winners import winners


def tables() -> Iterator[Table]:
    """Yield the cost of a proven winner."""
    rng = np.random.default_rng(0)
    rows = []
    for n_forms, dim in ((16, 2), (64, 2), (64, 8), (64, 64), (512, 64)):
        n_points = 2**21 // n_forms
        forms = AffineForms(rng.normal(size=(n_forms, dim)), rng.normal(size=n_forms))
        points = rng.normal(size=(n_points, dim))
        _, proven = cpu_seconds(lambda f=forms, p=points: winners(f, p), 4)
        _, bare = cpu_seconds(lambda f=forms, p=points: f(p).argmax(axis=1), 4)
        rows.append((n_forms, dim, n_points, 1e9 * proven / n_points, proven / bare))
    yield Table(
        "The largest of many affine forms at a point",
        ("forms", "dimension", "points", "ns per point", "relative to float argmax"),
        rows,
        """Gaussian forms and points. Every winner is proven, by floats with an error bound or in
        integers. The last column is the time relative to a plain matrix product and argmax.""",
    )
