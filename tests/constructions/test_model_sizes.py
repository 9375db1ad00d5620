"""Sizes that would not fit in memory: refused by name, before memory is asked for."""

import tracemalloc

import numpy as np
import pytest

from hardmax.constructions import (
    attention_grid_transformer,
    bias_free_shattering_transformer,
    collapsing_self_attention,
    compile_maxout,
    extremal_heads,
    extremal_points,
    folding_layer,
    literal_shattering_transformer,
    moment_curve,
    moment_curve_forms,
    sawtooth,
    shattering_count,
    shattering_self_attention,
    shattering_transformer,
)
from hardmax.constructions.families.model_sizes import MOST_NUMBERS, refuse_size
from hardmax.errors import SizeLimitError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork

HUGE = 10**12


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("dim", lambda: shattering_transformer(2, 10**5, 1, 2 * 10**5)),
        ("dim", lambda: shattering_transformer(2, HUGE, 1, 2 * HUGE)),
        ("n_heads", lambda: shattering_transformer(2, 1, 1, 2, 10**7)),
        ("n_heads", lambda: shattering_transformer(2, 1, 1, 2, HUGE)),
        ("n_keys", lambda: shattering_transformer(10**9, 1, 1, 2)),
        ("depth", lambda: shattering_transformer(2, 1, 10**9, 2)),
        ("d_ff", lambda: shattering_transformer(2, 1, 1, HUGE)),
        ("dim", lambda: bias_free_shattering_transformer(2, 10**5, 1, 2 * 10**5)),
        ("depth", lambda: shattering_count(2, 1, HUGE, 2)),
        ("dim", lambda: shattering_count(2, HUGE, 1, 2 * HUGE)),
        ("depth", lambda: attention_grid_transformer(1, 1, HUGE)),
        ("dim", lambda: attention_grid_transformer(2, 10**6, 1)),
        ("n_keys", lambda: literal_shattering_transformer(HUGE, 1, 1, 2)),
        ("depth", lambda: literal_shattering_transformer(2, 1, HUGE, 2)),
        ("n_tokens", lambda: shattering_self_attention(10**6, 1, 1, 2, causal=True)),
        ("width", lambda: shattering_self_attention(3, 1, 1, 2, width=HUGE)),
        ("depth", lambda: shattering_self_attention(3, 1, HUGE, 2)),
        ("n_heads", lambda: shattering_self_attention(3, 1, 1, 2, 10**9)),
        ("n_keys", lambda: collapsing_self_attention(10**7, 1, 1, 2)),
        ("n_teeth", lambda: sawtooth(HUGE)),
        ("dim", lambda: folding_layer(1, 2, 1, 1, dim=HUGE, d_ff=2, residual=False)),
        ("n_polytopes", lambda: extremal_points(2, HUGE, 2)),
        ("dim", lambda: extremal_points(2, 2, HUGE)),
        ("n_heads", lambda: extremal_heads(2, 10**5, 2)),
        ("dim", lambda: extremal_heads([2, 2], None, HUGE)),
        ("n_points", lambda: moment_curve(HUGE, 1)),
        ("dim", lambda: moment_curve(2, HUGE)),
        ("n_keys", lambda: moment_curve_forms(5 * 10**7, 1)),
    ],
)
def test_constructions_that_fit_no_memory_are_refused_by_name(name, build, monkeypatch):
    monkeypatch.setattr("hardmax.constructions.families.model_sizes.MOST_NUMBERS", 2**26)
    tracemalloc.start()
    try:
        with pytest.raises(SizeLimitError, match=f"`{name}`"):
            build()
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


def test_networks_whose_transformer_fits_no_memory_are_refused(monkeypatch):
    monkeypatch.setattr("hardmax.constructions.compilers.token_layout.MOST_NUMBERS", 10**6)
    net = MaxoutNetwork([[np.ones((3, 1))] * 400, np.ones((400, 1))])
    with pytest.raises(SizeLimitError, match=r"`net` is too large.*3 tokens of width 804"):
        compile_maxout(net, Box([0.0], [1.0]))


def test_the_estimate_for_a_compiled_network_is_close_to_its_size(monkeypatch):
    rng = np.random.default_rng(0)
    net = MaxoutNetwork(
        [[rng.normal(size=(3, 4)) for _ in range(40)], rng.normal(size=(40, 2))],
        [[rng.normal(size=3) for _ in range(40)], rng.normal(size=2)],
    )
    box = Box([-1.0] * 4, [1.0] * 4)
    size = compile_maxout(net, box).size.parameters
    monkeypatch.setattr("hardmax.constructions.compilers.token_layout.OBJECT_NUMBERS", 0)
    limit = "hardmax.constructions.compilers.token_layout.MOST_NUMBERS"
    monkeypatch.setattr(limit, 2 * size)
    compile_maxout(net, box)
    monkeypatch.setattr(limit, size - size // 10)
    with pytest.raises(SizeLimitError):
        compile_maxout(net, box)


def test_the_limit_itself_is_allowed():
    refuse_size(MOST_NUMBERS, dim=1)
    with pytest.raises(SizeLimitError, match=r"`dim` = 3 requires about 2\^29 numbers"):
        refuse_size(MOST_NUMBERS + 1, dim=3)
