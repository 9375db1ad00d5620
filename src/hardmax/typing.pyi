"""The definitions of the aliases of `hardmax.typing` for type checkers."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray

from hardmax.geometry.domain_protocol import Domain
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block
from hardmax.regions.charted_domains import ChartedDomain

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
SignArray: TypeAlias = NDArray[np.int8]
WideArray: TypeAlias = NDArray[np.object_]
AnyArray: TypeAlias = NDArray[Any]

class _HasNetwork(Protocol):
    @property
    def network(self) -> ArgmaxNetwork: ...

class TorchModule(Protocol):
    """A torch module, recognized by its methods, so that torch need not be installed."""

    def parameters(self, recurse: bool = ...) -> Iterator[Any]: ...
    def named_modules(self) -> Iterator[tuple[str, Any]]: ...

ModelLike: TypeAlias = (
    _HasNetwork
    | ArgmaxNetwork
    | AttentionHead
    | Block
    | str
    | os.PathLike[str]
    | TorchModule
    | Sequence[TorchModule]
)
DomainLike: TypeAlias = Domain | ChartedDomain | str

__all__ = [
    "AnyArray",
    "ArrayLike",
    "BoolArray",
    "DomainLike",
    "FloatArray",
    "IntArray",
    "ModelLike",
    "SignArray",
    "TorchModule",
    "WideArray",
]
