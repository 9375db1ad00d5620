"""Heads made hard, and rows certified: against the definition, and against other certificates."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.models.checkpoints.forward import hardmax_rows, run_from_layer
from hardmax.stability import certify_head
from tests.models.checkpoints.refresh import TOKENS
from tests.models.checkpoints.test_heads import ran


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "albert"])
def test_rows_are_certified_as_single_heads_are(name):
    model, found = ran(name)
    for arrays in hm.models.head_arrays(model, found):
        for h in range(arrays.n_heads):
            certified = hm.models.certify_rows(arrays, h)
            values = arrays.values[arrays.key_head(h)]
            for i in range(1, len(TOKENS)):
                head = arrays.head(h, i)
                known = certify_head(head, arrays.queries[h, i], arrays.temperature)
                assert certified.winners[i] == known.winners[0]
                assert 1 - certified.masses[i] == pytest.approx(known.rival_mass[0], abs=1e-14)
                seen = values[arrays.seen[i]]
                far = np.linalg.norm(seen - values[known.winners[0]], axis=1).max()
                assert certified.distances[i] * far == pytest.approx(known.distance[0], rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e150])
def test_bounds_hold_also_for_ties_copies_and_extreme_sizes(scale):
    rng = np.random.default_rng(0)
    for _ in range(40):
        q, k = rng.integers(-2, 3, (2, 1, 6, 2)).astype(float)
        v = scale * rng.integers(-1, 2, (1, 6, 3)).astype(float)
        arrays = hm.models.HeadArrays(q, k, v, bool(rng.integers(2)), temperature=0.5)
        certified = hm.models.certify_rows(arrays, 0)
        scores = np.where(arrays.seen, q[0] @ k[0].T / 0.5, -np.inf)  # Exact: small integers.
        hard = hardmax_rows(scores)
        assert (certified.winners == scores.argmax(axis=1)).all()
        weights = arrays.weights(0)
        mass = (weights * (hard > 0)).sum(axis=1)
        assert (certified.masses <= mass + 1e-15).all()
        np.testing.assert_allclose(certified.masses, mass, rtol=1e-14)
        unit = v[0] / scale
        gap = np.linalg.norm((weights - hard) @ unit, axis=1)
        apart = np.linalg.norm(unit[None] - unit[certified.winners][:, None], axis=2)
        far = np.where(arrays.seen, apart, 0.0).max(axis=1)
        wanted = np.divide(gap, far, out=np.zeros(6), where=far > 0)
        np.testing.assert_allclose(certified.distances, wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_one_head_made_hard_is_the_same_from_the_start_and_from_its_layer(name):
    model, found = ran(name)
    effects = hm.models.head_effects(model, found)
    layers = hm.models.head_arrays(model, found)
    for effect in effects:
        at = (effect.layer, effect.head)
        whole = hm.models.run_transformer(model, TOKENS, hard=[at]).hidden
        rows = hardmax_rows(layers[effect.layer].scores(effect.head))
        again = run_from_layer(model, found, effect.layer, {effect.head: rows})
        np.testing.assert_allclose(again, whole, atol=1e-12)
        change = np.linalg.norm(whole - found.hidden) / np.linalg.norm(found.hidden)
        assert effect.change == pytest.approx(change, rel=1e-9)
    (joint,) = hm.models.joint_effects(model, found, [at], [1])
    assert joint.change == joint.change_random == pytest.approx(effects[-1].change, rel=1e-9)
    assert (joint.agreement is None) == (name == "bert")


def test_hard_heads_are_the_limit_of_low_temperature():
    model, _ = ran("gpt2")
    heads = [(i, h) for i in range(2) for h in range(2)]
    hard = hm.models.run_transformer(model, TOKENS, hard=heads)
    for layer in hard.layers:
        assert set(np.unique(layer.weights)) == {0.0, 1.0}
    for bad in ([(2, 0)], [(0, 2)], [(-1, 0)]):
        with pytest.raises(HardmaxError, match="`hard`"):
            hm.models.run_transformer(model, TOKENS, hard=bad)
