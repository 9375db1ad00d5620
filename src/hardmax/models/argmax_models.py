"""What every model can do, once it says which argmax network it is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hardmax._ground.pickling import quickly_cached
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.evaluation import affine_map, forward, signature, soft
from hardmax.typing import ArrayLike, FloatArray, IntArray


class ArgmaxModel(ABC):
    """A model that is affine maps with argmax layers between them.

    A point has shape `(dim_in,)`, a batch `(n_points, dim_in)`; results have the same leading axis
    or none.
    """

    @quickly_cached
    def network(self) -> ArgmaxNetwork:
        """The model as argmax layers: what every engine works on."""
        return self._build_network()

    @abstractmethod
    def _build_network(self) -> ArgmaxNetwork: ...

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """How many numbers the model stores."""

    @property
    def dim_in(self) -> int:
        """The dimension of the input space."""
        return self.network.dim_in

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return self.network.dim_out

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the hard model, every winner decided exactly (see `evaluation.forward`)."""
        return forward(self.network, x)

    def soft(self, x: ArrayLike, tau: float | Sequence[float]) -> FloatArray:
        """Evaluate the model with its heads softened (see `evaluation.soft`).

        ReLU and maxout units stay hard, so a model without heads is unchanged.
        """
        return soft(self.network, x, tau)

    def signature(self, x: ArrayLike) -> IntArray:
        """Find the exact winner in every group, the first on a tie (`evaluation.signature`)."""
        return signature(self.network, x)

    def affine_map(self, signature: Sequence[int] | IntArray) -> tuple[FloatArray, FloatArray]:
        """Return `A` and `b` with output `x @ A + b` on the cell of a signature."""
        return affine_map(self.network, signature)
