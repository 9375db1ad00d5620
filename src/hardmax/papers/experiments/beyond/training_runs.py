r"""Small transformers trained in NumPy, stored at several steps of their training.

The task is to separate two spirals in the plane. A model has the form of `HardTransformer`, but is
soft, at the standard temperature $\sqrt{d_k}$: an affine embedding of the plane, blocks of heads
with memories of their own, which are trained too, with residual connections and ReLU units, and an
affine readout, the sign of which is the prediction. Without bias, every bias is 0 and stays 0.

The seeds determine everything except the rounding of a BLAS. The stored runs were computed on one
machine:

    python -m hardmax.papers.experiments.beyond.training_runs
"""

from collections.abc import Iterator
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.typing import BoolArray, FloatArray

WIDTH, N_HEADS, N_KEYS, HEAD_DIM, D_FF, DEPTH = 4, 2, 6, 2, 8, 2
"""The shape of the models."""
STEPS = (0, 10, 30, 100, 300, 1000, 3000, 10000)
"""The steps at which the models are stored."""
SEEDS = tuple(range(8))
_FILE = "training_runs.npz"
_N_POINTS = 400
_RATE = 0.01
Weights = dict[str, FloatArray]


def spirals() -> tuple[FloatArray, BoolArray]:
    """Return the points of two spirals in the unit disc, and the spiral of each point."""
    t = np.linspace(0.15, 1.0, _N_POINTS // 2)
    angle = 3.0 * np.pi * t
    one = np.column_stack([t * np.cos(angle), t * np.sin(angle)])
    is_first = np.arange(_N_POINTS) < _N_POINTS // 2
    return np.vstack([one, -one]), is_first


def initial_weights(seed: int, with_bias: bool) -> Weights:
    """Draw the weights of a model; the entries of each matrix have variance one over its rows."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> FloatArray:
        return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[-2]))

    def bias(*shape: int) -> FloatArray:
        return 0.5 * rng.standard_normal(shape) * with_bias

    weights = {"embed": 2.0 * normal(2, WIDTH), "embed_bias": bias(WIDTH)}
    for i in range(DEPTH):
        weights |= {
            f"{i}.query": normal(N_HEADS, WIDTH, HEAD_DIM),
            f"{i}.query_bias": bias(N_HEADS, HEAD_DIM),
            f"{i}.keys": rng.standard_normal((N_HEADS, N_KEYS, HEAD_DIM)),
            f"{i}.values": rng.standard_normal((N_HEADS, N_KEYS, HEAD_DIM)),
            f"{i}.output": 0.5 * normal(N_HEADS, HEAD_DIM, WIDTH),
            f"{i}.w_in": normal(WIDTH, D_FF),
            f"{i}.b_in": bias(D_FF),
            f"{i}.w_out": normal(D_FF, WIDTH),
            f"{i}.b_out": bias(WIDTH),
        }
    return {**weights, "read": normal(WIDTH, 1), "read_bias": bias(1)}


def loss_and_gradient(
    weights: Weights, points: FloatArray, is_first: BoolArray
) -> tuple[float, float, Weights]:
    """Return the mean logistic loss, the accuracy, and the gradient."""
    z = points @ weights["embed"] + weights["embed_bias"]
    kept = []
    for i in range(DEPTH):
        w = {name: weights[f"{i}.{name}"] for name in _BLOCK}
        query = z @ w["query"] + w["query_bias"][:, None]
        scores = query @ w["keys"].swapaxes(1, 2) / np.sqrt(HEAD_DIM)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        mixed = shares @ w["values"]
        u = z + (mixed @ w["output"]).sum(axis=0)
        active = np.maximum(u @ w["w_in"] + w["b_in"], 0.0)
        kept.append((z, query, shares, mixed, u, active))
        z = u + active @ w["w_out"] + w["b_out"]
    answer = (z @ weights["read"] + weights["read_bias"])[:, 0]
    sign = np.where(is_first, 1.0, -1.0)
    loss = float(np.logaddexp(0.0, -sign * answer).mean())
    right = float((sign * answer > 0.0).mean())

    back = (-sign / (1.0 + np.exp(np.clip(sign * answer, -50, 50))) / len(points))[:, None]
    gradient = {"read": z.T @ back, "read_bias": back.sum(axis=0)}
    back = back @ weights["read"].T
    for i in reversed(range(DEPTH)):
        z, query, shares, mixed, u, active = kept[i]
        w = {name: weights[f"{i}.{name}"] for name in _BLOCK}
        inner = (back @ w["w_out"].T) * (active > 0.0)
        g = {"w_out": active.T @ back, "b_out": back.sum(axis=0)}
        g |= {"w_in": u.T @ inner, "b_in": inner.sum(axis=0)}
        back = back + inner @ w["w_in"].T
        g["output"] = mixed.swapaxes(1, 2) @ back
        by_mixed = back @ w["output"].swapaxes(1, 2)
        g["values"] = shares.swapaxes(1, 2) @ by_mixed
        by_share = by_mixed @ w["values"].swapaxes(1, 2)
        by_score = shares * (by_share - (shares * by_share).sum(axis=2, keepdims=True))
        by_score /= np.sqrt(HEAD_DIM)
        g["keys"] = by_score.swapaxes(1, 2) @ query
        by_query = by_score @ w["keys"]
        g |= {"query": z.T @ by_query, "query_bias": by_query.sum(axis=1)}
        back = back + (by_query @ w["query"].swapaxes(1, 2)).sum(axis=0)
        gradient |= {f"{i}.{name}": array for name, array in g.items()}
    gradient |= {"embed": points.T @ back, "embed_bias": back.sum(axis=0)}
    return loss, right, gradient


_BLOCK = (
    *("query", "query_bias", "keys", "values", "output"),
    *("w_in", "b_in", "w_out", "b_out"),
)


def train(seed: int, with_bias: bool) -> Iterator[Weights]:
    """Train with Adam on all points at once; yield the weights at each of `STEPS`."""
    points, is_first = spirals()
    weights = initial_weights(seed, with_bias)
    first = {name: np.zeros_like(array) for name, array in weights.items()}
    second = {name: np.zeros_like(array) for name, array in weights.items()}
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            yield {name: array.copy() for name, array in weights.items()}
        _, _, gradient = loss_and_gradient(weights, points, is_first)
        for name, array in weights.items():
            if not with_bias and (name.endswith("_bias") or name[2:] in ("b_in", "b_out")):
                continue
            first[name] += 0.1 * (gradient[name] - first[name])
            second[name] += 0.01 * (gradient[name] ** 2 - second[name])
            size = np.sqrt(second[name] / (1 - 0.99 ** (step + 1))) + 1e-8
            array -= _RATE * first[name] / (1 - 0.9 ** (step + 1)) / size


def hard_model(weights: Weights) -> HardTransformer:
    """Return a model at temperature 0; its `soft` method is the trained model."""
    blocks = []
    for i in range(DEPTH):
        w = {name: weights[f"{i}.{name}"] for name in _BLOCK}
        heads = [
            AttentionHead(
                w["query"][h],
                w["keys"][h],
                w["values"][h],
                w["output"][h],
                query_bias=w["query_bias"][h],
            )
            for h in range(N_HEADS)
        ]
        blocks.append(Block(heads, FeedForward(w["w_in"], w["b_in"], w["w_out"], w["b_out"])))
    return HardTransformer(
        blocks,
        embedding=(weights["embed"], weights["embed_bias"]),
        readout=(weights["read"], weights["read_bias"]),
    )


def stored_weights(seed: int, with_bias: bool, step: int) -> Weights:
    """Read the stored weights of a run at one of `STEPS`.

    Examples:
        >>> sorted(stored_weights(0, True, 0))[:3]
        ['0.b_in', '0.b_out', '0.keys']
    """
    content = files("hardmax.papers.experiments.beyond").joinpath(_FILE).read_bytes()
    with np.load(BytesIO(content), allow_pickle=False) as stored:
        flat = stored[f"{seed}.{int(with_bias)}.{step}"].astype(np.float64)
    weights, at = {}, 0
    for name, array in initial_weights(0, with_bias).items():
        weights[name] = flat[at : at + array.size].reshape(array.shape)
        at += array.size
    return weights


def main() -> None:
    """Train every run and write the data file next to this module, in float32."""
    kept: dict[str, Any] = {}
    points = spirals()
    for with_bias in (True, False):
        for seed in SEEDS:
            for step, weights in zip(STEPS, train(seed, with_bias), strict=True):
                flat = np.concatenate([array.ravel() for array in weights.values()])
                kept[f"{seed}.{int(with_bias)}.{step}"] = flat.astype(np.float32)
            loss, right, _ = loss_and_gradient(weights, *points)
            print(
                f"bias {with_bias}, seed {seed}: loss {loss:.4f}, accuracy {right:.3f}", flush=True
            )
    np.savez_compressed(Path(__file__).with_name(_FILE), **kept)


if __name__ == "__main__":
    main()
