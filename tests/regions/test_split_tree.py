from fractions import Fraction
from math import comb, gcd, lcm

import pytest

from hardmax.geometry.domains import WholeSpace
from hardmax.regions._tree import split_tree
from hardmax.regions._tree.split_tree import explore
from tests.reference import regions as reference
from tests.region_models import (
    box_and_space,
    chart_of,
    gaussian_relu,
    integer_relu,
    integer_transformer,
    reference_cells,
)


def rows_of(model, domain, prefix):
    """The rows of a prefix by name, from the definition, in fractions."""
    weight, bias = chart_of(domain)
    network = model.network
    stream = reference.compose(
        reference.chart_coordinates(weight.tolist(), bias.tolist()),
        network.embedding.weight.tolist(),
        network.embedding.bias.tolist(),
    )
    dim, position, scores = domain.dim, 0, []
    for layer in network.layers:
        query = reference.compose(stream, layer.query.weight.tolist(), layer.query.bias.tolist())
        scores.append(reference.score_forms(layer, query))
        winners = prefix[position : position + layer.n_groups]
        position += layer.n_groups
        if len(winners) < layer.n_groups or -1 in winners:
            break
        stream = reference._advance(layer, stream, scores[-1], winners)

    def row(name):
        layer, group, winner, rival = name
        if layer == -2:
            return [Fraction(0)] * dim + [Fraction(1)]
        if layer == -1:
            *a, b = domain.exact_rows.tolist()[group]
            return [-Fraction(x) for x in a] + [Fraction(b)]
        start = int(network.layers[layer].starts[group])
        best, other = scores[layer][start + winner], scores[layer][start + rival]
        return [x - y for x, y in zip(best, other, strict=True)]

    return row


def primitive(row):
    """Coprime integers, by a positive factor."""
    scale = lcm(*(x.denominator for x in row))
    integers = [int(x * scale) for x in row]
    return [x // gcd(*integers) for x in integers]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_every_refusal_is_proved_by_a_vanishing_combination(dim):
    model = integer_transformer(6 + 4 * (dim == 3), dim, 4, 2, 1, 3)
    for domain in box_and_space(dim):
        found = explore(model.network, domain, keep_refusals=True)
        assert found.refusals
        starts = [0]
        for layer in model.network.layers:
            starts.append(starts[-1] + layer.n_groups)
        for refusal in found.refusals:
            row = rows_of(model, domain, refusal.prefix)
            for name in refusal.rows:
                # Each row is one of the refused form, or one that the prefix has decided.
                layer, group, winner, _ = name
                if layer >= 0 and (layer, group) != (refusal.layer, refusal.group):
                    assert refusal.prefix[starts[layer] + group] == winner
                elif layer >= 0:
                    assert winner == refusal.form
            assert all(multiplier > 0 for multiplier in refusal.multipliers)
            rows = [primitive(row(name)) for name in refusal.rows]
            for column in zip(*rows, strict=True):
                pairs = zip(refusal.multipliers, column, strict=True)
                assert sum(multiplier * x for multiplier, x in pairs) == 0


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_witnesses_lie_inside_their_cells(dim):
    model = integer_relu(dim, [dim, 4, 3])
    for domain in box_and_space(dim):
        cells = {name: rows for name, rows, _ in reference_cells(model, domain)}
        found = explore(model.network, domain)
        for name, point in zip(found.signatures.tolist(), found.witnesses.tolist(), strict=True):
            assert point[-1] > 0
            for row in cells[tuple(name)]:
                assert sum(a * b for a, b in zip(row, point, strict=True)) > 0


def test_proofs_are_kept_only_on_demand():
    found = explore(gaussian_relu(1, [2, 3]).network, WholeSpace(2))
    assert found.refusals is None
    assert found.arrays.decisions.rational > 0
    assert found.arrays.decisions.filtered == 0


def test_decisions_grow_with_the_answer_not_with_the_signatures():
    # 25 units in the plane have 2**25 signatures and 326 cells.
    found = explore(gaussian_relu(7, [2, 25]).network, WholeSpace(2), count_only=True)
    assert found.arrays.n_counted == 1 + 25 + 25 * 24 // 2
    assert found.arrays.decisions.total < 25 * 2 * found.arrays.n_counted


@pytest.mark.parametrize(("dim", "n_units"), [(5, 8), (8, 10), (12, 9)])
def test_hyperplanes_in_general_position_cut_space_as_zaslavsky_says(dim, n_units):
    found = explore(gaussian_relu(3, [dim, n_units]).network, WholeSpace(dim), count_only=True)
    assert found.arrays.n_counted == sum(comb(n_units, k) for k in range(dim + 1))


@pytest.mark.parametrize("n_decisions", [0, 3, 40])
def test_time_that_is_up_ends_the_search_between_two_cells_too(monkeypatch, n_decisions):
    model = gaussian_relu(1, [3, 6, 6])
    whole = {tuple(row) for row in explore(model.network, WholeSpace(3)).arrays.signatures.tolist()}
    now = 0.0

    def decide(rows):
        nonlocal now
        now += 1.0
        return usual(rows)

    usual = split_tree.decide_open_cone
    monkeypatch.setattr(split_tree, "decide_open_cone", decide)
    monkeypatch.setattr(split_tree.time, "monotonic", lambda: now)
    found = explore(model.network, WholeSpace(3), max_seconds=float(n_decisions)).arrays
    # The one under way is finished.
    assert now <= n_decisions + 1.0
    assert not found.is_complete
    assert {tuple(row) for row in found.signatures.tolist()} < whole
