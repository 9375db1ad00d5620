"""Reading which forms of a group are meant."""

from typing import Any

import numpy as np

from hardmax.arguments import Sizes
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.typing import BoolArray, IntArray


def selected_indices(name: str, value: Any, n_forms: int) -> IntArray:
    """Read a non-empty list of form indices."""
    indices = Sizes().ints(name, value, ("n_picked",))
    if not (indices.min() >= 0 and indices.max() < n_forms):
        raise ArgumentError(
            f"`{name}` must hold indices from 0 to {n_forms - 1}; "
            f"got {indices.min()} to {indices.max()}."
        )
    return indices


def selected_mask(name: str, value: Any, n_forms: int) -> BoolArray:
    """Read one truth value for each form."""
    mask = np.asarray(value)
    if mask.dtype != np.bool_:
        raise DtypeError(f"`{name}` must hold truth values; got dtype {mask.dtype}.")
    if mask.shape != (n_forms,):
        raise ShapeMismatchError(f"`{name}` must have shape ({n_forms},); got {mask.shape}.")
    return mask
