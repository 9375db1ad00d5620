"""The interface that all models share: everything follows from a model's argmax network."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hardmax._ground.pickling import cached_attribute
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.evaluation import affine_map, forward, signature, soft
from hardmax.typing import ArrayLike, FloatArray, IntArray


class ArgmaxModel(ABC):
    """A model made of affine maps with argmax layers between them.

    A point has shape `(dim_in,)` and a batch `(n_points, dim_in)`. Results have the leading axis of
    the batch, or none for a single point.
    """

    @cached_attribute
    def network(self) -> ArgmaxNetwork:
        """The model as argmax layers, the form that every engine uses."""
        return self._build_network()

    @abstractmethod
    def _build_network(self) -> ArgmaxNetwork: ...

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """The number of parameters that the model stores."""

    @property
    def dim_in(self) -> int:
        """The dimension of the input space."""
        return self.network.dim_in

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.network.dim_out

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the hard model with exact winners (see `evaluation.forward`)."""
        return forward(self.network, x)

    def soft(self, x: ArrayLike, tau: float | Sequence[float]) -> FloatArray:
        """Evaluate the model with softmax heads at temperature `tau` (see `evaluation.soft`).

        ReLU and maxout units stay hard, so a model without heads is unchanged.
        """
        return soft(self.network, x, tau)

    def signature(self, x: ArrayLike) -> IntArray:
        """Return the index of the exact winner in every group; if several tie, of the first."""
        return signature(self.network, x)

    def affine_map(self, signature: Sequence[int] | IntArray) -> tuple[FloatArray, FloatArray]:
        """Return `A` and `b` such that the output is `x @ A + b` on the cell of a signature."""
        return affine_map(self.network, signature)
