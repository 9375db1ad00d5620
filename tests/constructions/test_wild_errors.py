"""Certified errors of compiled models at all magnitudes, against fractions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.constructions import approximate, compile_relu
from tests.magnitudes import IDS, MAGNITUDES, wild_numbers


def exact_outputs(net, x):
    held = [Fraction(t) for t in x]
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        held = [
            sum((Fraction(w) * t for w, t in zip(column, held, strict=True)), Fraction(b))
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]
        if i < len(net.weights) - 1:
            held = [max(t, Fraction(0)) for t in held]
    return held


def networks(magnitude):
    """Yield networks whose numbers are all of one magnitude, and mixed ones."""
    rng = np.random.default_rng(5)
    size = min(magnitude, 2.0**1000)
    for dims in [(1, 2, 1), (2, 3, 2)]:
        shapes = list(pairwise(dims))
        weights = [
            rng.integers(-3, 4, shape) * (1.0 if i else size) for i, shape in enumerate(shapes)
        ]
        yield hm.ReluNetwork(weights, [rng.integers(-3, 4, n) * size for n in dims[1:]])
        weights = [wild_numbers(rng, shape, size) for shape in shapes]
        yield hm.ReluNetwork(weights, [wild_numbers(rng, n, size) for n in dims[1:]])


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_a_compiled_network_is_as_close_as_certified_or_refused(magnitude, epsilon):
    rng = np.random.default_rng(6)
    for net in networks(magnitude):
        for reach in (1.0, min(magnitude, 2.0**1022)):
            box = hm.Box([-reach] * net.dim_in, [reach] * net.dim_in)
            try:
                compiled = compile_relu(net, box, epsilon=epsilon)
            except hm.errors.ArgumentError:
                continue
            for x in rng.uniform(-1, 1, (4, net.dim_in)) * reach:
                for output, wanted in zip(compiled(x), exact_outputs(net, x), strict=True):
                    assert abs(Fraction(output) - wanted) <= Fraction(compiled.certified_error)


@pytest.mark.parametrize("slope", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("reach", MAGNITUDES, ids=IDS)
def test_an_approximation_is_as_close_as_certified_or_refused(slope, reach):
    def kink(x):
        with np.errstate(over="ignore"):
            return slope * np.abs(x - reach / 4)

    try:
        found = approximate(kink, hm.Box([-reach], [reach]), 8, lipschitz=slope)
    except hm.errors.HardmaxError:
        return
    for x in np.random.default_rng(7).uniform(-1, 1, 6) * reach:
        wanted = Fraction(slope) * abs(Fraction(x) - Fraction(reach / 4))
        off = abs(Fraction(found.compiled([x]).item()) - wanted)
        assert off <= Fraction(found.certified_error)
