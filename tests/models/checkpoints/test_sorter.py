"""The small transformer of the package: its gradient, its forward pass, its answers."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.models.checkpoints.sorter.training import (
    SorterConfig,
    compute_loss_and_gradient,
    draw_weights,
    iter_batches,
)


def test_the_gradient_is_the_derivative_of_the_loss():
    sizes, rng = SorterConfig(batch=3, most_letters=5), np.random.default_rng(1)
    weights = {k: v.astype(float) for k, v in draw_weights(sizes, rng).items()}
    tokens = next(iter_batches(sizes, rng))
    gradient = compute_loss_and_gradient(weights, tokens, sizes)[2]
    for name, array in weights.items():
        step = 1e-5 * rng.standard_normal(array.shape)
        up, down = (
            compute_loss_and_gradient({**weights, name: array + sign * step}, tokens, sizes)[0]
            for sign in (1.0, -1.0)
        )
        assert (gradient[name] * step).sum() == pytest.approx((up - down) / 2, rel=1e-4, abs=1e-12)


def test_training_and_the_forward_pass_agree_on_the_model():
    model = hm.load_checkpoint("hardmax")
    sizes = SorterConfig(batch=2, most_letters=8)
    tokens = next(iter_batches(sizes, np.random.default_rng(0)))
    stored = {
        "wte.weight": model.embedding.tokens,
        "wpe.weight": model.embedding.positions,
        "lm_head.weight": model.unembedding.T,
        "ln_f.weight": model.final_norm.scale,
        "ln_f.bias": model.final_norm.shift,
    }
    for i, layer in enumerate(model.layers):
        heads = layer.attention
        parts = [heads.query, heads.key, heads.value]
        biases = [heads.query_bias, heads.key_bias, heads.value_bias]
        stored |= {
            f"h.{i}.attn.c_attn.weight": np.hstack([np.hstack(part) for part in parts]),
            f"h.{i}.attn.c_attn.bias": np.hstack([bias.ravel() for bias in biases]),
            f"h.{i}.attn.c_proj.weight": np.vstack(heads.output),
            f"h.{i}.attn.c_proj.bias": heads.output_bias,
            f"h.{i}.ln_1.weight": layer.attention_norm.scale,
            f"h.{i}.ln_1.bias": layer.attention_norm.shift,
            f"h.{i}.ln_2.weight": layer.mlp_norm.scale,
            f"h.{i}.ln_2.bias": layer.mlp_norm.shift,
        }
        for name, linear in (("c_fc", layer.mlp.up), ("c_proj", layer.mlp.down)):
            stored[f"h.{i}.mlp.{name}.weight"] = linear.weight
            stored[f"h.{i}.mlp.{name}.bias"] = linear.bias
    weights = {name: array.astype(float) for name, array in stored.items()}
    loss, right, _ = compute_loss_and_gradient(weights, tokens, sizes)
    n = tokens.shape[1] // 2
    scores = np.array([hm.models.run_transformer(model, row[:-1]).logits[-n:] for row in tokens])
    shares = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    wanted = np.take_along_axis(shares, tokens[:, -n:, None], -1)
    assert loss == pytest.approx(-np.log(wanted).mean(), rel=1e-3, abs=1e-7)
    assert right == 1.0
