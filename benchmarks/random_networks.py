"""Weights of ReLU networks for the comparison with other programs."""

import itertools
from typing import NamedTuple

import numpy as np

from hardmax.models.networks import ReluNetwork
from hardmax.typing import FloatArray


class Weights(NamedTuple):
    """The layers of a network, the output layer last."""

    weights: list[FloatArray]
    biases: list[FloatArray]

    @property
    def hidden(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """The layers that are counted."""
        return self.weights[:-1], self.biases[:-1]

    @property
    def dim(self) -> int:
        """The number of inputs."""
        return len(self.weights[0])

    @property
    def model(self) -> ReluNetwork:
        """The network."""
        return ReluNetwork(self.weights, self.biases)


def folding_network(n_folds: int, depth: int, shear: float = 0.05) -> Weights:
    """Fold both coordinates of the unit square repeatedly: `n_folds^(2 depth)` cells.

    With a shear, the walls form no grid, and there are somewhat fewer cells.
    """
    first = np.kron(np.eye(2), np.ones((1, n_folds)))
    bias = np.tile([1.0, *(-np.arange(1, n_folds) / n_folds)], 2)
    rise = 0.96 * n_folds
    gains = [rise, *(2 * rise * (-1.0) ** np.arange(1, n_folds))]
    out = np.kron(np.eye(2), np.reshape(gains, (-1, 1)))
    shift = np.full(2, 0.02 - rise)
    mix, middle = np.array([[1 - shear, shear], [-shear, 1 - shear]]), np.array([0.0, shear])
    weights, biases = [first], [bias]
    for _ in range(depth - 1):
        weights.append(out @ mix @ first)
        biases.append((shift @ mix + middle) @ first + bias)
    return Weights([*weights, out], [*biases, shift])


def gaussian_weights(seed: int, *sizes: int, bias: float = 0.5) -> Weights:
    """Draw weights N(0, 2 / fan-in) and biases N(0, bias^2), rounded to float32."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan, width in itertools.pairwise([*sizes, 1]):
        drawn = rng.normal(0, np.sqrt(2 / fan), (width, fan))
        weights.append(drawn.astype(np.float32).astype(np.float64).T)
        biases.append(bias / 0.5 * rng.normal(0, 0.5, width).astype(np.float32).astype(np.float64))
    return Weights(weights, biases)


def integer_weights(seed: int, *sizes: int) -> Weights:
    """Draw weights and biases in -2, ..., 2."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise([*sizes, 1]))
    return Weights(
        [rng.integers(-2, 3, pair).astype(np.float64) for pair in pairs],
        [rng.integers(-2, 3, n).astype(np.float64) for _, n in pairs],
    )
