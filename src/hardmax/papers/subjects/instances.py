"""Small models on which several claims are tested, and exact facts about them."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray


def sign_head() -> AttentionHead:
    """Return the head on a line with keys and values -1 and 1: its hard output is a sign."""
    ends = np.array([[-1.0], [1.0]])
    return AttentionHead(np.eye(1), ends, ends, np.eye(1))


def attention_only(heads: Sequence[AttentionHead]) -> HardTransformer:
    """Return heads without residual connection and feed-forward layer, as a model."""
    return HardTransformer([Block(list(heads), attention_residual=False)])


def absolute_value() -> ReluNetwork:
    """Return |x| on a line as a ReLU network."""
    return ReluNetwork([np.array([[1.0, -1.0]]), np.array([[1.0], [1.0]])])


def positive_minimum() -> ReluNetwork:
    """Return max(0, min(x, y)): its zero region is not convex."""
    first = np.array([[1.0, -1.0, 1.0], [0.0, 0.0, -1.0]])
    return ReluNetwork([first, np.array([[1.0], [-1.0], [-1.0]]), np.eye(1)])


def largest_jump(model: Any) -> Fraction:
    """Return the exact largest jump of a model on the line over its walls; 0 if continuous."""
    part = enumerate_regions(model, WholeSpace(1))
    order = np.argsort(part.exact_witnesses[:, 0])
    largest = Fraction(0)
    for wall, (left, right) in zip(part.breakpoints, pairwise(order), strict=True):
        below, above = (_values(part.exact_map(int(cell)), wall) for cell in (left, right))
        largest = max([largest, *(abs(b - a) for a, b in zip(below, above, strict=True))])
    return largest


def _values(forms: Any, at: Fraction) -> list[Fraction]:
    scale = Fraction(2) ** forms.exponent / forms.denominator
    return [(int(slope) * at + int(offset)) * scale for slope, offset in forms.rows]


def forms_of_keys(keys: FloatArray, bias: FloatArray | None = None) -> AffineForms:
    """Return the scores of keys, as affine forms on query space."""
    return AffineForms(keys, np.zeros(len(keys)) if bias is None else bias)


def integer_keys(seed: int, n_keys: int, dim: int, largest: int = 99) -> FloatArray:
    """Return random integer keys, for which all derived quantities are small and exact."""
    rng = np.random.default_rng(seed)
    return rng.integers(-largest, largest + 1, size=(n_keys, dim)).astype(np.float64)
