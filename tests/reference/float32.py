"""A transformer on tokens in float32, every sum in an order of its own."""

import numpy as np

F = np.float32


def shuffled_product(left, right, rng):
    """`left @ right` of the last two axes, one term after the other in a random order."""
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = np.zeros((*batch, left.shape[-2], right.shape[-1]), dtype=F)
    for k in rng.permutation(left.shape[-1]):
        total = total + left[..., :, k, None] * right[..., None, k, :]
    return total


def evaluate(model, x, rng):
    """Evaluate the soft model at float32 points `(n, dim_in)`."""
    state = shuffled_product(x, model.embedding_weight[:, 0].astype(F), rng)[:, None]
    state = state + model.embedding_bias.astype(F)
    for block in model.blocks:
        total = np.zeros_like(state)
        for head in block.heads:
            query = shuffled_product(state, head.query_weight.astype(F), rng) + head.bias.astype(F)
            key = shuffled_product(state, head.key_weight.astype(F), rng)
            value = shuffled_product(state, head.value_weight.astype(F), rng)
            logits = shuffled_product(query, key.transpose(0, 2, 1), rng)
            logits = logits * F(1 / np.sqrt(head.d_k))
            with np.errstate(under="ignore"):
                weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
                sums = np.zeros(weights.shape[:-1], dtype=F)
                for k in rng.permutation(weights.shape[-1]):
                    sums = sums + weights[..., k]
                mixed = shuffled_product(weights / sums[..., None], value, rng)
            total = total + shuffled_product(mixed, head.output_weight.astype(F), rng)
        state = state + total
        if block.ffn is not None:
            units = shuffled_product(state, block.ffn.w_in.astype(F), rng)
            units = np.maximum(units + np.asarray(block.ffn.b_in).astype(F), F(0))
            result = shuffled_product(units, block.ffn.w_out.astype(F), rng)
            state = state + (result + np.asarray(block.ffn.b_out).astype(F))
    row = state[:, model.readout_token]
    assert state.dtype == F
    return shuffled_product(row, model.readout.weight.astype(F), rng) + model.readout.bias.astype(F)
