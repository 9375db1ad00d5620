"""Certificates of deep networks: accepted when right, refused with the reason when tampered."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax._ground.records import fingerprint
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.certificate_format import domain_fingerprint
from hardmax.regions.certificates import make_certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.verify._fast import layers, walk
from hardmax.verify.checking import verify_certificate
from tests.certificate_models import random_relu
from tests.reference.networks import argmax_network

SQUARE = Box([-2, -2], [2, 2])


def deep_relu(seed, width, depth):
    """Float32 weights with the variance that keeps signals alive through many layers."""
    rng = np.random.default_rng(seed)
    sizes = [2, *[width] * depth, 1]
    weights = [rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32) for a, b in pairwise(sizes)]
    return ReluNetwork(weights, [rng.normal(0, 0.5, n).astype(np.float32) for n in sizes[1:]])


def deep_maxout(seed, width, depth):
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], 2
    for _ in range(depth):
        weights.append([rng.normal(0, fan**-0.5, (2, fan)) for _ in range(width)])
        biases.append([rng.normal(0, 0.5, 2) for _ in range(width)])
        fan = width
    return MaxoutNetwork([*weights, np.ones((fan, 1))], [*biases, None])


def deep_transformer(seed, n_blocks):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return 0.6 * rng.standard_normal(shape)

    def block():
        heads = [AttentionHead(draw(2, 2), draw(5, 2), draw(5, 2), draw(2, 2)) for _ in range(2)]
        return Block(heads, FeedForward(draw(2, 4), draw(4), draw(4, 2), draw(2)))

    return HardTransformer([block() for _ in range(n_blocks)])


DEEP = {
    "relu": (deep_relu(2, 6, 12), SQUARE),
    "relu everywhere": (deep_relu(3, 4, 10), WholeSpace(2)),
    "integer relu": (random_relu(4, 2, *[5] * 8, 1, integers=True), SQUARE),
    "no bias": (random_relu(9, 2, *[6] * 6, 1, integers=True, bias=False), WholeSpace(2)),
    "maxout": (deep_maxout(6, 6, 8), SQUARE),
    "transformer": (deep_transformer(7, 6), Box([-1, -1], [1, 1])),
}


@pytest.fixture(scope="module", params=DEEP)
def case(request):
    model, domain = DEEP[request.param]
    cells = enumerate_regions(model, domain).signatures
    return model, domain, make_certificate(model, domain, cells)


def refused(model, certificate):
    verdict = verify_certificate(model, certificate)
    assert not verdict
    assert verdict.n_cells == 0
    return verdict.reason


def only(certificate, kept):
    return replace(
        certificate, signatures=certificate.signatures[kept], witnesses=certificate.witnesses[kept]
    )


def some(certificate, n=8):
    return np.random.default_rng(0).permutation(certificate.n_cells)[:n].tolist()


def test_deep_networks_are_verified_whatever_the_batches(case, monkeypatch):
    model, domain, certificate = case
    assert certificate.n_cells > 8
    for size, n_scores in ((1, 10**6), (7, 10**6), (10**6, 100), (10**6, 10**6)):
        monkeypatch.setattr(walk, "BATCH", size)
        monkeypatch.setattr(walk, "VALUES", n_scores)
        verdict = verify_certificate(model, certificate, domain)
        assert (verdict.ok, verdict.n_cells, verdict.reason) == (True, certificate.n_cells, "")


def test_deep_networks_are_verified_with_and_without_maps_of_layers(case, monkeypatch):
    model, _, certificate = case
    for before in (0, 10**9):
        monkeypatch.setattr(layers, "_BEFORE_MAP", before)
        assert verify_certificate(model, certificate).ok


def test_a_dropped_cell_of_a_deep_network_is_refused(case):
    model, _, certificate = case
    for cell in some(certificate):
        kept = np.arange(certificate.n_cells) != cell
        reason = refused(model, only(certificate, kept))
        assert reason.startswith("the cells do not cover the domain: ")


def test_dropped_branches_of_a_deep_network_are_refused(case):
    """All cells with some beginning, and those with some winner in one group."""
    model, _, certificate = case
    table = certificate.signatures
    for group in range(0, table.shape[1], max(1, table.shape[1] // 6)):
        for kept in (
            table[:, group] != table[0, group],
            (table != table[0])[:, : group + 1].any(1),
        ):
            if 0 < kept.sum() < len(table):
                reason = refused(model, only(certificate, kept))
                assert reason.startswith("the cells do not cover the domain: ")


def test_a_doubled_cell_of_a_deep_network_is_refused(case):
    model, _, certificate = case
    n = certificate.n_cells
    for cell in some(certificate, 5):
        doubled = only(certificate, np.append(np.arange(n), cell))
        assert refused(model, doubled) == f"cells {cell} and {n} have the same signature."


def test_a_cell_in_the_place_of_another_is_refused(case):
    """The number of cells stays right."""
    model, _, certificate = case
    listed = {tuple(row) for row in certificate.signatures.tolist()}
    rng = np.random.default_rng(1)
    for cell in some(certificate, 10):
        table = certificate.signatures.copy()
        group = int(rng.integers(table.shape[1]))
        table[cell, group] = 1 - min(table[cell, group], 1)
        if tuple(table[cell].tolist()) not in listed:
            assert refused(model, replace(certificate, signatures=table))


def test_an_empty_cell_of_a_deep_network_is_refused(case):
    model, _, certificate = case
    listed = {tuple(row) for row in certificate.signatures.tolist()}
    n_groups = certificate.signatures.shape[1]
    for group in range(0, n_groups, max(1, n_groups // 8)):
        extra = certificate.signatures[-1].copy()
        extra[group] = 1 - min(extra[group], 1)
        if tuple(extra.tolist()) not in listed:
            added = replace(
                certificate,
                signatures=np.vstack([certificate.signatures, extra]),
                witnesses=np.vstack([certificate.witnesses, certificate.witnesses[-1:]]),
            )
            reason = refused(model, added)
            n = certificate.n_cells
            assert (
                reason.startswith((f"cell {n}: ", "the cells do not cover"))
                or "not inside" in reason
            )


def test_witnesses_moved_into_other_cells_are_refused(case):
    model, _, certificate = case
    n = certificate.n_cells
    for cell in some(certificate, 10):
        witnesses = certificate.witnesses.copy()
        witnesses[cell] = certificate.witnesses[(cell + 1) % n]
        reason = refused(model, replace(certificate, witnesses=witnesses))
        assert reason == f"cell {cell}: the witness is not inside its cell."


def test_a_witness_just_across_a_wall_is_refused(case):
    """Halving the way to another cell's witness until the point leaves the cell."""
    model, _, certificate = case
    network = model.network
    for cell in some(certificate, 1):
        inside, outside = certificate.witnesses[cell], certificate.witnesses[cell - 1]
        a, b = ([Fraction(x, point[-1]) for x in point[:-1]] for point in (inside, outside))
        for _ in range(30):
            middle = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
            _, signature = argmax_network(middle, network)
            if signature == certificate.signatures[cell].tolist():
                a = middle
            else:
                b = middle
        for point, reason in ((a, ""), (b, f"cell {cell}: the witness is not inside its cell.")):
            scale = point[0].denominator * point[1].denominator
            witnesses = certificate.witnesses.copy()
            witnesses[cell] = [int(point[0] * scale), int(point[1] * scale), scale]
            verdict = verify_certificate(model, replace(certificate, witnesses=witnesses))
            assert verdict.reason == reason


def test_another_deep_model_is_refused(case):
    """One weight of one layer is another float; a forged fingerprint does not help."""
    model, domain, certificate = case
    network = model.network
    listed = {tuple(row) for row in certificate.signatures.tolist()}
    n_refused = 0
    for i in range(0, len(network.layers), 3):
        layer = network.layers[i]
        for change in (2.0**-40, 0.5):
            offsets = layer.offsets.copy()
            offsets[-1] += change
            layers = list(network.layers)
            layers[i] = replace(layer, offsets=offsets)
            other = replace(network, layers=tuple(layers))
            assert refused(other, certificate) == "the certificate is about another model."
            forged = replace(certificate, model=fingerprint(other))
            # Where the form never wins, or barely moves, the cells may be the same, and are proved.
            verdict = verify_certificate(other, forged)
            cells = {tuple(row) for row in enumerate_regions(other, domain).signatures.tolist()}
            assert not verdict.ok or cells == listed
            n_refused += not verdict.ok
    assert n_refused


def test_another_domain_is_refused(case):
    model, domain, certificate = case
    if len(certificate.rows):
        rows = certificate.rows.copy()
        rows[0, -1] += 1
        larger = replace(certificate, rows=rows)
        assert "the domain does not match" in refused(model, larger)
        name = domain_fingerprint(larger.chart, larger.chart_denominator, rows)
        assert verify_certificate(
            model, replace(larger, domain_fingerprint=name), domain
        ).reason == ("the certificate is about another domain.")


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("depth", [2, 12])
def test_cells_too_small_for_floats_are_not_lost(depth, is_on):
    """The last unit switches within a rounding error of a corner of the box: a sliver, or none.

    Enclosures that are too narrow would settle the unit on the whole box, and a list
    without the sliver would pass.
    """
    n_slivers = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = [2, *[4] * depth, 1, 1]
        weights = [rng.normal(0, (2 / a) ** 0.5, (a, b)) for a, b in pairwise(sizes)]
        biases = [rng.normal(0, 0.5, n) for n in sizes[1:]]
        biases[-2][:] = 0.0
        box = Box([-0.01, -0.01], [0.01, 0.01])
        corners = [(sx * 0.01, sy * 0.01) for sx in (-1, 1) for sy in (-1, 1)]
        body = ReluNetwork([*weights[:-1]], biases[:-1])
        values = [argmax_network(x, body.network)[0][0] for x in corners]
        # The bias is the corner's value, rounded; what is left over is a rounding error.
        extreme = max(values) if is_on else min(values)
        biases[-2][:] = -float(extreme)
        model = ReluNetwork(weights, biases)
        cells = enumerate_regions(model, box).signatures
        certificate = make_certificate(model, box, cells)
        assert verify_certificate(model, certificate).ok
        sliver = cells[:, -1] == is_on
        left_over = extreme - Fraction(float(extreme))
        if left_over > 0 if is_on else left_over < 0:
            assert sliver.any()
            n_slivers += 1
            assert refused(model, only(certificate, ~sliver))
        for cell in range(len(cells)):
            if len(cells) > 1:
                assert refused(model, only(certificate, np.arange(len(cells)) != cell))
    assert n_slivers >= 2


def test_winners_beyond_a_byte_are_put_in_order():
    """Tangents of a parabola: 300 pieces of one unit, and a second unit with two."""
    centres = np.arange(300) / 150 - 1
    pieces = np.column_stack([2 * centres, -(centres**2)])
    halves = np.array([[1.0, 0.0], [-1.0, 0.0]])
    units = [pieces[:, :1], halves[:, :1]]
    model = MaxoutNetwork([units, np.ones((2, 1))], [[pieces[:, 1], halves[:, 1]], None])
    interval = Box([-2], [2])
    cells = enumerate_regions(model, interval).signatures
    assert len(cells) == 301
    certificate = make_certificate(model, interval, cells)
    order = np.random.default_rng(0).permutation(len(cells))
    assert verify_certificate(model, only(certificate, order)).ok
    for cell in (0, 150, 300):
        assert refused(model, only(certificate, np.arange(301) != cell))
