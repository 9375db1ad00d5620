"""Large heads along lines, split by upper envelopes: against fractions and the exact engine."""

import time
from fractions import Fraction

import numpy as np
import pytest

from hardmax.geometry.domains import Line, Ray, Segment
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search.exact_space import SpatialPath
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.sweeps import seeds

N_KINDS = 10


def keys(kind, rng, n):
    """Keys and biases: in general position, tied, concurrent, parallel, repeated, tiny or huge."""
    along, small = np.arange(n) - n // 2, rng.integers(-3, 4, size=(n, 2)).astype(float)
    if kind == 0:
        return rng.normal(size=(n, 2)), rng.normal(size=n)
    if kind == 1:
        return small, small[:, 0] - small[:, 1]
    if kind == 2:
        x = rng.normal(size=n)
        return np.outer(x, rng.normal(size=2)), -x * x / 2.0
    if kind == 3:
        return np.outer(along, small[0]), -1.0 * along**2
    if kind == 4:
        return rng.normal(size=(n, 2))[rng.integers(0, n // 3, n)], small[:, 0]
    if kind == 5:
        sizes = 10.0 ** rng.choice([-320, -300, 0, 10, 150], size=2)
        return small * sizes[0], small[:, 0] * sizes[1]
    if kind == 6:
        turns = rng.uniform(0.0, 7.0, n)
        return np.column_stack([np.cos(turns), np.sin(turns)]), np.zeros(n)
    if kind == 7:
        x = np.linspace(-1.0, 1.0, n)
        return np.column_stack([x, x]), -np.abs(x)
    if kind == 8:
        return np.tile(small[0], (n, 1)), small[:, 1]
    return np.outer(rng.integers(-9, 10, n), [0.1, 0.1]), 0.1 * small[:, 0]


def head(rng, kind, n):
    places, biases = keys(kind, rng, n)
    query = np.eye(2) if rng.random() < 0.6 else rng.normal(size=(2, 2))
    values = rng.integers(-2, 3, size=(n, 2)).astype(float)
    bias = rng.normal(size=2) if rng.random() < 0.3 else None
    return AttentionHead(query, places, values, np.eye(2), bias, biases)


def line_of(rng):
    start, way = rng.normal(size=(2, 2)) * 3.0
    return (
        Segment([-2.0, 0.0], [3.0, 0.0]),
        Segment(start, start + way),
        Segment([-5.0, -5.0], [5.0, 5.0]),
        Ray(start, way),
        Line(start, way),
        Line([0.0, 0.0], [1.0, 1.0]),
    )[rng.integers(6)]


def forms_along(one, line):
    """Return the scores of a head as exact forms along a line, and the range of its coordinate."""

    def fractions(numbers):
        return [Fraction(float(x)) for x in numbers]

    if isinstance(line, Segment):
        start, end = fractions(line.start), fractions(line.end)
        way, ends = [b - a for a, b in zip(start, end, strict=True)], (Fraction(0), Fraction(1))
    else:
        start, way = fractions(line.origin), fractions(line.direction)
        ends = Fraction(0) if isinstance(line, Ray) else -np.inf, np.inf

    def dot(left, right):
        return sum(a * b for a, b in zip(left, right, strict=True))

    columns = [fractions(column) for column in one.query_weight.T]
    bias = [Fraction(0)] * 2 if one.query_bias is None else fractions(one.query_bias)
    rise = [dot(way, column) for column in columns]
    base = [dot(start, column) + b for column, b in zip(columns, bias, strict=True)]
    rows = [fractions(key) for key in one.keys]
    offsets = [dot(base, row) + b for row, b in zip(rows, fractions(one.logit_bias), strict=True)]
    return list(zip([dot(rise, row) for row in rows], offsets, strict=True)), ends


def envelope(forms, ends):
    """Return where each form is the largest, by comparing all with all: left end and winner."""
    first = {form: j for j, form in reversed(list(enumerate(forms)))}
    found = []
    for (a, c), j in first.items():
        low, high = ends
        for b, d in first:
            if a == b:
                low = np.inf if d > c else low
            elif a > b:
                low = max(low, (d - c) / (a - b))
            else:
                high = min(high, (d - c) / (a - b))
        if low < high:
            found.append((low, j))
    return sorted(found)


@pytest.mark.parametrize("seed", seeds(150))
def test_one_head_has_the_cells_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    one, line = head(rng, seed % N_KINDS, int(rng.integers(24, 50))), line_of(rng)
    part = enumerate_regions(HardTransformer([Block([one], None)]), line)
    wanted = envelope(*forms_along(one, line))
    assert part.signatures[:, 0].tolist() == [j for _, j in wanted]
    assert part.found.breakpoints.tolist() == [low for low, _ in wanted][1:]


@pytest.mark.parametrize("seed", seeds(60))
def test_deep_models_with_large_heads_have_the_cells_of_the_exact_engine(seed):
    rng = np.random.default_rng(1000 + seed)
    blocks = []
    for _ in range(rng.integers(1, 3)):
        kinds = rng.integers(0, N_KINDS, size=rng.integers(1, 3))
        heads = [head(rng, kind, int(rng.integers(20, 40))) for kind in kinds]
        # Two heads with the same walls.
        heads += heads[:1] * int(rng.random() < 0.2)
        n = int(rng.integers(1, 4))
        units = FeedForward(
            rng.normal(size=(2, n)), rng.normal(size=n), rng.normal(size=(n, 2)), np.zeros(2)
        )
        blocks.append(Block(heads, units))
    model, line = HardTransformer(blocks), line_of(rng)
    part = enumerate_regions(model, line)
    exact = enumerate_regions(model, line, exact=True)
    found = [tuple(row) for row in part.signatures.tolist()]
    assert sorted(found) == sorted(map(tuple, exact.signatures.tolist()))
    ends = part.found.breakpoints.tolist()
    assert ends == sorted(set(ends))
    assert enumerate_regions(model, line, count_only=True).n_cells == len(found)
    if seed % 10 == 0:
        assert verify_certificate(model, part.certificate())


def test_bends_that_floats_leave_open_are_decided_in_integers(monkeypatch):
    asked = []
    orders = SpatialPath._try_set_chain
    monkeypatch.setattr(
        SpatialPath, "_try_set_chain", lambda *given: asked.append(1) or orders(*given)
    )
    # All walls meet in one point, of which no coordinate is a float.
    x, none = np.linspace(-1.0, 1.0, 99), np.zeros((99, 2))
    places, bias = np.column_stack([x, x]), [0.1, 0.7]
    one = AttentionHead(np.eye(2), places, none, np.eye(2), bias, np.zeros(99))
    line = Segment([-2.0, 0.3], [0.1, 0.5])
    part = enumerate_regions(HardTransformer([Block([one], None)]), line)
    wanted = envelope(*forms_along(one, line))
    assert part.signatures[:, 0].tolist() == [j for _, j in wanted] == [0, 98]
    assert asked


def test_coinciding_keys_pass_their_mean_on():
    # Along the line keys differ in the first coordinate only, but their values differ as well.
    x = np.repeat(np.arange(-20.0, 20.0), 2)
    places = np.column_stack([x, np.tile([3.0, -5.0], 40)])
    values = np.column_stack([np.arange(80.0), np.zeros(80)])
    one = AttentionHead(np.eye(2), places, values, np.eye(2), None, -x * x)
    model = HardTransformer([Block([one], None, attention_residual=False)])
    part = enumerate_regions(model, Segment([-100.0, 0.0], [100.0, 0.0]))
    assert part.signatures[:, 0].tolist() == list(range(0, 80, 2))
    assert [part.exact_map(i).rounded()[0].tolist() for i in range(2)] == [[0.0, 0.5], [0.0, 2.5]]


@pytest.mark.parametrize("domain", [Segment([-1.0], [1.0]), Ray([-1.0], [1.0]), Line([0.0], [1.0])])
def test_a_large_maxout_unit_takes_no_quadratic_time_or_memory(domain):
    n = 20_000
    x = np.linspace(-0.9, 0.9, n)
    model = MaxoutNetwork([2.0 * x.reshape(1, n, 1), [[1.0]]], [-(x * x).reshape(1, n), [0.0]])
    began = time.process_time()
    part = enumerate_regions(model, domain)
    # Parts that are compared with all others take minutes, and more memory than there is.
    assert time.process_time() - began < 10.0
    assert part.n_cells == n
    assert (part.signatures[:, 0] == np.arange(n)).all()


def test_several_large_heads_take_no_quadratic_time():
    rng = np.random.default_rng(5)
    n = 5_000
    heads = []
    for _ in range(3):
        x = np.sort(rng.uniform(-1.0, 1.0, n))
        places = np.column_stack([2.0 * x, rng.normal(size=n)])
        heads.append(AttentionHead(np.eye(2), places, places, np.eye(2), None, -x * x))
    units = FeedForward(rng.normal(size=(2, 4)), np.zeros(4), rng.normal(size=(4, 2)), np.zeros(2))
    began = time.process_time()
    part = enumerate_regions(
        HardTransformer([Block(heads, units)]), Segment([-1.0, 0.0], [1.0, 0.0])
    )
    assert time.process_time() - began < 10.0
    assert part.n_cells >= 3 * (n - 1)
