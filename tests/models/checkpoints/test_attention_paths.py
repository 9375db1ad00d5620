"""Paths of whole sequences: the keys between breakpoints, against exact scores in fractions."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.exact.dyadic import rationals
from tests.models.checkpoints.test_frozen_networks import hard_run


def exact_scores(heads, head, rows):
    kv = head * heads.n_kv_heads // heads.n_heads

    def projected(weight, bias):
        found = rows @ rationals(weight.astype(float))
        return found if bias is None else found + rationals(bias.astype(float))

    query_bias = None if heads.query_bias is None else heads.query_bias[head]
    key_bias = None if heads.key_bias is None else heads.key_bias[kv]
    return projected(heads.query[head], query_bias) @ projected(heads.key[kv], key_bias).T


def check(model, start, end, path):
    """Between breakpoints the keys are those of largest exact score; at each one, they change."""
    heads, n = model.layers[0].attention, len(start)
    one, other = rationals(start), rationals(end)
    ends = [0.0, *path.breakpoints.tolist(), 1.0]
    assert (np.diff(ends) >= 0.0).all()
    keys = path.first.copy()
    changes = path.changes.tolist()
    for i in range(path.n_cells):
        while changes and changes[0][0] < i:
            _, head, token, before, after = changes.pop(0)
            assert keys[head, token] == before != after
            keys[head, token] = after
        if ends[i + 1] - ends[i] < 1e-12:
            continue
        t = (Fraction(ends[i]) + Fraction(ends[i + 1])) / 2
        for head in range(heads.n_heads):
            scores = exact_scores(heads, head, one + t * (other - one))
            for token in range(n):
                shown = range(token + 1) if heads.is_causal else range(n)
                best = max(scores[token, j] for j in shown)
                assert scores[token, keys[head, token]] == best
    assert not changes
    assert sorted(set(path.changes[:, 0].tolist())) == list(range(len(path.breakpoints)))


@pytest.mark.parametrize("seed", range(25))
def test_integer_models_with_repeated_tokens_and_coinciding_breakpoints(seed):
    rng = np.random.default_rng(seed)
    d = 2
    state = {
        "layers.0.self_attn.in_proj_weight": rng.integers(-2, 3, (3 * d, d)).astype(float),
        "layers.0.self_attn.in_proj_bias": rng.integers(-1, 2, 3 * d).astype(float),
        "layers.0.self_attn.out_proj.weight": np.eye(d),
        "layers.0.linear1.weight": np.ones((1, d)),
        "layers.0.linear2.weight": np.ones((d, 1)),
        "layers.0.norm1.weight": np.ones(d),
        "layers.0.norm2.weight": np.ones(d),
    }
    model = hm.load_checkpoint(state, config={"nhead": int(rng.integers(1, 3))})
    start, end = rng.integers(-2, 3, (2, 6, d)).astype(float)
    end[rng.integers(6)] = end[0]
    check(model, start, end, hm.models.attention_path(model, start, end))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_trained_shapes(name):
    model, found = hard_run(name)
    start = found.layers[0].inputs
    end = np.random.default_rng(0).standard_normal(start.shape)
    path = hm.models.attention_path(model, start, end)
    assert path.n_cells > 3
    check(model, start, end, path)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_rotary_positions_turn_queries_and_keys(name):
    model, found = hard_run(name)
    start = found.layers[0].inputs
    path = hm.models.attention_path(model, start, start)
    assert path.n_cells == 1
    for head, arrays in enumerate([hm.models.head_arrays(model, found)[0]] * 4):
        assert path.first[head].tolist() == arrays.scores(head).argmax(axis=1).tolist()


def test_other_arguments_are_refused():
    model, found = hard_run("bert")
    read = found.layers[0].inputs
    for arguments in ((read, read[:2]), (read, read[:, :3]), (read, read, 5)):
        with pytest.raises(HardmaxError):
            hm.models.attention_path(model, *arguments)
