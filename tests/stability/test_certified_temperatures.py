"""The temperature for an error: certified, close to the largest, refused where there is none."""

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, DiscontinuityError
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.stability import temperature_for
from tests.stability_models import SIGN


def random_transformer(seed, dim, n_blocks):
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(n_blocks):
        shapes = (dim, 2), (4, 2), (4, 3), (3, dim)
        heads = [AttentionHead(*(rng.normal(size=s) for s in shapes)) for _ in range(2)]
        ffn = FeedForward(*(rng.normal(size=s) for s in ((dim, 3), (3,), (3, dim), (dim,))))
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks)


def largest_error(model, box, tau, n=4000):
    rng = np.random.default_rng(0)
    points = rng.uniform(box.low, box.high, (n, box.dim))
    return np.sqrt(((model.soft(points, tau) - model(points)) ** 2).sum(axis=1)).max()


def quiet_box(model, dim, radius):
    """A small box in which no head changes its winner."""
    rng = np.random.default_rng(7)
    while True:
        middle = rng.uniform(-2, 2, dim)
        box = Box(middle - radius, middle + radius)
        if hm.enumerate_regions(model, box).n_cells == 1:
            return box


@pytest.mark.parametrize("error", [1e-9, 1e-3, 0.1, 0.9])
def test_one_head_with_two_keys_gets_the_temperature_of_the_formula(error):
    found = temperature_for(SIGN, Box([0.5], [2.0]), error)
    # The gap is at least 1 and the values differ by 2.
    exact = 1.0 / math.log(2.0 / error - 1.0)
    assert exact * (1 - 2.0**-11) <= found.temperature <= exact
    assert 0.99 * error <= found.bound <= found.error == error
    assert found.n_cells == 1


@pytest.mark.parametrize("n_blocks", [1, 2])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_soft_model_is_within_the_error_at_that_temperature(dim, n_blocks):
    model = random_transformer(dim, dim, n_blocks)
    box = quiet_box(model, dim, 0.02)
    for error in (1e-4, 1e-2):
        found = temperature_for(model, box, error)
        assert largest_error(model, box, found.temperature) <= found.bound <= error
        # It is no needlessly cold temperature either.
        assert largest_error(model, box, 2.0 * found.temperature) > error


def test_units_may_change_their_winners():
    rng = np.random.default_rng(3)
    heads = [
        AttentionHead(np.eye(2), [[-1.0, 0.0], [1.0, 0.0]], rng.normal(size=(2, 2)), np.eye(2))
    ]
    ffn = FeedForward(*(rng.normal(size=s) for s in ((2, 6), (6,), (6, 2), (2,))))
    model = HardTransformer([Block(heads, ffn)])
    box = Box([0.5, -2.0], [2.0, 2.0])
    found = temperature_for(model, box, 1e-3)
    assert found.n_cells > 3
    assert largest_error(model, box, found.temperature) <= found.bound <= 1e-3
    assert largest_error(model, box, 2.0 * found.temperature) > 1e-3


def test_a_wall_between_equal_values_does_no_harm():
    # Keys -1 and 1 have one value, key 0 with a low score another.
    head = AttentionHead(np.eye(1), [[-1.0], [1.0], [0.0]], [[5.0], [5.0], [0.0]], np.eye(1),
                         logit_bias=[0.0, 0.0, -4.0])  # fmt: skip
    box = Box([-2.0], [2.0])
    found = temperature_for(head, box, 1e-3)
    assert found.n_cells == 2
    assert largest_error(head, box, found.temperature) <= found.bound <= 1e-3
    assert largest_error(head, box, 2.0 * found.temperature) > 1e-3


def test_a_jump_beyond_twice_the_error_has_no_temperature():
    with pytest.raises(DiscontinuityError, match=r"it jumps from \[-1.0\] to \[1.0\] at \[0.0\]"):
        temperature_for(SIGN, Box([-1.0], [1.0]), 0.999)
    with pytest.raises(DiscontinuityError, match=r"at coordinates \[0.5\]. Near this point"):
        temperature_for(SIGN, Segment([-1.0], [1.0]), 0.5)
    with pytest.raises(DiscontinuityError, match=r"the error is at least .* at every temperature"):
        temperature_for(random_transformer(0, 2, 1), Box([-9, -9], [9, 9]), 1e-3)
    # Just as large, it can neither be shown nor refuted.
    with pytest.raises(ArgumentError, match="the error bound remains"):
        temperature_for(SIGN, Box([-1.0], [1.0]), 1.0)
    found = temperature_for(SIGN, Box([-1.0], [1.0]), 1.01)
    assert found.bound <= 1.01
    assert largest_error(SIGN, Box([-1.0], [1.0]), found.temperature) <= found.bound


def test_a_network_without_heads_is_hard_at_every_temperature():
    relu = ReluNetwork([np.eye(2), np.ones((2, 1))])
    found = hm.stability.temperature_for(relu, Box([-1, -1], [1, 1]), 1e-3)
    assert (found.temperature, found.bound, found.n_cells) == (math.inf, 0.0, 4)


def test_boxes_of_many_dimensions_need_no_vertices():
    rng = np.random.default_rng(0)
    dim = 16
    shapes = (dim, 3), (3, 3), (3, 2), (2, 2)
    head = AttentionHead(*(rng.normal(size=shape) for shape in shapes))
    middle = rng.normal(size=dim)
    box = Box(middle - 0.01, middle + 0.01)
    found = temperature_for(head, box, 1e-3)
    assert found.n_cells == 1
    assert largest_error(head, box, found.temperature) <= found.bound <= 1e-3


def test_slices_of_the_input_space_are_domains():
    model = random_transformer(1, 3, 1)
    box = quiet_box(model, 3, 0.02)
    plane = Slice((box.low + box.high) / 2, np.eye(3)[:2], Box([-0.01, -0.01], [0.01, 0.01]))
    assert (
        temperature_for(model, plane, 1e-3).temperature
        >= temperature_for(model, box, 1e-3).temperature
    )


def test_bad_arguments_are_refused():
    box = Box([0.5], [1.0])
    with pytest.raises(ArgumentError, match="`error` must be above 0"):
        temperature_for(SIGN, box, 0.0)
    with pytest.raises(ArgumentError, match="`domain` must be bounded"):
        temperature_for(SIGN, WholeSpace(1), 0.1)
    with pytest.raises(
        ArgumentError,
        match="input space of the model, which has dimension 1",
    ):
        temperature_for(SIGN, Box([0, 0], [1, 1]), 0.1)
