"""ALiBi, soft caps and rotary pairs as published models mean them: winners and soft outputs."""

import numpy as np
import pytest

from hardmax.errors import ArgumentError, HardmaxError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.masks import alibi_bias, alibi_slopes, heads_by_position
from hardmax.models.variants.rotary import rotary_head
from hardmax.models.variants.soft_cap import SoftCappedHead
from tests.reference import published

WIDTHS = [2, 4, 8, 64, 96]
N_KEYS, DIM = 12, 5


def random_head(d_k, seed=0, spread=2.0):
    rng = np.random.default_rng([seed, d_k])
    head = AttentionHead(
        spread * rng.normal(size=(DIM, d_k)),
        rng.normal(size=(N_KEYS, d_k)),
        3.0 * rng.normal(size=(N_KEYS, 4)),
        rng.normal(size=(4, 3)),
        query_bias=rng.normal(size=d_k),
    )
    return head, rng.normal(size=(N_KEYS, DIM))


def outputs(head, logits):
    return published.softmax(logits) @ head.values @ head.output_weight


@pytest.mark.parametrize("d_k", WIDTHS)
@pytest.mark.parametrize("reference", [published.bloom_logits, published.press_logits])
def test_published_slopes_give_the_winners_and_outputs_of_bloom(d_k, reference):
    changed = 0
    for seed, slope in enumerate(alibi_slopes(8)):
        head, x = random_head(d_k, seed)
        queries = x @ head.query_weight + head.query_bias
        logits = reference(queries, head.keys, slope)
        heads = heads_by_position(head, slope=slope, score_divisor="standard")
        winners = [int(at.winners(row)) for at, row in zip(heads, x, strict=True)]
        assert winners == logits.argmax(axis=1).tolist()
        tau = head.standard_temperature
        soft = np.array([at.soft(row, tau) for at, row in zip(heads, x, strict=True)])
        np.testing.assert_allclose(soft, outputs(head, logits), rtol=1e-9, atol=1e-11)
        raw = heads_by_position(head, slope=slope)
        raw_soft = np.array([at.soft(row, tau) for at, row in zip(raw, x, strict=True)])
        changed = max(changed, np.abs(raw_soft - soft).max())
    # A slope on raw scores is another thing, at every width but 1.
    assert changed > 0.01


@pytest.mark.parametrize("d_k", WIDTHS)
def test_slopes_of_falcon_act_on_raw_scores(d_k):
    head, x = random_head(d_k)
    logits = published.falcon_logits(x @ head.query_weight + head.query_bias, head.keys, 0.5)
    heads = heads_by_position(head, slope=0.5)
    assert [int(at.winners(row)) for at, row in zip(heads, x, strict=True)] == logits.argmax(
        axis=1
    ).tolist()
    soft = [at.soft(row, head.standard_temperature) for at, row in zip(heads, x, strict=True)]
    np.testing.assert_allclose(soft, outputs(head, logits), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6, 8, 12, 16, 40])
def test_slopes_of_mpt_are_the_same(n_heads):
    np.testing.assert_allclose(alibi_slopes(n_heads), published.mpt_slopes(n_heads), rtol=1e-12)


@pytest.mark.parametrize("d_k", WIDTHS)
@pytest.mark.parametrize("scalar", [None, 144.0])
def test_published_caps_give_the_winners_and_outputs_of_gemma(d_k, scalar):
    head, x = random_head(d_k, spread=20.0)
    queries = x @ head.query_weight + head.query_bias
    cap = 5.0
    logits = published.gemma_logits(queries, head.keys, cap, d_k if scalar is None else scalar)
    divisor = "standard" if scalar is None else np.sqrt(scalar)
    capped = SoftCappedHead(head, cap, score_divisor=divisor)
    tau = capped.score_divisor
    np.testing.assert_allclose(capped.soft(x, tau), outputs(head, logits), rtol=1e-9, atol=1e-11)
    scores = queries @ head.keys.T
    assert capped.winners(x).tolist() == scores.argmax(axis=1).tolist()
    on_raw = SoftCappedHead(head, cap).soft(x, tau)
    assert np.abs(on_raw - capped.soft(x, tau)).max() > 0.01


ROTATIONS = {
    "llama in Hugging Face": (published.llama_rotated, "halves", None),
    "llama of Meta": (published.meta_rotated, "interleaved", None),
    "gpt-j": (published.gpt_j_rotated, "interleaved", 4),
    "gpt-j in full": (published.gpt_j_rotated, "interleaved", "all"),
}


@pytest.mark.parametrize("d_k", [4, 8, 64, 96])
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
@pytest.mark.parametrize("family", ROTATIONS)
def test_each_family_turns_its_own_pairs(d_k, theta, family):
    turn, pairing, turned = ROTATIONS[family]
    head, x = random_head(d_k)
    size = d_k if turned == "all" else turned
    rest = {} if turned is None else {"rotary_dim": size}
    queries = x @ head.query_weight + head.query_bias
    places = np.arange(N_KEYS)
    keys = turn(head.keys, places, theta, **rest)
    other = {"halves": "interleaved", "interleaved": "halves"}[pairing]
    tau = head.standard_temperature
    apart = 0.0
    for position in (0, 5, 300):
        rotated = turn(queries, np.full(len(x), position), theta, **rest)
        logits = rotated @ keys.T / np.sqrt(d_k)
        options = {"base": theta, "rotary_dim": None if turned is None else size}
        at = rotary_head(head, position, pairing=pairing, **options)
        assert at.winners(x).tolist() == logits.argmax(axis=1).tolist()
        np.testing.assert_allclose(at.soft(x, tau), outputs(head, logits), rtol=1e-8, atol=1e-9)
        wrong = rotary_head(head, position, pairing=other, **options).soft(x, tau)
        apart = max(apart, np.abs(wrong - at.soft(x, tau)).max())
    assert apart > 0.1


@pytest.mark.parametrize("d_k", [4, 8, 64])
def test_llama_in_a_gguf_file_is_the_same_head_with_interleaved_pairs(d_k):
    """The converter permutes the coordinates of queries and keys, and the pairs with them."""
    head, x = random_head(d_k)
    moved = AttentionHead(
        published.permuted_for_gguf(head.query_weight),
        published.permuted_for_gguf(head.keys),
        head.values,
        head.output_weight,
        published.permuted_for_gguf(head.query_bias[None])[0],
    )
    for position in (0, 3, 77):
        here = rotary_head(head, position, pairing="halves")
        there = rotary_head(moved, position, pairing="interleaved")
        assert here.winners(x).tolist() == there.winners(x).tolist()
        np.testing.assert_allclose(here.soft(x, 2.0), there.soft(x, 2.0), rtol=1e-10, atol=1e-12)


def test_a_divisor_of_one_changes_no_bit():
    head, x = random_head(8)
    np.testing.assert_array_equal(alibi_bias(9, 3, 0.3, score_divisor=1.0), alibi_bias(9, 3, 0.3))
    np.testing.assert_array_equal(
        SoftCappedHead(head, 2.0, score_divisor=1).soft(x, 0.5),
        SoftCappedHead(head, 2.0).soft(x, 0.5),
    )


@pytest.mark.parametrize("divisor", [0.0, -1.0, np.inf, np.nan, "sqrt", None])
def test_a_bad_divisor_is_refused_by_name(divisor):
    head, _ = random_head(4)
    calls = [
        lambda: alibi_bias(3, 1, 0.5, score_divisor=divisor),
        lambda: heads_by_position(head, slope=0.5, score_divisor=divisor),
        lambda: SoftCappedHead(head, 1.0, score_divisor=divisor),
    ]
    for call in calls:
        with pytest.raises(HardmaxError, match="`score_divisor`"):
            call()
    for cap in (1e308, 1e-323):
        with pytest.raises(HardmaxError, match="`cap`"):
            SoftCappedHead(head, cap, score_divisor=100.0 if cap > 1 else 0.01)
    with pytest.raises(ArgumentError, match="`score_divisor` must be one of standard"):
        SoftCappedHead(head, 1.0, score_divisor="sqrt")
