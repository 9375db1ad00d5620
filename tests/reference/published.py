"""Attention as published models compute it: scores divided by the root of d_k first."""

import numpy as np


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def bloom_logits(queries, keys, slope):
    """BLOOM: slope times the position of the key, added to scaled scores, then a causal mask."""
    logits = queries @ keys.T / np.sqrt(queries.shape[1]) + slope * np.arange(len(keys))
    return np.where(np.tri(len(queries), len(keys), dtype=bool), logits, -np.inf)


def falcon_logits(queries, keys, slope):
    """Falcon: slope times the position of the key, added to raw scores, and then both divided."""
    logits = (queries @ keys.T + slope * np.arange(len(keys))) / np.sqrt(queries.shape[1])
    return np.where(np.tri(len(queries), len(keys), dtype=bool), logits, -np.inf)


def mpt_slopes(n_heads):
    """MPT: the slopes of the next larger power of two, every other one first."""
    n = 2 ** int(np.ceil(np.log2(n_heads)))
    slopes = 1.0 / 2.0 ** (np.arange(1, n + 1) * (8 / n))
    if n == n_heads:
        return slopes
    return np.concatenate([slopes[1::2], slopes[::2]])[:n_heads]


def press_logits(queries, keys, slope):
    """The ALiBi paper: minus slope times distance, added to scaled scores, then a causal mask."""
    distance = np.arange(len(queries))[:, None] - np.arange(len(keys))
    logits = queries @ keys.T / np.sqrt(queries.shape[1]) - slope * distance
    return np.where(distance >= 0, logits, -np.inf)


def gemma_logits(queries, keys, cap, query_pre_attn_scalar):
    """Gemma 2: scores times scalar**-0.5, divided by the cap, tanh, times the cap."""
    scaled = queries @ keys.T * query_pre_attn_scalar**-0.5
    return np.tanh(scaled / cap) * cap


def rotate_half(x):
    """Llama in Hugging Face: the second half, negated, and the first."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)


def llama_rotated(x, positions, theta):
    """Llama in Hugging Face: angles repeated once after the other, x cos + rotate_half(x) sin."""
    d = x.shape[-1]
    frequencies = 1.0 / theta ** (np.arange(0, d, 2) / d)
    angles = positions[:, None] * np.concatenate([frequencies, frequencies])
    return x * np.cos(angles) + rotate_half(x) * np.sin(angles)


def rotate_every_two(x):
    """GPT-J: neighbours change places, the second negated."""
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def gpt_j_rotated(x, positions, theta, rotary_dim):
    """GPT-J: angles repeated side by side, the first coordinates turned, the others kept."""
    frequencies = 1.0 / theta ** (np.arange(0, rotary_dim, 2) / rotary_dim)
    angles = np.repeat(positions[:, None] * frequencies, 2, axis=1)
    turned, kept = x[..., :rotary_dim], x[..., rotary_dim:]
    turned = turned * np.cos(angles) + rotate_every_two(turned) * np.sin(angles)
    return np.concatenate([turned, kept], axis=-1)


def meta_rotated(x, positions, theta):
    """Llama as Meta published it: neighbours are a complex number, multiplied by a unit."""
    d = x.shape[-1]
    units = np.exp(1j * positions[:, None] * theta ** (-np.arange(0, d, 2) / d))
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * units
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def permuted_for_gguf(x):
    """The converter to GGUF moves coordinate (half h, place i) of a Llama head to place 2i + h."""
    n, d = x.shape
    return x.reshape(n, 2, d // 2).swapaxes(1, 2).reshape(n, d)
