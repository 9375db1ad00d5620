"""Grouped and multi-query heads: shared keys, one Newton polytope per group."""

import numpy as np
import pytest

from hardmax.errors import ArgumentError, EmptyInputError, ShapeMismatchError
from hardmax.models.variants.grouped_heads import grouped_heads


def layer(n_heads, n_groups, seed=0, n_keys=7, dim=3, d_k=2):
    rng = np.random.default_rng(seed)
    return {
        "query_weights": rng.normal(size=(n_heads, dim, d_k)),
        "keys": rng.normal(size=(n_groups, n_keys, d_k)),
        "values": rng.normal(size=(n_groups, n_keys, 2)),
        "output_weights": rng.normal(size=(n_heads, 2, dim)),
        "query_biases": rng.normal(size=(n_heads, d_k)),
    }


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_grouped_heads_agree_with_attention_over_repeated_keys(n_groups):
    arrays = layer(4, n_groups)
    heads = grouped_heads(**arrays)
    x = np.random.default_rng(1).normal(size=(9, 3))
    queries = np.einsum("nd,hdk->hnk", x, arrays["query_weights"])
    queries += arrays["query_biases"][:, None, :]
    keys = np.repeat(arrays["keys"], 4 // n_groups, axis=0)
    values = np.repeat(arrays["values"], 4 // n_groups, axis=0)
    logits = np.einsum("hnk,hjk->hnj", queries, keys) / 1.5
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    expected = np.einsum("hnj,hjv,hvo->no", weights, values, arrays["output_weights"])
    got = sum(head.soft(x, 1.5) for head in heads)
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


def test_only_vertices_of_the_shared_hull_win_in_any_head():
    """A linear image of a polytope has its vertices among the images of the vertices."""
    from hardmax.geometry.extreme_points import extreme_points

    arrays = layer(6, 1, seed=2, n_keys=12)
    arrays["query_biases"] = None
    vertices = set(np.flatnonzero(extreme_points(arrays["keys"][0])).tolist())
    assert len(vertices) < 12
    x = np.random.default_rng(3).normal(size=(300, 3))
    winners = {int(j) for head in grouped_heads(**arrays) for j in head.winners(x)}
    assert winners <= vertices
    assert len(winners) > 2


def test_a_mask_is_shared_by_every_head():
    bias = np.array([0.0, -np.inf, 0, 0, 0, 0, 0])
    for head in grouped_heads(**layer(2, 1), logit_bias=bias):
        assert 1 not in head.unmasked


@pytest.mark.parametrize(
    ("change", "error", "name"),
    [
        ({"keys": np.ones((3, 7, 2)), "values": np.ones((3, 7, 2))}, ArgumentError, "keys"),
        ({"keys": np.ones((2, 7, 3))}, ShapeMismatchError, "keys"),
        ({"values": np.ones((1, 7, 2))}, ShapeMismatchError, "values"),
        ({"output_weights": np.ones((3, 2, 3))}, ShapeMismatchError, "output_weights"),
        ({"query_biases": np.ones((4, 1))}, ShapeMismatchError, "query_biases"),
        ({"query_weights": np.ones((0, 3, 2))}, EmptyInputError, "query_weights"),
        ({"logit_bias": np.full(7, -np.inf)}, EmptyInputError, "logit_bias"),
        ({"logit_bias": np.zeros(3)}, ShapeMismatchError, "logit_bias"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, error, name):
    with pytest.raises(error, match=f"`{name}`"):
        grouped_heads(**{**layer(4, 2), **change})
