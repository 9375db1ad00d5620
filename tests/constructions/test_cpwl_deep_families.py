"""Families whose regions multiply with depth, counted on the network and on the transformer."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.constructions.families.deep_families import (
    leaf_depths,
    tent_network,
    zigzag_network,
    zigzag_regions,
)
from hardmax.errors import ArgumentError, DtypeError, SizeLimitError
from hardmax.geometry.domains import Box
from hardmax.regions.engines import enumerate_regions
from tests.reference.piecewise_linear import network_value


def unit_box(dim):
    return Box([0.0] * dim, [1.0] * dim)


def counts(model, dim):
    partition = enumerate_regions(model, unit_box(dim))
    return partition.n_regions, partition.n_affine_maps


@pytest.mark.parametrize("depth", [1, 2, 5, 10])
def test_a_tent_has_two_to_the_depth_pieces(depth):
    network = tent_network(depth)
    compiled = compile_maxout(network, unit_box(1))
    assert (compiled.size.tokens, compiled.size.heads) == (2, depth)
    assert counts(network, 1) == (2**depth, 2**depth)
    assert counts(compiled.token_transformer, 1) == (2**depth, 2**depth)


@pytest.mark.parametrize("depth", [1, 4, 9])
def test_a_tent_goes_up_and_down_between_multiples_of_a_power_of_two(depth):
    network = tent_network(depth)
    for k in range(2**depth + 1):
        assert network_value(network, [Fraction(k, 2**depth)]) == [k % 2]


@pytest.mark.parametrize(
    ("dim", "rank", "depth"),
    [(1, 2, 1), (1, 2, 4), (1, 3, 2), (1, 4, 2), (1, 7, 1), (2, 2, 1), (2, 2, 2), (2, 3, 1)],
)
def test_a_zigzag_has_as_many_regions_as_the_formula_says(dim, rank, depth):
    network = zigzag_network(dim, rank, depth)
    compiled = compile_maxout(network, unit_box(dim))
    wanted = (2 * rank - 1) ** (dim * depth)
    assert zigzag_regions(dim, rank, depth) == wanted
    assert compiled.size.tokens == rank
    assert compiled.size.heads == 2 * dim * depth
    assert counts(network, dim) == (wanted, wanted)
    assert counts(compiled.token_transformer, dim) == (wanted, wanted)


def test_a_zigzag_in_three_dimensions_is_counted_on_the_network():
    assert counts(zigzag_network(3, 2, 1), 3) == (27, 27)


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_every_piece_of_a_zigzag_is_mapped_onto_the_unit_interval(rank):
    network = zigzag_network(1, rank, 1)
    ends = [Fraction(0)]
    for depth in leaf_depths(2 * rank - 1):
        ends.append(ends[-1] + Fraction(1, 2**depth))
    assert ends[-1] == 1
    values = [network_value(network, [t])[0] for t in ends]
    assert values == [k % 2 for k in range(len(ends))]
    for a, b in pairwise(ends):
        assert network_value(network, [(a + b) / 2]) == [Fraction(1, 2)]


def test_coordinates_of_a_zigzag_do_not_mix():
    one, two = zigzag_network(1, 3, 2), zigzag_network(2, 3, 2)
    x = np.random.default_rng(0).random((40, 2))
    np.testing.assert_array_equal(two(x), np.hstack([one(x[:, :1]), one(x[:, 1:])]))


def test_the_transformer_computes_the_family():
    for network in (tent_network(6), zigzag_network(1, 3, 2)):
        compiled = compile_maxout(network, unit_box(1))
        x = np.linspace(0, 1, 129)[:, None]
        np.testing.assert_allclose(compiled.transformer(x), network(x), atol=1e-9)


def test_bad_sizes_are_refused_by_name():
    with pytest.raises(ArgumentError, match="`depth`"):
        tent_network(0)
    with pytest.raises(ArgumentError, match="`depth`"):
        tent_network(53)
    with pytest.raises(DtypeError, match="`depth`"):
        tent_network(1.5)
    with pytest.raises(ArgumentError, match="`rank`"):
        zigzag_network(1, 1, 1)
    with pytest.raises(ArgumentError, match="`dim`"):
        zigzag_network(0, 2, 1)
    with pytest.raises(SizeLimitError, match="smaller `depth` or `rank`"):
        zigzag_network(1, 2, 30)
