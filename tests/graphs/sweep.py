"""Compare many degenerate networks with the dense engines: `python -m tests.graphs.sweep 1000 60`.

The arguments are the first seed and how many seconds to go on. Not part of the tests.
"""

import sys
import time

import numpy as np

import hardmax as hm
from hardmax.models import GraphBuilder, GraphNetwork, read_activation
from hardmax.regions import GraphPartition
from tests.graph_models import Numbers, mixed_network, plane_of, residual_network, segment_of

_ACTIVATIONS = ["relu", "abs", "leaky_relu(0.5)", "hardtanh(-1, 1)", "relu6", "leaky_relu(2)"]


class Sparse(Numbers):
    """Small integers, most of them 0, at magnitudes that differ from one array to the next."""

    def __call__(self, *shape: int) -> np.ndarray:
        kept = self.rng.random(shape) < 0.5
        return super().__call__(*shape) * kept * 2.0 ** self.rng.integers(-30, 31)


def random_network(numbers: Numbers, dim: int) -> GraphNetwork:
    """Layers that read any signals before them, with repeated units and dead ones."""
    rng, build = numbers.rng, GraphBuilder()
    signals = [build.input((dim,))]
    for _ in range(rng.integers(2, 5)):
        x = signals[rng.integers(len(signals))]
        width = int(rng.integers(1, 5))
        matrix, bias = numbers(len(x), width), numbers(width) * rng.integers(0, 2)
        if width > 1 and rng.random() < 0.3:
            matrix[:, 1], bias[1] = matrix[:, 0] * rng.choice([-1.0, 1.0, 2.0]), bias[0]
        h = build.multiply(x, matrix, bias)
        if rng.random() < 0.4:
            others = [s for s in signals if len(s) == width]
            h = build.add(h, others[-1]) if others else h
        word = _ACTIVATIONS[rng.integers(len(_ACTIVATIONS))]
        h = build.activate(h, read_activation(word))
        if width > 1 and rng.random() < 0.4:
            pairs = np.stack([h, np.roll(h, 1)], axis=1)
            h = build.maximum(pairs, np.ones(pairs.shape), np.zeros(pairs.shape))
        signals.append(h)
    both = np.concatenate(signals[-2:])
    return build.finish(build.multiply(both, numbers(len(both), 2), numbers(2)))


def network_and_domain(seed: int) -> tuple[GraphNetwork, hm.Segment | hm.Slice]:
    """Return the network of a seed, and a segment or a part of a plane."""
    kind = Sparse if seed % 5 == 0 else Numbers
    numbers = kind(seed, are_integers=seed % 4 != 3)
    if seed % 24 == 7:
        net = residual_network(numbers, has_bias=seed % 48 == 7)
    elif seed % 24 == 14:
        net = mixed_network(numbers)
    else:
        net = random_network(numbers, 4)
    plain = Numbers(seed + 1, are_integers=seed % 4 != 3)
    if seed % 2:
        return net, segment_of(plain, net.dim_in)
    return net, plane_of(plain, net.dim_in, is_triangle=seed % 8 == 0)


def check(seed: int) -> str:
    """Count what one network has in both ways; return what differs, or nothing."""
    net, domain = network_and_domain(seed)
    found, dense = (_counts(hm.enumerate_regions(m, domain)) for m in (net, net.network))
    return "" if found == dense else f"seed {seed}: {found}, {dense} in dense layers"


def _counts(part: hm.Partition | GraphPartition) -> tuple[object, ...]:
    return part.n_cells, part.n_regions, part.n_affine_maps


def main() -> None:
    """Go on for some seconds, and say what differs."""
    first, seconds = (int(word) for word in sys.argv[1:3])
    stop, seed = time.monotonic() + seconds, first
    while time.monotonic() < stop:
        try:
            difference = check(seed)
        except Exception as error:
            difference = f"seed {seed}: {type(error).__name__}: {error}"
        if difference:
            print(difference, flush=True)
        seed += 1
    print(f"{seed - first} networks compared")


if __name__ == "__main__":
    main()
