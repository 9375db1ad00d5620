r"""Evaluation of a layer and of a network, generic in the kind of number.

A layer is $z \mapsto [z +]\; y(z W_q + b_q)\, W_y + b_y$ (see `ArgmaxLayer`). The entries of $z$
may be floats, floats with radii, limbs, balls, integers, or affine forms. Each pass computes the
contributions of the groups to $y$ itself, and records what it needs; this module does the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Generic, TypeVar

import numpy as np

from hardmax.models._arithmetic.enclosures import Enclosed, add_enclosures
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import FloatArray

Vectors = TypeVar("Vectors")


@dataclass(frozen=True)
class VectorBackend(Generic[Vectors]):
    """The arithmetic of vectors of one kind of number.

    Attributes:
        apply: Applies an affine map that is not the identity.
        add: Adds the result of a layer (second argument) to its input stream (first argument).
    """

    apply: Callable[[AffineMap, Vectors], Vectors]
    add: Callable[[Vectors, Vectors], Vectors]

    def apply_affine(self, affine: AffineMap, vectors: Vectors) -> Vectors:
        """Apply an affine map; the identity returns its argument."""
        return vectors if affine.is_identity else self.apply(affine, vectors)


def _apply_to_floats(affine: AffineMap, vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors @ affine.weight + affine.bias)


def _apply_to_enclosures(affine: AffineMap, vectors: Enclosed) -> Enclosed:
    return vectors if affine.enclosed is None else affine.enclosed(vectors)


FLOATS: VectorBackend[FloatArray] = VectorBackend(_apply_to_floats, add)
"""Float64, rounded: a vector `(width,)` or a batch `(n, width)`."""

ENCLOSED: VectorBackend[Enclosed] = VectorBackend(_apply_to_enclosures, add_enclosures)
"""Float64 with a radius for each entry, in batches."""


Contribute = Callable[[Place, Vectors], Vectors]
r"""Takes a layer and its query $q$, and returns the blocks $y$ that the groups fill."""


def advance(
    place: Place, stream: Vectors, backend: VectorBackend[Vectors], contribute: Contribute[Vectors]
) -> Vectors:
    """Apply one layer to a stream.

    Examples:
        The ReLU of two floats, added to them:

        >>> from hardmax.models.networks import relu_layer
        >>> identity = AffineMap.identity(2)
        >>> layer = relu_layer(identity, identity, residual=True)
        >>> [place] = ArgmaxNetwork([layer], identity, identity).places
        >>> advance(place, np.array([3.0, -2.0]), FLOATS, lambda _, query: np.maximum(query, 0.0))
        array([ 6., -2.])
    """
    blocks = contribute(place, backend.apply_affine(place.layer.query, stream))
    return finish_layer(place.layer, stream, blocks, backend)


def finish_layer(
    layer: ArgmaxLayer, stream: Vectors, blocks: Vectors, backend: VectorBackend[Vectors]
) -> Vectors:
    """Do the second half of `advance`: return the next stream from the groups' contributions."""
    result = backend.apply_affine(layer.output, blocks)
    return backend.add(stream, result) if layer.residual else result


def evaluate(
    network: ArgmaxNetwork,
    points: Vectors,
    backend: VectorBackend[Vectors],
    contribute: Contribute[Vectors],
    chart: AffineMap | None = None,
) -> Vectors:
    """Evaluate a network.

    Args:
        network: The network.
        points: The inputs.
        backend: The arithmetic.
        contribute: Computes the contributions of the groups of each layer.
        chart: If given, the points are coordinates, and this map takes them to inputs.
    """
    stream = _embed(network, points, backend, chart)
    for place in network.places:
        stream = advance(place, stream, backend, contribute)
    return backend.apply_affine(network.readout, stream)


def decide(
    network: ArgmaxNetwork,
    points: Vectors,
    backend: VectorBackend[Vectors],
    contribute: Contribute[Vectors],
    chart: AffineMap | None = None,
) -> None:
    """Evaluate a network up to the contributions of its last layer, and discard the result."""
    stream = _embed(network, points, backend, chart)
    for place in network.places:
        if place.depth + 1 < len(network.layers):
            stream = advance(place, stream, backend, contribute)
        else:
            contribute(place, backend.apply_affine(place.layer.query, stream))


def _embed(
    network: ArgmaxNetwork,
    points: Vectors,
    backend: VectorBackend[Vectors],
    chart: AffineMap | None,
) -> Vectors:
    stream = points if chart is None else backend.apply_affine(chart, points)
    return backend.apply_affine(network.embedding, stream)
