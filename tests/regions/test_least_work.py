"""Searches in many dimensions that cannot end are refused; others are not."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax import Box, Polytope, ReluNetwork, Slice, WholeSpace, enumerate_regions
from hardmax.errors import ArgumentError
from hardmax.regions._tree import least_work
from hardmax.regions._tree.least_work import (
    least_exponent,
    refuse_hopeless_search,
    seconds_to_first_cell,
)
from hardmax.regions.charted_domains import charted
from tests.regions.test_time_limits import graph, relu, transformer
from tests.sweeps import examples

IMAGE = Box([0.0] * 784, [1.0] * 784)
WIDE = ReluNetwork(
    [np.random.default_rng(0).normal(size=size) for size in ((784, 64), (64, 10))],
    [np.zeros(64), None],
)


def exponent(model, domain):
    return least_exponent(model.network, charted(domain, model.network.dim_in))


def refused(model, domain, **limits):
    where = charted(domain, model.network.dim_in)
    given = {"max_cells": None, "max_seconds": None, **limits}
    try:
        refuse_hopeless_search(model, model.network, where, **given)
    except ArgumentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("domain", [IMAGE, WholeSpace(784)], ids=["box", "space"])
def test_a_box_with_too_many_cells_is_refused_with_lines_that_run(domain):
    message = r"`domain` has 784 dimensions.* at least 2\^\d\d"
    with pytest.raises(ArgumentError, match=message) as error:
        enumerate_regions(WIDE, domain)
    lines = re.findall("`(hm[^`]*)`", str(error.value))
    line, plane, points, cell = (eval(text, {"hm": hm, "np": np, "model": WIDE}) for text in lines)
    assert line.is_complete
    assert plane.is_complete
    assert points.distinct > 1
    assert len(cell.signature) == 64
    text = re.search('--domain "([^"]*)"', str(error.value))[1]
    assert enumerate_regions(WIDE, hm.parse_domain(text)).n_cells == line.n_cells


def test_a_limit_that_leaves_no_time_for_one_cell_is_refused():
    reason = refused(WIDE, IMAGE, max_seconds=5.0)
    assert re.search(
        "the first cell would take at least 16 seconds, and `max_seconds` is 5", reason
    )
    assert not refused(WIDE, IMAGE, max_seconds=60.0)
    assert refused(relu(784, 512, 512, 1), IMAGE, max_seconds=60.0)
    assert refused(relu(784, 40000, 1), IMAGE, max_cells=1)


def test_a_limit_that_can_be_kept_is_not_refused():
    assert refused(relu(100, 64, 1), Box([-1] * 100, [1] * 100))
    part = enumerate_regions(relu(100, 64, 1), Box([-1] * 100, [1] * 100), max_cells=2)
    assert part.n_found == 2
    assert enumerate_regions(relu(784, 4, 1), WholeSpace(784)).n_cells == 16
    assert enumerate_regions(relu(50, 3, 1), Box([-1] * 50, [1] * 50)).is_complete


@pytest.mark.parametrize("dim", [8, 10, 12])
def test_small_models_are_not_refused(dim):
    for model in (relu(dim, 64, 64, 1), transformer(dim, 4, 32)):
        for domain in (WholeSpace(dim), Box([-1] * dim, [1] * dim)):
            assert not refused(model, domain)
            assert not refused(model, domain, max_seconds=0.0)


def test_other_models_and_domains_are_refused_by_what_they_are(monkeypatch):
    rng = np.random.default_rng(0)
    frame = rng.normal(size=(60, 784))
    through = Slice(np.full(784, 0.5), frame)
    assert "around one point, `hm.cell_at(model, [0.5] * 784)`" in refused(WIDE, through)
    heads = transformer(120, 64, 2)
    assert exponent(heads, WholeSpace(120)) >= 40
    assert "around one point, `hm.cell_at(model, [0.5] * 120)`" in refused(heads, WholeSpace(120))
    monkeypatch.setattr(least_work, "MOST_PRODUCTS", 10**6)
    assert "one point" not in refused(heads, WholeSpace(120))
    assert "one point" in refused(WIDE, through)
    wedge = Polytope(rng.normal(size=(20, 100)), np.ones(20))
    assert exponent(relu(100, 64, 1), wedge) >= 40
    corner = Box(np.arange(60.0), np.arange(60.0) + 2.0)
    assert "hm.Segment([0.0] * 60, [1.0] * 60)" in refused(relu_through(corner), corner)
    assert not refused(graph(), Box([0] * 16, [1] * 16))


def relu_through(box):
    """A network all of whose walls pass through the middle of a box."""
    weight = np.random.default_rng(0).normal(size=(box.dim, 60))
    return ReluNetwork([weight, np.ones((60, 1))], [-(box.low + 1.0) @ weight, None])


@given(st.integers(0, 10**6), st.sampled_from(["box", "space", "polytope", "slice"]))
@examples(30)
def test_the_bound_is_one(seed, kind):
    rng = np.random.default_rng(seed)
    dim, n_units = 6, int(rng.integers(3, 9))
    shift = rng.normal(size=dim) * rng.choice([0.0, 0.3, 2.0])
    domain = {
        "box": Box(shift - 1.0, shift + 1.0),
        "space": WholeSpace(dim),
        "polytope": Polytope(rng.normal(size=(12, dim)), 0.2 + rng.random(12)),
        "slice": Slice(shift, rng.normal(size=(4, dim)), Box([-1] * 4, [1] * 4)),
    }[kind]
    if seed % 2:
        model = transformer(dim, n_units // 2, int(rng.integers(1, 5)), seed)
    else:
        weight = rng.integers(-2, 3, size=(dim, n_units)) * 0.5
        model = ReluNetwork([weight, np.ones((n_units, 1))], [rng.normal(size=n_units), None])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_work, "_EXPONENTS", (6, 5, 4, 3, 2, 1))
        found = exponent(model, domain)
    assert 2**found <= enumerate_regions(model, domain, count_only=True).n_cells


def test_the_bound_is_met_where_walls_are_independent():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_work, "_EXPONENTS", (6, 5, 4, 3, 2, 1))
        assert exponent(relu(6, 6, 1), WholeSpace(6)) == 6
        parallel = ReluNetwork([np.ones((6, 5)), np.ones((5, 1))], [np.arange(5.0), None])
        assert exponent(parallel, WholeSpace(6)) == 1
        # The walls meet outside.
        assert exponent(ReluNetwork([np.eye(6), np.ones((6, 1))]), Box([1] * 6, [2] * 6)) == 0
        assert exponent(ReluNetwork([np.eye(6), np.ones((6, 1))]), Box([0] * 6, [2] * 6)) == 0


def test_the_estimate_grows_with_all_that_costs():
    def seconds(*widths, domain=None):
        model = relu(*widths)
        where = charted(domain or Box([-1] * widths[0], [1] * widths[0]), widths[0])
        return seconds_to_first_cell(model.network, where)

    assert seconds(20, 10, 1) < seconds(20, 20, 1) < seconds(20, 20, 20, 1)
    assert seconds(20, 10, 1) < seconds(40, 10, 1)
    # Space has no inequalities.
    assert seconds(40, 10, 1, domain=WholeSpace(40)) < seconds(40, 10, 1)
    # Units that are on everywhere are decided once.
    far = ReluNetwork([np.eye(20), np.ones((20, 1))])
    where = charted(Box([1] * 20, [2] * 20), 20)
    near = charted(Box([-1] * 20, [1] * 20), 20)
    assert seconds_to_first_cell(far.network, where) < seconds_to_first_cell(far.network, near)
