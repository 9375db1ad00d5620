r"""One step through a layer, and the way through a network, for any kind of number.

A layer is $z \mapsto [z +]\; y(z W_q + b_q)\, W_y + b_y$ (see `ArgmaxLayer`), whatever $z$ is:
floats, floats with radii, limbs, balls, integers, or affine forms. What the groups contribute to
$y$, and what is noted on the way, is the business of each pass; the rest is written here once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Generic, TypeVar

import numpy as np

from hardmax.models._arithmetic.enclosures import Enclosed, enclosed_sum
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import FloatArray

Vectors = TypeVar("Vectors")


@dataclass(frozen=True)
class Numbers(Generic[Vectors]):
    """How to compute with vectors of one kind of number.

    Attributes:
        apply: Applies an affine map that is not the identity.
        add: Adds what a layer makes of a stream, second, to that stream.
    """

    apply: Callable[[AffineMap, Vectors], Vectors]
    add: Callable[[Vectors, Vectors], Vectors]

    def mapped(self, affine: AffineMap, vectors: Vectors) -> Vectors:
        """Apply an affine map; the identity costs nothing."""
        return vectors if affine.is_identity else self.apply(affine, vectors)


def _on_floats(affine: AffineMap, vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors @ affine.weight + affine.bias)


def _on_enclosed(affine: AffineMap, vectors: Enclosed) -> Enclosed:
    return vectors if affine.enclosed is None else affine.enclosed(vectors)


FLOATS: Numbers[FloatArray] = Numbers(_on_floats, add)
"""Float64, rounded: a vector `(width,)` or a batch `(n, width)`."""

ENCLOSED: Numbers[Enclosed] = Numbers(_on_enclosed, enclosed_sum)
"""Float64 with a radius for each entry, in batches."""


Contribute = Callable[[Place, Vectors], Vectors]
r"""From a layer and its query $q$ to the blocks $y$ that its groups fill."""


def advance(
    place: Place, stream: Vectors, numbers: Numbers[Vectors], contribute: Contribute[Vectors]
) -> Vectors:
    """Take a stream through one layer.

    Examples:
        The ReLU of two floats, added to them:

        >>> from hardmax.models.networks import relu_layer
        >>> identity = AffineMap.identity(2)
        >>> layer = relu_layer(identity, identity, residual=True)
        >>> [place] = ArgmaxNetwork([layer], identity, identity).places
        >>> advance(place, np.array([3.0, -2.0]), FLOATS, lambda _, query: np.maximum(query, 0.0))
        array([ 6., -2.])
    """
    blocks = contribute(place, numbers.mapped(place.layer.query, stream))
    return passed_on(place.layer, stream, blocks, numbers)


def passed_on(
    layer: ArgmaxLayer, stream: Vectors, blocks: Vectors, numbers: Numbers[Vectors]
) -> Vectors:
    """The second half of `advance`: from what the groups contributed to the next stream."""
    result = numbers.mapped(layer.output, blocks)
    return numbers.add(stream, result) if layer.residual else result


def evaluate(
    network: ArgmaxNetwork,
    points: Vectors,
    numbers: Numbers[Vectors],
    contribute: Contribute[Vectors],
    chart: AffineMap | None = None,
) -> Vectors:
    """Take points through a network; return the outputs.

    Args:
        network: The network.
        points: What goes in.
        numbers: How to compute with it.
        contribute: What the groups of each layer contribute.
        chart: If given, the points are coordinates, and this map gives the inputs.
    """
    stream = _embedded(network, points, numbers, chart)
    for place in network.places:
        stream = advance(place, stream, numbers, contribute)
    return numbers.mapped(network.readout, stream)


def decide(
    network: ArgmaxNetwork,
    points: Vectors,
    numbers: Numbers[Vectors],
    contribute: Contribute[Vectors],
    chart: AffineMap | None = None,
) -> None:
    """Take points through a network until the last group has contributed, and no further."""
    stream = _embedded(network, points, numbers, chart)
    for place in network.places:
        if place.depth + 1 < len(network.layers):
            stream = advance(place, stream, numbers, contribute)
        else:
            contribute(place, numbers.mapped(place.layer.query, stream))


def _embedded(
    network: ArgmaxNetwork, points: Vectors, numbers: Numbers[Vectors], chart: AffineMap | None
) -> Vectors:
    stream = points if chart is None else numbers.mapped(chart, points)
    return numbers.mapped(network.embedding, stream)
